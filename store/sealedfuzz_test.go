package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// A sealed result is opened only if not one of its bits was changed, with any bytes that another program puts in its
// place.
func FuzzSealed(f *testing.F) {
	f.Add([]byte("result"), uint(0), byte(0), []byte(nil))
	f.Add([]byte("result"), uint(3), byte(1), []byte(nil))
	f.Add([]byte{}, uint(40), byte(0x80), []byte("\xf5RS\x01\x01a"))
	f.Add([]byte("x"), uint(4), byte(0xff), []byte("\xf5RS\x02"))
	f.Fuzz(func(t *testing.T, result []byte, place uint, mask byte, foreign []byte) {
		inner := memstore.New()
		st := store.Sealed(inner, keyring(t, store.SealKeys{Seal: sealKey("a")}))
		complete := func(st store.Store, key string, result []byte) {
			g, err := st.Reserve(t.Context(),
				store.Claim{ID: store.ID{Key: key}, Lease: time.Hour, Retention: time.Hour})
			require.NoError(t, err)
			require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: result}))
		}
		complete(st, "k", result)
		got, err := st.Find(t.Context(), store.ID{Key: "k"})
		require.NoError(t, err)
		require.Equal(t, result, got.Result)
		raw, err := inner.Find(t.Context(), store.ID{Key: "k"})
		require.NoError(t, err)

		for _, damaged := range [][]byte{flipped(raw.Result, place, mask), foreign} {
			if string(damaged) == string(raw.Result) || damaged == nil {
				continue
			}
			other := memstore.New()
			complete(other, "k", damaged)
			_, err := store.Sealed(other, keyring(t, store.SealKeys{Seal: sealKey("a")})).Find(t.Context(),
				store.ID{Key: "k"})
			require.ErrorIs(t, err, store.ErrUnavailable)
		}
	})
}

// flipped returns a copy of b with the bits of mask changed in one byte.
func flipped(b []byte, place uint, mask byte) []byte {
	b = append([]byte{}, b...)
	if len(b) > 0 {
		b[place%uint(len(b))] ^= mask
	}
	return b
}

package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A row of any values is a record that keeps them, or is refused as damaged or as newer.
func FuzzRow(f *testing.F) {
	f.Add(make([]byte, 33), []byte("owner"), []byte("result"), []byte("meta"),
		int16(1), int16(2), int64(7), int64(5), int8(0))
	f.Add(make([]byte, 32), []byte{}, []byte(nil), []byte(nil), int16(1), int16(1), int64(-1), int64(0), int8(1))
	f.Add([]byte(nil), []byte{}, []byte(nil), []byte(nil), int16(2), int16(9), int64(1), int64(0), int8(-1))
	f.Fuzz(func(
		t *testing.T, fingerprint, owner, result, meta []byte, version, state int16, fence, micros int64, infinite int8,
	) {
		at := pgtype.Timestamptz{
			Time: time.UnixMicro(micros), Valid: true, InfinityModifier: pgtype.InfinityModifier(infinite % 2),
		}
		r := row{
			id: store.ID{Scope: "s", Key: "k"}, format: zeronull.Int2(version), state: zeronull.Int2(state),
			fingerprint: fingerprint, owner: owner, result: result, meta: meta, fence: zeronull.Int8(fence),
			createdAt: at, leaseUntil: at, expiresAt: at, readAt: at,
		}
		rec, err := r.record()
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotEqual(t, errors.Is(err, ErrVersion), errors.Is(err, store.ErrDamaged), "exactly one reason: %v",
				err)
			require.Equal(t, store.Record{}, rec)
			sound := version <= format && len(fingerprint) == 33 && fence > 0 && infinite%2 == 0 &&
				state >= int16(store.StatePending) && state <= int16(store.StateFailed)
			require.False(t, sound, "a sound row is refused: %v", err)
			return
		}
		require.Equal(t, string(fingerprint), string(rec.Fingerprint[:]))
		require.Equal(t, []int64{int64(state), fence, micros},
			[]int64{int64(rec.State), int64(rec.Fence), rec.ExpiresAt.UnixMicro()})
		require.Equal(t, []string{string(owner), string(result), string(meta)},
			[]string{rec.Owner, string(rec.Result), string(rec.Meta)})
	})
}

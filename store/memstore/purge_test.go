package memstore_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

const expired = 3200 // about a hundred in each shard

// expire returns a store whose records have all expired.
func expire(t *testing.T) *memstore.Store {
	t.Helper()
	st := memstore.New()
	for i := range expired {
		_, err := st.Reserve(t.Context(), store.Claim{ID: store.ID{Key: strconv.Itoa(i)}, Retention: time.Second})
		require.NoError(t, err)
	}
	time.Sleep(time.Second)
	return st
}

func TestPurgeDeletesExactlyItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := expire(t)
		for left := expired; left > 0; left -= 100 {
			n, err := st.Purge(t.Context(), 100)
			require.NoError(t, err)
			require.Equal(t, 100, n)
		}
		n, err := st.Purge(t.Context(), 100)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestReserveOfANewRecordDeletesTwoExpiredOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := expire(t)
		claim := store.Claim{ID: store.ID{Key: "new"}, Retention: time.Minute}
		for _, want := range []store.Verdict{store.Acquired, store.TakenOver, store.TakenOver} {
			g, err := st.Reserve(t.Context(), claim)
			require.NoError(t, err)
			require.Equal(t, want, g.Verdict)
		}
		n, err := st.Purge(t.Context(), expired)
		require.NoError(t, err)
		require.Equal(t, expired-2, n)
	})
}

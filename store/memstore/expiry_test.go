package memstore_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// Expiries are set, moved and taken away at random. Each record is purged in the second in which it expires. The
// batches leave no expired record behind.
func TestPurgeFollowsEveryMoveOfAnExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const records = 2000
		random := rand.New(rand.NewPCG(1, 2))
		st := memstore.New()
		due := map[int]int{} // by the second in which they expire
		for i := range records {
			c := store.Claim{ID: store.ID{Key: strconv.Itoa(i)}, Retention: seconds(1 + random.IntN(30))}
			g, err := st.Reserve(t.Context(), c)
			require.NoError(t, err)
			expiry := int(c.Retention / time.Second)
			switch random.IntN(5) {
			case 0:
				lease := 1 + random.IntN(60)
				require.NoError(t, st.Extend(t.Context(), g.Lease, seconds(lease), nil))
				expiry = max(expiry, lease)
			case 1:
				expiry = 1 + random.IntN(60)
				require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Retention: seconds(expiry)}))
			case 2:
				require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Retention: store.Forever}))
				continue
			case 3:
				require.NoError(t, st.Release(t.Context(), g.Lease))
				continue
			}
			due[expiry]++
		}
		for second := 1; second <= 60; second++ {
			time.Sleep(time.Second)
			purged := 0
			for {
				n, err := st.Purge(t.Context(), 7)
				require.NoError(t, err)
				purged += n
				if n < 7 {
					break
				}
			}
			require.Equal(t, due[second], purged, "in second %d", second)
		}
	})
}

// A record that replaces an expired one is another record: no purge deletes it as the expired one.
func TestPurgeLeavesTheSuccessorOfAnExpiredRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const records = 500 // several in each shard: a Reserve frees the two that expired first
		st := memstore.New()
		claim := func(i int, retention time.Duration) store.Verdict {
			g, err := st.Reserve(t.Context(), store.Claim{ID: store.ID{Key: strconv.Itoa(i)}, Retention: retention})
			require.NoError(t, err)
			return g.Verdict
		}
		for i := range records {
			require.Equal(t, store.Acquired, claim(i, time.Second+time.Duration(i)))
		}
		time.Sleep(2 * time.Second)
		for i := records - 1; i >= 0; i-- { // the last to expire is the first to be replaced
			require.Equal(t, store.Acquired, claim(i, time.Hour))
		}
		n, err := st.Purge(t.Context(), 2*records)
		require.NoError(t, err)
		require.Zero(t, n, "each was freed by its successor")
		for i := range records {
			_, err := st.Find(t.Context(), store.ID{Key: strconv.Itoa(i)})
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Hour)
		n, err = st.Purge(t.Context(), 2*records)
		require.NoError(t, err)
		require.Equal(t, records, n, "the successors expire in their turn")
	})
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

package memstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// The figures are exact: a call allocates the bytes that it must keep and the copies that it hands out. The maps
// grow in the background of the first two, which is less than one allocation a call and rounded down.
func TestAllocations(t *testing.T) {
	const runs = 1000
	ctx := t.Context()
	st := memstore.New()
	ids := make([]store.ID, 2*(runs+1))
	for i := range ids {
		ids[i] = store.ID{Scope: "POST /refunds", Key: strconv.Itoa(i)}
	}
	leases := make([]store.Lease, 0, len(ids))
	next := 0
	claim := func(meta []byte) func() {
		return func() {
			g, err := st.Reserve(ctx, store.Claim{ID: ids[next], Lease: time.Minute, Retention: time.Hour, Meta: meta})
			if err != nil || g.Verdict != store.Acquired {
				t.Errorf("verdict %v, error %v", g.Verdict, err)
			}
			leases = append(leases, g.Lease)
			next++
		}
	}
	require.Equal(t, 1.0, testing.AllocsPerRun(runs, claim(nil)), "the first Reserve of a key")
	require.Equal(t, 3.0, testing.AllocsPerRun(runs, claim([]byte("meta"))), "the same with a meta, copied in and out")

	result := make([]byte, 512)
	require.Equal(t, 1.0, testing.AllocsPerRun(runs, func() {
		if err := st.Complete(ctx, leases[0], store.Outcome{Result: result}); err != nil {
			t.Error(err)
		}
		leases = leases[1:]
	}), "Complete")

	replay := store.Claim{ID: ids[0], Lease: time.Minute, Retention: time.Hour}
	require.Equal(t, 1.0, testing.AllocsPerRun(runs, func() {
		if g, err := st.Reserve(ctx, replay); err != nil || g.Verdict != store.Complete {
			t.Errorf("verdict %v, error %v", g.Verdict, err)
		}
	}), "the Reserve that replays")

	require.Zero(t, testing.AllocsPerRun(runs, func() {
		if err := st.Extend(ctx, leases[0], time.Minute, nil); err != nil {
			t.Error(err)
		}
	}), "Extend")
}

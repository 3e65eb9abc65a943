package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// A slotMove moves a shard's slot to another primary, as an operator's tools do it. Both nodes learn of it, then the
// keys move, then all nodes learn of it.
type slotMove struct {
	cluster  *cluster
	slot     string
	from, to *engine
}

func (c *cluster) moveOf(t *testing.T, tag string, to *engine) slotMove {
	t.Helper()
	slot, err := command(t, c.url(), "CLUSTER", "KEYSLOT", "{"+tag+"}").AsInt64()
	require.NoError(t, err)
	for _, e := range c.primaries {
		if n, err := command(t, e.url(), "CLUSTER", "COUNTKEYSINSLOT", fmt.Sprint(slot)).AsInt64(); err == nil &&
			n > 0 {
			return slotMove{cluster: c, slot: fmt.Sprint(slot), from: e, to: to}
		}
	}
	t.Fatal("no primary holds the shard")
	return slotMove{}
}

func (m slotMove) begin(t *testing.T) {
	t.Helper()
	m.to.must(t, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.from.id(t))
	m.from.must(t, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.to.id(t))
}

// carry moves some of the keys, and returns how many.
func (m slotMove) carry(t *testing.T, limit int) int {
	t.Helper()
	keys, err := command(t, m.from.url(), "CLUSTER", "GETKEYSINSLOT", m.slot, fmt.Sprint(limit)).AsStrSlice()
	require.NoError(t, err)
	if len(keys) > 0 {
		m.from.must(t,
			append([]string{"MIGRATE", "127.0.0.1", fmt.Sprint(m.to.port), "", "0", "5000", "KEYS"}, keys...)...)
	}
	return len(keys)
}

func (m slotMove) end(t *testing.T) {
	t.Helper()
	for m.carry(t, 1000) > 0 {
	}
	id := m.to.id(t)
	for _, e := range append([]*engine{m.to, m.from}, m.cluster.primaries...) {
		e.must(t, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	}
}

func (c *cluster) otherThan(t *testing.T, e *engine) *engine {
	t.Helper()
	for _, other := range c.primaries {
		if other != e {
			return other
		}
	}
	t.Fatal("there is one primary only")
	return nil
}

func TestSlotMoves(t *testing.T) {
	c := privateCluster(t)
	for rule, opts := range map[string][]redisstore.Option{
		"callers at work notice nothing of a move":                   nil,
		"nor do those that wait for replicas, on lines of their own": {redisstore.WithReplicas(1, patience)},
	} {
		t.Run(rule, func(t *testing.T) {
			st := open(t, c.url(), append(opts, redisstore.WithPrefix(prefix(t, c.url())))...)
			tag := redisstore.ShardTag(st, claim(t.Name()).ID)
			first := acquire(t, st, claim(keyIn(st, tag, 0))).Lease // the shard is somewhere now
			m := c.moveOf(t, tag, nil)
			m.to = c.otherThan(t, m.from)

			var (
				wg      sync.WaitGroup
				calls   atomic.Int64
				stop    = make(chan struct{})
				settled [8][]store.Lease
			)
			for i := range settled {
				wg.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
						}
						l, err := settle(t, st, claim(keyIn(st, tag, 1+i+n*len(settled))))
						if err != nil {
							t.Errorf("caller %d, call %d: %v", i, n, err)
							return
						}
						settled[i] = append(settled[i], l)
						calls.Add(1)
					}
				})
			}
			more := func(n int64) {
				want := calls.Load() + n
				until(t, "the callers go on", func() bool { return t.Failed() || calls.Load() >= want })
			}
			more(20)
			m.begin(t)
			m.carry(t, 5) // from here on the shard is in two places
			m.end(t)
			more(20)
			close(stop)
			wg.Wait()
			require.NoError(t, st.Complete(t.Context(), first, store.Outcome{}))
			for _, l := range append([]store.Lease{first}, slices.Concat(settled[:]...)...) {
				r := mustFind(t, st, l.ID)
				require.Equal(t, store.StateComplete, r.State)
				require.Equal(t, l.Fence, r.Fence)
			}
			n := 0
			for _, err := range st.Pending(t.Context(), "") {
				require.NoError(t, err)
				n++
			}
			require.Zero(t, n)
		})
	}

	t.Run("a list waits for a move", func(t *testing.T) {
		st := open(t, c.url(), redisstore.WithPrefix(prefix(t, c.url())))
		tag := redisstore.ShardTag(st, claim(t.Name()).ID)
		for i := range 3 {
			acquire(t, st, claim(keyIn(st, tag, i)))
		}
		m := c.moveOf(t, tag, nil)
		m.to = c.otherThan(t, m.from)
		m.begin(t)
		m.carry(t, 1) // of four: the records and the index
		refused := "errorstat_TRYAGAIN"
		before := m.from.info(t, "errorstats")[refused] + m.to.info(t, "errorstats")[refused]
		type list struct {
			n   int
			err error
		}
		listed := make(chan list, 1)
		go func() {
			var l list
			for _, err := range st.Pending(t.Context(), "") {
				l.n, l.err = l.n+1, errors.Join(l.err, err)
			}
			listed <- l
		}()
		until(t, "the list meets the move", func() bool {
			return m.from.info(t, "errorstats")[refused]+m.to.info(t, "errorstats")[refused] != before
		})
		m.end(t)
		require.Equal(t, list{n: 3}, <-listed)
	})

	t.Run("a move that does not end is unavailable, and nothing is written", func(t *testing.T) {
		st := open(t, c.url(), redisstore.WithPrefix(prefix(t, c.url())))
		tag := redisstore.ShardTag(st, claim(t.Name()).ID)
		l := acquire(t, st, claim(keyIn(st, tag, 0))).Lease
		m := c.moveOf(t, tag, nil)
		m.to = c.otherThan(t, m.from)
		m.begin(t)
		m.carry(t, 1) // of two: the record and the index
		err := st.Complete(t.Context(), l, store.Outcome{})
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknown)
		m.end(t)
		require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
	})
}

// settle reserves and completes.
func settle(t *testing.T, st *redisstore.Store, c store.Claim) (store.Lease, error) {
	g, err := st.Reserve(t.Context(), c)
	if err != nil {
		return store.Lease{}, err
	}
	if g.Verdict != store.Acquired {
		return store.Lease{}, errors.New("the verdict is " + g.Verdict.String())
	}
	return g.Lease, st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte(c.ID.Key)})
}

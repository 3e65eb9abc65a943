package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

const racers = 64

// race calls f from 64 goroutines that start together, and returns their errors as one.
func race(f func(i int) error) error {
	var wg sync.WaitGroup
	var errs [racers]error
	start := make(chan struct{})
	for i := range racers {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs[:]...)
}

func TestOneOf64CallersOverTwoPoolsWins(t *testing.T) {
	p := newPlace(t)
	p.conns = 24
	stores := []store.Store{p.open(t), p.open(t)}
	settled := func(key string) store.Claim {
		c := claim(key)
		g := reserve(t, stores[0], c, store.Acquired)
		require.NoError(t, stores[0].Complete(t.Context(), g.Lease, store.Outcome{Retention: time.Microsecond}))
		return c
	}
	for name, c := range map[string]struct {
		claim func(key string) store.Claim
		want  store.Verdict
	}{
		"acquires an absent record":  {claim, store.Acquired},
		"acquires an expired record": {settled, store.Acquired},
		"takes over": {func(key string) store.Claim {
			reserve(t, stores[0], unleased(key), store.Acquired)
			return claim(key)
		}, store.TakenOver},
	} {
		t.Run(name, func(t *testing.T) {
			for round := range 16 {
				var won, fence atomic.Int64
				cl := c.claim(fmt.Sprint(name, round))
				require.NoError(t, race(func(i int) error {
					g, err := stores[i%2].Reserve(t.Context(), cl)
					switch {
					case err != nil:
						return err
					case g.Verdict == c.want:
						won.Add(1)
						fence.Store(int64(g.Lease.Fence))
					case g.Verdict != store.InFlight:
						return fmt.Errorf("verdict %v", g.Verdict)
					}
					return nil
				}))
				require.EqualValues(t, 1, won.Load())
				require.EqualValues(t, fence.Load(), find(t, stores[0], cl.ID.Key).Fence)
			}
		})
	}
}

// Owners come and go on one key as fast as they can. Each fence that is granted is larger than all earlier ones.
// The owner compares it with a counter that only the owner may touch.
func TestFenceOnlyGrowsWhileOwnersComeAndGo(t *testing.T) {
	p := newPlace(t)
	p.conns = 16
	stores := []store.Store{p.open(t), p.open(t)}
	var last atomic.Uint64
	var owned atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.NoError(t, race(func(i int) error {
		for ctx.Err() == nil {
			st := stores[i%2]
			g, err := st.Reserve(t.Context(), claim("k"))
			if err != nil {
				return err
			}
			if !g.Verdict.Owned() {
				continue
			}
			if before := last.Swap(g.Lease.Fence); before >= g.Lease.Fence {
				return fmt.Errorf("the fence went from %d to %d", before, g.Lease.Fence)
			}
			owned.Add(1)
			if err := st.Release(t.Context(), g.Lease); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Positive(t, owned.Load())
	t.Logf("%d owners", owned.Load())
}

func TestEndedLeaseIsTakenOverByTheFirstWhoAsks(t *testing.T) {
	st := newPlace(t).open(t)
	c := claim("k")
	c.Lease = time.Microsecond
	before := reserve(t, st, c, store.Acquired)
	c.Meta = []byte("another")
	g := reserve(t, st, c, store.TakenOver)
	require.Greater(t, g.Lease.Fence, before.Lease.Fence)
	require.Equal(t, []byte("meta"), g.Record.Meta)
	require.True(t, g.Record.CreatedAt.Equal(before.Record.CreatedAt))
}

func TestExpiredRecordIsTakenAnewThoughNotPurged(t *testing.T) {
	p := newPlace(t)
	st := p.open(t)
	c := unleased("k")
	c.Retention = time.Microsecond
	before := reserve(t, st, c, store.Acquired)
	c.Fingerprint, c.Meta, c.Retention = store.Fingerprint{}, nil, store.Forever
	g := reserve(t, st, c, store.Acquired)
	require.Greater(t, g.Lease.Fence, before.Lease.Fence)
	require.Nil(t, g.Record.Meta)
	require.True(t, g.Record.CreatedAt.After(before.Record.CreatedAt))
	require.True(t, g.Record.ExpiresAt.IsZero())
	var rows int
	require.NoError(t, pgtest.Connect(t, p.url).QueryRow(t.Context(), "SELECT count(*) FROM "+p.table()).Scan(&rows))
	require.Equal(t, 1, rows)
}

// The statement has read a record that it may take over, and waits for the row.
func TestARecordThatChangesWhileItIsTakenOverIsJudgedAgain(t *testing.T) {
	for change, want := range map[string]store.Verdict{
		"state = 2, lease_until = NULL":                               store.Complete,
		"fingerprint = overlay(fingerprint placing 'changed' from 9)": store.Mismatch,
		"lease_until = clock_timestamp() + '1 hour'":                  store.InFlight,
	} {
		p := newPlace(t)
		st := p.open(t)
		reserve(t, st, unleased("k"), store.Acquired)
		tx, err := pgtest.Connect(t, p.url).Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		_, err = tx.Exec(t.Context(), "UPDATE "+p.table()+" SET "+change)
		require.NoError(t, err)
		verdict := make(chan store.Verdict)
		go func() {
			g, err := st.Reserve(bounded(t), unleased("k"))
			if err != nil {
				t.Error(err)
			}
			verdict <- g.Verdict
		}()
		until(t, "the statement waits for the row", func() bool { return blocks(t, tx) })
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, want, <-verdict, change)
	}
}

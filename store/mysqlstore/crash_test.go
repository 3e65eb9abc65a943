package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
	"github.com/redo-go/redo/store/sqltx"
)

// A worker's acknowledged writes: the last fence of each key, and whether it was settled.
type ledger struct {
	mu      sync.Mutex
	fences  map[string]uint64
	settled map[string]bool
}

func (l *ledger) note(key string, fence uint64, settled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fences[key] = max(l.fences[key], fence)
	l.settled[key] = settled
}

// Acknowledged writes survive SIGKILL of the server, and each effect has its record.
func TestKilledServerLosesNothingAcknowledged(t *testing.T) {
	s := mysqltest.Private(t)
	p := newPlace(t, s.DSN)
	st := p.open(t)
	p.exec(t, "CREATE TABLE effects (id_key VARCHAR(200) NOT NULL)")
	said := &ledger{fences: map[string]uint64{}, settled: map[string]bool{}}
	top := uint64(0)
	for round := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		count := make(chan struct{})
		for w := range 8 {
			workers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					key := fmt.Sprintf("%d-%d-%d", round, w, i)
					if err := work(ctx, st, said, key, i); err != nil {
						down := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown)
						if !down && ctx.Err() == nil {
							t.Error(err)
						}
						continue
					}
					select {
					case count <- struct{}{}:
					case <-ctx.Done():
					}
				}
			})
		}
		for range 60 {
			<-count
		}
		require.NoError(t, s.Kill())
		cancel()
		workers.Wait()
		require.NoError(t, s.Start())
		for key, fence := range said.fences {
			rec, err := st.Find(t.Context(), claim(key).ID)
			require.NoError(t, err, key)
			require.Equal(t, fence, rec.Fence, key)
			if said.settled[key] {
				require.Equal(t, store.StateComplete, rec.State, key)
			}
			top = max(top, fence)
		}
		require.Greater(t, reserve(t, st, claim(fmt.Sprint("after ", round)), store.Acquired).Lease.Fence, top)
	}
	require.Positive(t, p.count(t, "SELECT COUNT(*) FROM effects"))
	require.Zero(t, p.count(t, "SELECT COUNT(*) - COUNT(DISTINCT id_key) FROM effects"), "an effect was made twice")
	require.Zero(t, p.count(t, `SELECT COUNT(*) FROM effects AS e LEFT JOIN redo_records AS r
		ON r.scope = 'scope' AND r.id_key = CAST(e.id_key AS BINARY) AND r.state = 2
		WHERE r.id IS NULL`), "an effect has no record")
}

// work does one key, in two steps or in a transaction, and notes each acknowledged write.
func work(ctx context.Context, st store.TxStore[*sqltx.Tx], said *ledger, key string, i int) error {
	if i%2 == 0 {
		tx, g, err := st.Begin(ctx, unleased(key))
		if err != nil {
			return err
		}
		if _, err = tx.Tx().ExecContext(ctx, "INSERT INTO effects VALUES (?)", key); err != nil {
			return errors.Join(store.ErrUnavailable, err, tx.Rollback(context.WithoutCancel(ctx)))
		}
		if err = tx.Commit(ctx, store.Outcome{Result: []byte(key)}); err == nil {
			said.note(key, g.Lease.Fence, true)
		}
		return err
	}
	g, err := st.Reserve(ctx, claim(key))
	if err != nil {
		return err
	}
	said.note(key, g.Lease.Fence, false)
	if i%4 == 1 {
		if err = st.Complete(ctx, g.Lease, store.Outcome{Result: []byte(key)}); err == nil {
			said.note(key, g.Lease.Fence, true)
		}
	}
	return err
}

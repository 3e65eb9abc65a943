package pgoutbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

// Relays of different settings, producers that commit out of order, failures, dead letters, redrives and drops, on few
// keys with long lines: in the end every event was delivered, none before one of its key that was known to wait, and
// none is stranded. One that is parked for good is not due before this test has given up.
func TestLongLinesStrandNoEvent(t *testing.T) {
	each := 400
	if testing.Short() {
		each = 120
	}
	l := newLines(t)
	wide := l.place
	wide.change = func(c *pgxpool.Config) { c.MaxConns = 12 } // three transactions of each producer
	makers := wide.pool(t)
	m := &ledger{
		waiting: map[string]map[uint64]*entry{},
		gone:    map[uint64]bool{},
		busy:    map[string]bool{},
		dead:    map[string]bool{},
	}
	ctx, fail := context.WithCancelCause(t.Context())
	var producers, relays sync.WaitGroup
	try := func(wg *sync.WaitGroup, f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				fail(err)
			}
		})
	}
	for k := range 4 {
		try(&producers, func() error { return m.produce(ctx, l, makers, k, each) })
	}
	produced := make(chan struct{})
	go func() { producers.Wait(); close(produced) }()
	for i := range 6 {
		q, err := pgoutbox.New(l.place.pool(t), pgoutbox.WithSchema(l.schema))
		require.NoError(t, err)
		c := outbox.Claim{Max: 1 + 3*i, Lease: time.Hour, HoldKeys: i == 5}
		try(&relays, func() error { return m.relay(ctx, q, c, produced) })
	}
	over := make(chan struct{})
	go func() { producers.Wait(); relays.Wait(); close(over) }()
	parked, look, late := 0, time.NewTicker(10*time.Millisecond), time.After(3*time.Minute)
	defer look.Stop()
	for done := false; !done; {
		select {
		case <-over:
			done = true
		case <-look.C:
			parked = max(parked, len(l.parked()))
		case <-late:
			fail(errors.New("events are stranded"))
		}
	}
	if err := context.Cause(ctx); err != nil {
		stats, _ := l.q.Stats(t.Context())
		t.Fatalf("%v; %d events wait, %d are parked", err, stats.Waiting, len(l.parked()))
	}
	stats, err := l.q.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, stats)
	var sent int
	require.NoError(t, l.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+l.table+" WHERE state = 2").Scan(&sent))
	require.Equal(t, m.made, sent+m.dropped)
	require.Positive(t, m.dropped)
	require.Positive(t, parked)
	t.Logf("%d events, %d dropped, %d parked at a time", m.made, m.dropped, parked)
}

// A ledger is what the test knows of the queue: an event is in it when its commit, or its redrive, is through, until
// somebody begins to settle it.
type ledger struct {
	mu            sync.Mutex
	waiting       map[string]map[uint64]*entry
	gone          map[uint64]bool // that somebody has begun to settle, for good or as dead
	busy          map[string]bool // keys with an event under way
	dead          map[string]bool // letters, by id, that nobody has in hand
	made, dropped int
}

type entry struct{ id string }

func (m *ledger) add(key string, seq uint64, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone[seq] {
		return // somebody was quicker
	}
	if m.waiting[key] == nil {
		m.waiting[key] = map[uint64]*entry{}
	}
	m.waiting[key][seq] = &entry{id}
}

// produce commits transactions three at a time in any order, and rolls some back.
func (m *ledger) produce(ctx context.Context, l lines, pool *pgxpool.Pool, k, n int) error {
	for done := 0; done < n && ctx.Err() == nil; {
		type made struct {
			tx     pgx.Tx
			key    string
			seqs   []uint64
			ids    []string
			commit bool
		}
		var txs []made
		for j := range 3 {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(context.Background()) // one that was not ended
			x := made{tx: tx, key: fmt.Sprint("key", (k+j)%3), commit: rand.IntN(10) > 0}
			for i := range 1 + rand.IntN(20) {
				id := fmt.Sprintf("%d-%d-%d-%d", k, done, j, i)
				if _, err := l.q.Enqueue(ctx, tx, keyed(id, x.key)); err != nil {
					return err
				}
				var seq int64
				if err := tx.QueryRow(ctx, "SELECT seq FROM "+l.table+" WHERE id = $1", id).Scan(&seq); err != nil {
					return err
				}
				x.seqs, x.ids = append(x.seqs, uint64(seq)), append(x.ids, id)
			}
			txs = append(txs, x)
			done += len(x.ids)
		}
		for _, i := range rand.Perm(len(txs)) {
			x := txs[i]
			if !x.commit {
				_ = x.tx.Rollback(ctx)
				continue
			}
			m.mu.Lock()
			m.made += len(x.ids) // before anybody can deliver them
			m.mu.Unlock()
			if err := x.tx.Commit(ctx); err != nil {
				return err
			}
			for i, seq := range x.seqs {
				m.add(x.key, seq, x.ids[i])
			}
		}
	}
	return nil
}

// relay claims and settles until everything is done.
func (m *ledger) relay(ctx context.Context, q *pgoutbox.Queue, c outbox.Claim, produced <-chan struct{}) error {
	for ctx.Err() == nil {
		before := m.known()
		ds, err := q.Claim(ctx, c)
		if err != nil {
			return err
		}
		for _, d := range ds {
			if err := m.take(d, before); err != nil {
				return err
			}
		}
		for _, d := range ds {
			if err := m.settle(ctx, q, d); err != nil {
				return err
			}
		}
		if rand.IntN(20) == 0 || len(ds) == 0 {
			if err := m.repair(ctx, q); err != nil {
				return err
			}
		}
		if len(ds) > 0 {
			continue
		}
		stats, err := q.Stats(ctx)
		if err != nil {
			return err
		}
		select {
		case <-produced:
			if stats.Waiting == 0 && stats.Dead == 0 {
				return nil
			}
		default:
		}
	}
	return nil
}

// known is what waited when a claim began.
func (m *ledger) known() map[string]map[uint64]*entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[string]map[uint64]*entry{}
	for key, line := range m.waiting {
		known[key] = maps.Clone(line)
	}
	return known
}

// take checks a claim against what waited all the time that it was made.
func (m *ledger) take(d outbox.Delivery, before map[string]map[uint64]*entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := d.Event.OrderingKey
	if m.busy[key] {
		return fmt.Errorf("%q was claimed while another of its key was under way", d.Event.ID)
	}
	m.busy[key] = true
	for seq, e := range before[key] {
		if seq < d.Lease.Seq && m.waiting[key][seq] == e {
			return fmt.Errorf("%q was claimed, and %q waited before it", d.Event.ID, e.id)
		}
	}
	return nil
}

func (m *ledger) settle(ctx context.Context, q *pgoutbox.Queue, d outbox.Delivery) error {
	key, o := d.Event.OrderingKey, outbox.Outcome{Result: outbox.Sent}
	switch rand.IntN(20) {
	case 0:
		o = outbox.Outcome{Result: outbox.Waiting, Wait: time.Duration(rand.IntN(5)) * time.Millisecond}
	case 1:
		o = outbox.Outcome{Result: outbox.Released}
	case 2:
		o = outbox.Outcome{Result: outbox.Dead}
	}
	m.mu.Lock()
	m.busy[key] = false // as soon as the statement is through somebody else may claim
	if o.Result == outbox.Sent || o.Result == outbox.Dead {
		delete(m.waiting[key], d.Lease.Seq)
		m.gone[d.Lease.Seq] = true
	}
	m.mu.Unlock()
	if err := q.Settle(ctx, d.Lease, o); err != nil {
		return err
	}
	if o.Result == outbox.Dead {
		m.mu.Lock()
		m.dead[d.Event.ID] = true
		m.mu.Unlock()
	}
	return nil
}

// repair redrives or drops the dead letters.
func (m *ledger) repair(ctx context.Context, q *pgoutbox.Queue) error {
	m.mu.Lock()
	letters := m.dead
	m.dead = map[string]bool{}
	m.mu.Unlock()
	for id := range letters {
		if rand.IntN(4) > 0 {
			if err := q.Redrive(ctx, id); err != nil {
				return err
			}
			continue
		}
		if err := q.Drop(ctx, id); err != nil {
			return err
		}
		m.mu.Lock()
		m.dropped++
		m.mu.Unlock()
	}
	return nil
}

package pgoutbox_test

import (
	"context"
	"fmt"
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

// Relays of different settings, producers that commit out of order, failures, releases, expired leases, dead letters,
// redrives and drops, on few keys with long lines and without keys. In the end every event was sent or dropped. None
// was sent before one of its line whose transaction had ended before its own began.
func TestStressStrandsNoEvent(t *testing.T) {
	each := 400
	if testing.Short() {
		each = 120
	}
	d := newDesk(t)
	wide := d.place
	wide.change = func(c *pgxpool.Config) { c.MaxConns = 12 } // three transactions of each producer
	makers := wide.pool(t)
	b := &book{events: map[string]*written{}, busy: map[string]int{}}
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	var producers, relays sync.WaitGroup
	try := func(wg *sync.WaitGroup, f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				fail(err)
			}
		})
	}
	for k := range 4 {
		try(&producers, func() error { return b.produce(ctx, d, makers, k, each) })
	}
	produced := make(chan struct{})
	go func() { producers.Wait(); close(produced) }()
	for i := range 5 {
		q, err := pgoutbox.New(d.place.pool(t), pgoutbox.WithSchema(d.schema))
		require.NoError(t, err)
		c := outbox.Claim{Max: 1 + 5*i, Lease: time.Hour, HoldKeys: i == 4, PerDestination: 2 * i}
		try(&relays, func() error { return b.relay(ctx, q, c, produced) })
	}
	over := make(chan struct{})
	go func() { producers.Wait(); relays.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(3 * time.Minute):
		fail(fmt.Errorf("events are stranded: %+v", d.state()))
		<-over
	}
	require.NoError(t, context.Cause(ctx))
	require.Equal(t, outbox.Stats{}, d.state())
	require.Equal(t, b.made, d.count("", "true")+b.dropped)
	for _, suffix := range []string{"_claim", "_late"} {
		require.Zero(t, d.count(suffix, "true"), suffix)
	}
	require.Zero(t, d.count("_line", "fence <> 0"))
	require.Positive(t, b.dropped)
	require.Positive(t, b.again)
	t.Logf("%d events, %d dropped, %d claimed again", b.made, b.dropped, b.again)
}

func (d desk) state() outbox.Stats {
	st, err := d.q.Stats(context.WithoutCancel(d.Context()))
	require.NoError(d, err)
	return st
}

// A book is the test's record of the queue.
type book struct {
	mu                   sync.Mutex
	clock                int
	events               map[string]*written
	busy                 map[string]int // claims that hold events of a line
	dead                 []string
	made, dropped, again int
}

type written struct {
	key              string
	began, committed int  // by the book's clock; committed is 0 before
	done             bool // sent, dead or dropped, or about to be
}

func (b *book) tick() int { b.clock++; return b.clock }

// produce commits transactions three at a time in any order, and rolls some back.
func (b *book) produce(ctx context.Context, d desk, pool *pgxpool.Pool, k, n int) error {
	for done := 0; done < n && ctx.Err() == nil; {
		type made struct {
			pgx.Tx
			ids []string
		}
		var txs []made
		for j := range 3 {
			b.mu.Lock()
			began := b.tick()
			b.mu.Unlock()
			tx, err := pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(context.Background()) // one that was not ended
			x := made{Tx: tx}
			for i := range 1 + rand.IntN(20) {
				ev := outbox.Event{ID: fmt.Sprintf("%d-%d-%d-%d", k, done, j, i)}
				if i%4 > 0 {
					ev.OrderingKey = fmt.Sprint("key", (k+j)%3)
				}
				b.mu.Lock()
				b.events[ev.ID] = &written{key: ev.OrderingKey, began: began}
				b.mu.Unlock()
				if _, err := d.q.Enqueue(ctx, tx, ev); err != nil {
					return err
				}
				x.ids = append(x.ids, ev.ID)
			}
			txs = append(txs, x)
			done += len(x.ids)
		}
		for _, i := range rand.Perm(len(txs)) {
			if rand.IntN(10) == 0 {
				_ = txs[i].Rollback(ctx)
				continue
			}
			b.mu.Lock()
			b.made += len(txs[i].ids)
			b.mu.Unlock()
			if err := txs[i].Commit(ctx); err != nil {
				return err
			}
			b.mu.Lock()
			now := b.tick()
			for _, id := range txs[i].ids {
				b.events[id].committed = now
			}
			b.mu.Unlock()
		}
	}
	return nil
}

// relay claims and settles until everything is done.
func (b *book) relay(ctx context.Context, q *pgoutbox.Queue, c outbox.Claim, produced <-chan struct{}) error {
	for ctx.Err() == nil {
		if c.Lease = time.Hour; rand.IntN(20) == 0 {
			c.Lease = time.Millisecond
		}
		ds, err := q.Claim(ctx, c)
		if err != nil {
			return err
		}
		if c.Lease > time.Second {
			if err := b.take(ds); err != nil {
				return err
			}
			if err := b.settle(ctx, q, ds); err != nil {
				return err
			}
		}
		if rand.IntN(20) == 0 || len(ds) == 0 {
			if err := b.repair(ctx, q); err != nil {
				return err
			}
		}
		if len(ds) > 0 {
			continue
		}
		st, err := q.Stats(ctx)
		if err != nil {
			return err
		}
		select {
		case <-produced:
			if st.Waiting == 0 && st.Dead == 0 {
				return nil
			}
		default:
		}
	}
	return nil
}

// take checks a claim. The events of a line that it holds were not done before, and are in order.
func (b *book) take(ds []outbox.Delivery) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := map[string]bool{}
	for _, d := range ds {
		e := b.events[d.Event.ID]
		if d.Attempt > 1 {
			b.again++
		}
		if e.key == "" {
			continue
		}
		if !mine[e.key] && b.busy[e.key] > 0 {
			return fmt.Errorf("%q was claimed while another claim held its line", d.Event.ID)
		}
		if !mine[e.key] {
			mine[e.key] = true
			b.busy[e.key]++
		}
		for id, before := range b.events {
			if before.key == e.key && !before.done && before.committed > 0 && before.committed < e.began &&
				!within(ds, id) {
				return fmt.Errorf("%q was claimed, and %q waited before it", d.Event.ID, id)
			}
		}
	}
	return nil
}

func within(ds []outbox.Delivery, id string) bool {
	for _, d := range ds {
		if d.Event.ID == id {
			return true
		}
	}
	return false
}

// settle ends a claim with one Settle. Behind an event that waits or is released the others of its line are released.
func (b *book) settle(ctx context.Context, q *pgoutbox.Queue, ds []outbox.Delivery) error {
	var ended []outbox.Settlement
	var dead []string
	stopped, lines := map[string]bool{}, map[string]bool{}
	b.mu.Lock()
	for _, d := range ds {
		e := b.events[d.Event.ID]
		o := outbox.Outcome{Result: outbox.Sent}
		switch n := rand.IntN(20); {
		case e.key != "" && stopped[e.key], n == 0:
			o.Result = outbox.Released
		case n == 1:
			o = outbox.Outcome{Result: outbox.Waiting, Wait: time.Duration(rand.IntN(5)) * time.Millisecond}
		case n == 2:
			o.Result = outbox.Dead
			dead = append(dead, d.Event.ID)
		}
		if o.Result == outbox.Released || o.Result == outbox.Waiting {
			stopped[e.key] = true
		} else {
			e.done = true
		}
		if e.key != "" && !lines[e.key] {
			lines[e.key] = true
			b.busy[e.key]-- // as soon as the statement is through another claim may come
		}
		ended = append(ended, outbox.Settlement{Lease: d.Lease, Outcome: o})
	}
	b.mu.Unlock()
	lost, err := q.Settle(ctx, ended...)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%d live leases are lost", len(lost))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = append(b.dead, dead...)
	return err
}

// repair redrives or drops the dead letters.
func (b *book) repair(ctx context.Context, q *pgoutbox.Queue) error {
	b.mu.Lock()
	dead := b.dead
	b.dead = nil
	b.mu.Unlock()
	for _, id := range dead {
		if rand.IntN(4) > 0 {
			if err := q.Redrive(ctx, id, ""); err != nil {
				return err
			}
			continue
		}
		if err := q.Drop(ctx, id, ""); err != nil {
			return err
		}
		b.mu.Lock()
		b.dropped++
		b.mu.Unlock()
	}
	return nil
}

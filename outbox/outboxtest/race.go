package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/outbox"
)

func (t *trial) purge(q Queue, age time.Duration, limit, want int) {
	t.Helper()
	n, err := q.Purge(t.Context(), age, limit)
	t.ok(err, "Purge")
	if n != want {
		t.fatalf("Purge of events older than %v deleted %d, want %d", age, n, want)
	}
}

var raceCases = []Case{
	{
		Name: "racing claims share the events",
		Rule: "of any number of relays that claim at a time each event goes to one",
		run: func(t *trial) {
			q := t.open()
			const n = 200
			events := make([]outbox.Event, n)
			for i := range events {
				events[i] = event(fmt.Sprint("k", i), "")
			}
			t.enqueue(q, events...)
			handles := []Queue{q, t.beside(q)}
			var mu sync.Mutex
			seen := map[string]int{}
			err := race(16, func(i int) error {
				for {
					ds, err := handles[i%2].Claim(t.Context(), outbox.Claim{Max: 3, Lease: long})
					if err != nil {
						return err
					}
					mu.Lock()
					for _, d := range ds {
						seen[d.Event.ID]++
					}
					total := len(seen)
					mu.Unlock()
					// A claim may skip events that another claim is taking.
					if len(ds) == 0 && total == n {
						return nil
					}
				}
			})
			t.ok(err, "Claim")
			for id, times := range seen {
				if times != 1 {
					t.fatalf("%q was claimed %d times", id, times)
				}
			}
		},
	},
	{
		Name: "racing relays keep each key in order",
		Rule: "over all relays one claim at a time holds events of a line, and each comes after the one before it",
		run: func(t *trial) {
			q := t.open()
			const keys, each = 3, 20
			var events []outbox.Event
			for n := range each {
				for k := range keys {
					ev := event(fmt.Sprintf("%d-%d", k, n), fmt.Sprint("key", k))
					ev.Type = fmt.Sprint(n)
					events = append(events, ev)
				}
			}
			t.enqueue(q, events...)
			handles := []Queue{q, t.beside(q)}
			o := orderCheck{next: map[string]int{}, busy: map[string]bool{}}
			err := race(8, func(i int) error {
				var held []outbox.Delivery
				for o.done.Load() < keys*each {
					// Each goroutine claims again before it settles, so that claims overlap on every machine.
					ds, err := handles[i%2].Claim(t.Context(), outbox.Claim{Max: 2, Lease: long})
					if err != nil {
						return err
					}
					if err := o.begin(ds); err != nil {
						return err
					}
					if err := o.end(t.Context(), handles[i%2], held); err != nil {
						return err
					}
					held = ds
				}
				return nil
			})
			t.ok(err, "the race")
			t.stats(q, 0, 0)
		},
	},
	{
		Name: "racing settlements have one winner",
		Rule: "of those that settle an event under one lease one succeeds, and the others change nothing",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", "a"), event("after", "a"))
			d := t.one(q, long, "k", 1)
			handles := []Queue{q, t.beside(q)}
			var mu sync.Mutex
			won := 0
			err := race(16, func(i int) error {
				lost, err := handles[i%2].Settle(t.Context(), outbox.Settlement{Lease: d.Lease, Outcome: sent})
				if err == nil && len(lost) == 0 {
					mu.Lock()
					defer mu.Unlock()
					won++
				}
				return err
			})
			t.ok(err, "Settle")
			if won != 1 {
				t.fatalf("%d of 16 settled the event", won)
			}
			t.stats(q, 1, 0)
			t.one(q, long, "after", 1)
		},
	},
}

// orderCheck finds claims that break the order of a line.
type orderCheck struct {
	mu   sync.Mutex
	next map[string]int  // the Type of a line's next event
	busy map[string]bool // lines whose events a claim holds
	done atomic.Int64
}

func (o *orderCheck) begin(ds []outbox.Delivery) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	mine := map[string]bool{}
	for _, d := range ds {
		key := d.Event.OrderingKey
		if o.busy[key] && !mine[key] || d.Event.Type != fmt.Sprint(o.next[key]) {
			return fmt.Errorf("%q was claimed while another claim held an event of its line, or too early", d.Event.ID)
		}
		o.busy[key], mine[key] = true, true
		o.next[key]++
	}
	return nil
}

func (o *orderCheck) end(ctx context.Context, q Queue, ds []outbox.Delivery) error {
	var leases []outbox.Lease
	var ended []outbox.Settlement
	for _, d := range ds {
		leases = append(leases, d.Lease)
		ended = append(ended, outbox.Settlement{Lease: d.Lease, Outcome: sent})
	}
	if lost, err := q.Extend(ctx, long, leases...); err != nil || len(lost) > 0 {
		return fmt.Errorf("Extend lost %v: %w", lost, err)
	}
	o.mu.Lock()
	for _, d := range ds {
		o.busy[d.Event.OrderingKey] = false
	}
	o.mu.Unlock()
	lost, err := q.Settle(ctx, ended...)
	if err != nil || len(lost) > 0 {
		return fmt.Errorf("Settle lost %v: %w", lost, err)
	}
	o.done.Add(int64(len(ds)))
	return nil
}

// race calls f from n goroutines that start together, and returns their errors.
func race(n int, f func(i int) error) error {
	var (
		wg    sync.WaitGroup
		start = make(chan struct{})
		errs  = make([]error, n)
	)
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

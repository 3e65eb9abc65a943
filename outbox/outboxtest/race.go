package outboxtest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

func (t *trial) purge(q Queue, age time.Duration, limit, want int) {
	t.Helper()
	n, err := q.Purge(t.Context(), age, limit)
	t.ok(err, "Purge")
	if n != want {
		t.fatalf("Purge of what is older than %v deleted %d events, want %d", age, n, want)
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
					// A claim may pass over what another one is claiming.
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
		Rule: "over all relays at most one event of a key is under way, and each comes after the one before it",
		run: func(t *trial) {
			q := t.open()
			const keys, each = 5, 12
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
			var mu sync.Mutex
			next, busy, done := map[string]int{}, map[string]bool{}, 0
			err := race(8, func(i int) error {
				for {
					mu.Lock()
					over := done == keys*each
					mu.Unlock()
					if over {
						return nil
					}
					ds, err := handles[i%2].Claim(t.Context(), outbox.Claim{Max: 2, Lease: long})
					if err != nil {
						return err
					}
					for _, d := range ds {
						key := d.Event.OrderingKey
						mu.Lock()
						wrong := busy[key] || d.Event.Type != fmt.Sprint(next[key])
						busy[key] = true
						mu.Unlock()
						if wrong {
							return fmt.Errorf("%q was claimed while another of its key was under way, or too early", d.Event.ID)
						}
						// Meanwhile the others claim.
						if err := handles[i%2].Extend(t.Context(), d.Lease, long); err != nil {
							return err
						}
						mu.Lock()
						busy[key] = false
						next[key]++
						done++
						mu.Unlock()
						if err := handles[i%2].Settle(t.Context(), d.Lease, sent); err != nil {
							return err
						}
					}
				}
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
				err := handles[i%2].Settle(t.Context(), d.Lease, sent)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					won++
				} else if errors.Is(err, store.ErrLost) {
					return nil
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

package outboxtest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
)

// A mutant is a fault that one case finds.
type mutant struct {
	name  string // of the case
	fault string
	spoil func(*broken)
}

func mutants() []mutant {
	return []mutant{
		{"event is claimed as it was enqueued", "a byte of the payload", func(b *broken) {
			b.delivery = func(d *outbox.Delivery) {
				if len(d.Event.Payload) > 0 {
					d.Event.Payload[len(d.Event.Payload)-1]++
				}
			}
		}},
		{"event belongs to the queue", "deliveries share a payload", func(b *broken) {
			var first []byte
			b.delivery = func(d *outbox.Delivery) {
				if first == nil {
					first = d.Event.Payload
				}
				d.Event.Payload = first
			}
		}},
		{"ended context changes nothing", "Events goes on", func(b *broken) {
			b.entries = func(s outbox.Selection, _ entries) entries { return b.Queue.Events(context.Background(), s) }
		}},
		{"event exists only with its transaction", "a rollback commits", func(b *broken) { b.commits = true }},
		{"id is taken until its event is gone", "a duplicate is passed over", func(b *broken) {
			b.enqueued = func(err error) error {
				if errors.Is(err, outbox.ErrDuplicate) {
					return nil
				}
				return err
			}
		}},
		{"event that breaks a rule is refused", "it is made to fit", func(b *broken) {
			b.enqueued = func(err error) error {
				if errors.Is(err, store.ErrInvalid) {
					return nil
				}
				return err
			}
		}},
		{"claimed event is nobody else's", "leases are short", func(b *broken) {
			b.claim = func(c outbox.Claim) outbox.Claim {
				defer time.Sleep(2 * time.Millisecond)
				c.Lease = time.Millisecond
				return c
			}
		}},
		{"claim takes the oldest, and no more than it may", "one too many", func(b *broken) {
			b.claim = func(c outbox.Claim) outbox.Claim { c.Max++; return c }
		}},
		{"sent event is done", "it waits again", func(b *broken) {
			b.settle = outcomes(func(o *outbox.Outcome) { o.Result = outbox.Waiting })
		}},
		{"failed event rests, and is counted", "it does not rest", func(b *broken) {
			b.settle = outcomes(func(o *outbox.Outcome) { o.Wait = 0 })
		}},
		{"failed event rests, and is counted", "it is not counted", func(b *broken) {
			b.delivery = func(d *outbox.Delivery) { d.Attempt = 1 }
		}},
		{"released event is not counted", "it is counted", func(b *broken) {
			b.settle = outcomes(func(o *outbox.Outcome) {
				if o.Result == outbox.Released {
					o.Result = outbox.Waiting
				}
			})
		}},
		{"event of a dead relay comes again under its own id", "leases never end", func(b *broken) {
			b.claim = func(c outbox.Claim) outbox.Claim { c.Lease = time.Hour; return c }
		}},
		{"stale owner changes nothing", "its lease is not reported as lost", func(b *broken) { b.lost = none }},
		{"racing settlements have one winner", "no lease is reported as lost", func(b *broken) { b.lost = none }},
		{"extended lease goes on", "nothing is extended", func(b *broken) { b.extend = none }},
		{"events of a key come one after the other", "keys are forgotten", func(b *broken) {
			b.event = func(ev *outbox.Event) { ev.OrderingKey = "" }
		}},
		{"racing relays keep each key in order", "keys are forgotten", func(b *broken) {
			b.event = func(ev *outbox.Event) { ev.OrderingKey = "" }
			b.delivery = func(d *outbox.Delivery) { d.Event.OrderingKey = "key" + d.Event.ID[:1] }
		}},
		{"failed event holds its key alone", "all are of one key", func(b *broken) {
			b.event = func(ev *outbox.Event) { ev.OrderingKey = "one" }
		}},
		{"key goes on after a dead letter", "it is held", func(b *broken) {
			b.claim = func(c outbox.Claim) outbox.Claim { c.HoldKeys = true; return c }
		}},
		{"held key waits for its dead letter", "it goes on", func(b *broken) {
			b.claim = func(c outbox.Claim) outbox.Claim { c.HoldKeys = false; return c }
		}},
		{"dead letter tells what it was and why it died", "the failure is lost", func(b *broken) {
			b.settle = outcomes(func(o *outbox.Outcome) { o.Failure = outbox.Failure{} })
		}},
		{"redriven event starts anew under its own id", "nothing is redriven", func(b *broken) {
			b.redrive = func(string, string) string { return "nothing" }
		}},
		{"purge deletes what was sent long ago, and nothing else", "of any age", func(b *broken) {
			b.purge = func(time.Duration) time.Duration { return 0 }
		}},
		{"watcher is woken by a commit", "nothing is reported", func(b *broken) {
			b.watch = func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }
		}},
		{"watcher is woken by a commit", "only its beginning is reported", func(b *broken) {
			b.watch = func(ctx context.Context, wake func()) error { wake(); <-ctx.Done(); return nil }
		}},
		{"watcher is woken by a commit", "only the first one is reported", func(b *broken) {
			b.watch = func(ctx context.Context, wake func()) error {
				var calls atomic.Int64
				return b.Queue.Watch(ctx, func() {
					if calls.Add(1) <= 2 {
						wake()
					}
				})
			}
		}},
		{"watcher is woken by a commit", "its end is an error", func(b *broken) {
			b.watch = func(ctx context.Context, wake func()) error {
				if err := b.Queue.Watch(ctx, wake); err != nil {
					return err
				}
				return ctx.Err()
			}
		}},
		{"batch is enqueued whole", "only its first event", func(b *broken) {
			b.batch = func(tx *memoutbox.Tx, evs []outbox.Event) ([]string, error) {
				return b.Queue.EnqueueBatch(context.Background(), tx, evs[:min(1, len(evs))])
			}
		}},
		{"batch is enqueued whole", "in another order", func(b *broken) {
			b.batch = func(tx *memoutbox.Tx, evs []outbox.Event) ([]string, error) {
				evs = slices.Clone(evs)
				slices.Reverse(evs)
				ids, err := b.Queue.EnqueueBatch(context.Background(), tx, evs)
				slices.Reverse(ids)
				return ids, err
			}
		}},
		{"batch is enqueued whole or not at all", "event by event", eventByEvent},
		{"append has its own transaction", "event by event", eventByEvent},
		{"one id goes to several destinations", "all are redriven", func(b *broken) {
			b.redrive = func(id, destination string) string {
				for _, d := range []string{"d1", "d2", "d3"} {
					if d != destination {
						_ = b.Queue.Redrive(context.Background(), id, d)
					}
				}
				return destination
			}
		}},
		{"line is of one destination", "it is of all", func(b *broken) { b.claimed = b.oneOf(keyOnly) }},
		{"claim keeps to the limit of a destination", "no limit", unlimited},
		{"claim keeps to the limit of a destination", "Room is ignored", func(b *broken) {
			b.claim = func(c outbox.Claim) outbox.Claim { c.Room = nil; return c }
		}},
		{"claim keeps to the limit of a destination", "PerDestination is ignored", func(b *broken) {
			b.claim = func(c outbox.Claim) outbox.Claim { c.PerDestination = 0; return c }
		}},
		{"limit holds for the events of a line", "it holds for lines", unlimited},
		{"full destination hides no other", "events over the limit are taken and put back", func(b *broken) {
			var asked outbox.Claim
			b.claim = func(c outbox.Claim) outbox.Claim { asked = c; c.Room, c.PerDestination = nil, 0; return c }
			b.claimed = func(ds []outbox.Delivery) []outbox.Delivery {
				left := map[string]int{}
				return b.putBack(ds, func(d outbox.Delivery) bool {
					left[d.Event.Destination]++
					return left[d.Event.Destination] <= asked.Limit(d.Event.Destination)
				})
			}
		}},
		{
			"disabled destination waits", "it is not disabled",
			func(b *broken) { b.disable = func() bool { return false } },
		},
		{"disabled destination's deliveries are settled", "they are lost", func(b *broken) {
			b.settle = func(ended []outbox.Settlement) []outbox.Settlement {
				if found, _ := b.Queue.Disabled(context.Background()); len(found) > 0 {
					return nil
				}
				return ended
			}
		}},
		{"disabled destinations are listed", "in another order", func(b *broken) {
			b.disabled = func(found []outbox.DisabledDestination) []outbox.DisabledDestination {
				slices.Reverse(found)
				return found
			}
		}},
		{"disabled destinations are listed", "with the last reason", func(b *broken) {
			b.disable = func() bool { _ = b.Queue.Enable(context.Background(), "https://b.example/?x=1"); return true }
		}},
		{"claim takes a line's events in their order", "the last one first", func(b *broken) {
			b.claimed = func(ds []outbox.Delivery) []outbox.Delivery { slices.Reverse(ds); return ds }
		}},
		{"late commit joins its line", "it does not wait", func(b *broken) {
			b.event = func(ev *outbox.Event) { ev.OrderingKey = "" }
		}},
		{"rest of a line is released with the event that failed", "only the first settlement is written", firstOnly},
		{"settlements are written together", "only the first settlement is written", firstOnly},
		{"settlements are written together", "one that is lost stops those behind it", func(b *broken) {
			b.settle = func(ended []outbox.Settlement) []outbox.Settlement {
				for i, s := range ended {
					if lost, _ := b.Queue.Extend(context.Background(), time.Hour, s.Lease); len(lost) > 0 {
						return ended[:i+1]
					}
				}
				return ended
			}
		}},
		{"leases are extended together", "only the first", func(b *broken) {
			b.extend = func(leases []outbox.Lease) []outbox.Lease { return leases[:min(1, len(leases))] }
		}},
		{"history keeps each failure", "without the response", func(b *broken) {
			b.settle = outcomes(func(o *outbox.Outcome) { o.Failure.Response, o.Failure.Status = "", 0 })
		}},
		{"history keeps each failure", "only the last one", func(b *broken) {
			b.entries = each(func(e *outbox.Entry) { e.History = e.History[max(0, len(e.History)-1):] })
		}},
		{"history keeps the last failures", "the first ones", func(b *broken) {
			b.entries = each(func(e *outbox.Entry) {
				e.History = append([]outbox.PastFailure{{}}, e.History[:len(e.History)-1]...)
			})
		}},
		{"events are listed in order", "by id", func(b *broken) { b.entries = byID }},
		{"events are selected", "the type is ignored", func(b *broken) {
			b.entries = func(s outbox.Selection, _ entries) entries {
				s.Type = ""
				return b.Queue.Events(context.Background(), s)
			}
		}},
		{"events are selected", "Until is included", func(b *broken) {
			b.entries = func(s outbox.Selection, _ entries) entries {
				if !s.Until.IsZero() {
					s.Until = s.Until.Add(1)
				}
				return b.Queue.Events(context.Background(), s)
			}
		}},
		{"events are listed, however many", "only a page", func(b *broken) { b.entries = page }},
		{"dead letters are listed in order, however many", "only a page", func(b *broken) { b.entries = page }},
		{"unreadable event hides no other", "it ends the list", func(b *broken) {
			b.entries = func(_ outbox.Selection, list entries) entries {
				return func(yield func(outbox.Entry, error) bool) {
					for e, err := range list {
						if !yield(e, err) || err != nil {
							return
						}
					}
				}
			}
		}},
		{"purge counts from Enqueue", "it counts from Settle", func(b *broken) {
			var settled time.Time
			b.settle = func(ended []outbox.Settlement) []outbox.Settlement { settled = time.Now(); return ended }
			b.purge = func(age time.Duration) time.Duration {
				if time.Since(settled) < age {
					return time.Hour
				}
				return age
			}
		}},
	}
}

func TestBrokenQueueFails(t *testing.T) {
	before := patience
	patience = 300 * time.Millisecond
	t.Cleanup(func() { patience = before })
	for _, m := range mutants() {
		t.Run(m.name+"/"+m.fault, func(t *testing.T) {
			require.True(t, fails(t, m.name, harness(m.spoil)), "the suite does not find it")
		})
	}
}

func TestRightQueuePasses(t *testing.T) { Run(t, harness(func(*broken) {})) }

// A queue may take one event of a line in a claim.
func TestQueueOfSingleClaimsPasses(t *testing.T) {
	Run(t, harness(func(b *broken) { b.claimed = b.oneOf(destinationAndKey) }))
}

// Every case but those about speed has a mutant.
func TestEveryNewRuleHasAMutant(t *testing.T) {
	for _, c := range slices.Concat(batchCases, destinationCases, settleCases, eventsCases) {
		require.True(t, slices.ContainsFunc(mutants(), func(m mutant) bool { return m.name == c.Name }), c.Name)
	}
}

package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// A broken queue is a right one, but for the functions that are set.
type broken struct {
	*boltoutbox.Queue
	st       *boltstore.Store
	claim    func(c outbox.Claim) outbox.Claim
	delivery func(d *outbox.Delivery)
	extend   func() bool // false: nothing is extended
	settle   func(o outbox.Outcome) outbox.Outcome
	settled  func(err error) error
	event    func(ev *outbox.Event)
	enqueued func(err error) error
	redrive  func() bool
	purge    func(age time.Duration) time.Duration
	watch    func(ctx context.Context, wake func()) error
	commits  bool // a rollback
}

func (b *broken) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if b.claim != nil {
		c = b.claim(c)
	}
	ds, err := b.Queue.Claim(ctx, c)
	for i := range ds {
		if b.delivery != nil {
			b.delivery(&ds[i])
		}
	}
	return ds, err
}

func (b *broken) Extend(ctx context.Context, l outbox.Lease, d time.Duration) error {
	if b.extend != nil && !b.extend() {
		return nil
	}
	return b.Queue.Extend(ctx, l, d)
}

func (b *broken) Settle(ctx context.Context, l outbox.Lease, o outbox.Outcome) error {
	if b.settle != nil {
		o = b.settle(o)
	}
	err := b.Queue.Settle(ctx, l, o)
	if b.settled != nil {
		err = b.settled(err)
	}
	return err
}

func (b *broken) Redrive(ctx context.Context, id string) error {
	if b.redrive != nil && !b.redrive() {
		return nil
	}
	return b.Queue.Redrive(ctx, id)
}

func (b *broken) Purge(ctx context.Context, age time.Duration, limit int) (int, error) {
	if b.purge != nil {
		age = b.purge(age)
	}
	return b.Queue.Purge(ctx, age, limit)
}

func (b *broken) Watch(ctx context.Context, wake func()) error {
	if b.watch != nil {
		return b.watch(ctx, wake)
	}
	return b.Queue.Watch(ctx, wake)
}

type brokenTx struct {
	b  *broken
	tx store.Tx[*boltstore.Tx]
}

func (x brokenTx) Enqueue(ctx context.Context, ev outbox.Event) (string, error) {
	id := ev.ID
	if x.b.event != nil {
		x.b.event(&ev)
	}
	made, err := x.b.Queue.Enqueue(ctx, x.tx.Tx(), ev)
	if x.b.enqueued != nil {
		if err = x.b.enqueued(err); err == nil && made == "" {
			made = id
		}
	}
	return made, err
}

func (x brokenTx) Commit(ctx context.Context) error { return x.tx.Commit(ctx, store.Outcome{}) }

func (x brokenTx) Rollback(ctx context.Context) error {
	if x.b.commits {
		return x.Commit(ctx)
	}
	return x.tx.Rollback(ctx)
}

// harness makes every queue broken in the same way.
func harness(spoil func(*broken)) Harness {
	at := func(t *testing.T, st *boltstore.Store) Queue {
		q, err := boltoutbox.New(t.Context(), st)
		require.NoError(t, err)
		b := &broken{Queue: q, st: st}
		spoil(b)
		return b
	}
	records := 0
	return Harness{
		Open: func(t *testing.T) Queue {
			st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = st.Close() })
			return at(t, st)
		},
		Beside: func(t *testing.T, first Queue) Queue { return at(t, first.(*broken).st) },
		Begin: func(t *testing.T, q Queue) Tx {
			b := q.(*broken)
			records++
			tx, _, err := b.st.Begin(t.Context(), store.Claim{ID: store.ID{Key: fmt.Sprint(records)}, Retention: time.Hour})
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			return brokenTx{b, tx}
		},
		SingleWriter: true,
	}
}

// A recorder notes that a case has failed.
type recorder struct {
	*testing.T
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) FailNow()              { r.failed = true; runtime.Goexit() }
func (r *recorder) Skipf(string, ...any)  { runtime.Goexit() }

// fails runs a case on its own goroutine and reports whether it failed.
func fails(t *testing.T, name string, h Harness) bool {
	t.Helper()
	i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, "no case %q", name)
	c := Cases()[i]
	r := &recorder{T: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(&trial{reporter: r, t: t, rule: c.Rule, h: h})
	}()
	<-done
	return r.failed
}

func TestBrokenQueueFails(t *testing.T) {
	before := patience
	patience = 300 * time.Millisecond
	t.Cleanup(func() { patience = before })
	lax := func(err error) error {
		if errors.Is(err, store.ErrLost) {
			return nil
		}
		return err
	}
	for _, m := range []struct {
		name  string // of the case
		fault string
		spoil func(*broken)
	}{
		{"event is claimed as it was enqueued", "a byte of the payload", func(b *broken) {
			b.delivery = func(d *outbox.Delivery) {
				if len(d.Event.Payload) > 0 {
					d.Event.Payload[len(d.Event.Payload)-1]++
				}
			}
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
			b.settle = func(o outbox.Outcome) outbox.Outcome { o.Result = outbox.Waiting; return o }
		}},
		{"failed event rests, and is counted", "it does not rest", func(b *broken) {
			b.settle = func(o outbox.Outcome) outbox.Outcome { o.Wait = 0; return o }
		}},
		{"failed event rests, and is counted", "it is not counted", func(b *broken) {
			b.delivery = func(d *outbox.Delivery) { d.Attempt = 1 }
		}},
		{"released event is not counted", "it is counted", func(b *broken) {
			b.settle = func(o outbox.Outcome) outbox.Outcome {
				if o.Result == outbox.Released {
					o.Result = outbox.Waiting
				}
				return o
			}
		}},
		{"event of a dead relay comes again under its own id", "leases never end", func(b *broken) {
			b.claim = func(c outbox.Claim) outbox.Claim { c.Lease = time.Hour; return c }
		}},
		{"stale owner changes nothing", "it is told that it did", func(b *broken) { b.settled = lax }},
		{"racing settlements have one winner", "all are told that they won", func(b *broken) { b.settled = lax }},
		{"extended lease goes on", "nothing is extended", func(b *broken) { b.extend = func() bool { return false } }},
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
			b.settle = func(o outbox.Outcome) outbox.Outcome { o.Failure = outbox.Failure{}; return o }
		}},
		{"redriven event starts anew under its own id", "nothing is redriven", func(b *broken) { b.redrive = func() bool { return false } }},
		{"purge deletes what was sent long ago, and nothing else", "whatever its age", func(b *broken) {
			b.purge = func(time.Duration) time.Duration { return 0 }
		}},
		{"watcher is woken by a commit", "nothing is told", func(b *broken) {
			b.watch = func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }
		}},
		{"watcher is woken by a commit", "only its beginning is told", func(b *broken) {
			b.watch = func(ctx context.Context, wake func()) error { wake(); <-ctx.Done(); return nil }
		}},
		{"watcher is woken by a commit", "its end is an error", func(b *broken) {
			b.watch = func(ctx context.Context, wake func()) error {
				if err := b.Queue.Watch(ctx, wake); err != nil {
					return err
				}
				return ctx.Err()
			}
		}},
	} {
		t.Run(m.name+"/"+m.fault, func(t *testing.T) {
			require.True(t, fails(t, m.name, harness(m.spoil)), "the suite does not find it")
		})
	}
}

func TestRightQueuePasses(t *testing.T) { Run(t, harness(func(*broken) {})) }

package outboxtest

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
)

// A broken queue is a right one, except for the functions that are set.
type broken struct {
	*memoutbox.Queue
	unreadable map[string]bool
	claim      func(c outbox.Claim) outbox.Claim
	claimed    func(ds []outbox.Delivery) []outbox.Delivery
	delivery   func(d *outbox.Delivery)
	extend     func(leases []outbox.Lease) []outbox.Lease
	settle     func(ended []outbox.Settlement) []outbox.Settlement
	lost       func(lost []outbox.Lease) []outbox.Lease
	event      func(ev *outbox.Event)
	enqueued   func(err error) error
	batch      func(tx *memoutbox.Tx, evs []outbox.Event) ([]string, error)
	entries    func(s outbox.Selection, list iter.Seq2[outbox.Entry, error]) iter.Seq2[outbox.Entry, error]
	disabled   func(found []outbox.DisabledDestination) []outbox.DisabledDestination
	disable    func() bool
	redrive    func(id, destination string) string
	purge      func(age time.Duration) time.Duration
	watch      func(ctx context.Context, wake func()) error
	commits    bool // a rollback
}

func (b *broken) Append(ctx context.Context, evs ...outbox.Event) error {
	if b.batch == nil {
		return b.Queue.Append(ctx, evs...)
	}
	tx := b.Begin()
	_, err := b.batch(tx, evs)
	return errors.Join(err, tx.Commit())
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
	if b.claimed != nil {
		ds = b.claimed(ds)
	}
	return ds, err
}

func (b *broken) Extend(ctx context.Context, d time.Duration, leases ...outbox.Lease) ([]outbox.Lease, error) {
	if b.extend != nil {
		leases = b.extend(leases)
	}
	return b.Queue.Extend(ctx, d, leases...)
}

func (b *broken) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	if b.settle != nil {
		ended = b.settle(slices.Clone(ended))
	}
	lost, err := b.Queue.Settle(ctx, ended...)
	if b.lost != nil {
		lost = b.lost(lost)
	}
	return lost, err
}

func (b *broken) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	if b.disable != nil && !b.disable() {
		return nil
	}
	return b.Queue.Disable(ctx, destination, why)
}

func (b *broken) Disabled(ctx context.Context) ([]outbox.DisabledDestination, error) {
	found, err := b.Queue.Disabled(ctx)
	if b.disabled != nil {
		found = b.disabled(found)
	}
	return found, err
}

// Events lists events that Spoil made unreadable with an error.
func (b *broken) Events(ctx context.Context, s outbox.Selection) iter.Seq2[outbox.Entry, error] {
	var list iter.Seq2[outbox.Entry, error] = func(yield func(outbox.Entry, error) bool) {
		for e, err := range b.Queue.Events(ctx, s) {
			if b.unreadable[e.Event.ID] {
				e, err = outbox.Entry{Event: outbox.Event{ID: e.Event.ID}, State: e.State}, errors.New("unreadable")
			}
			if !yield(e, err) {
				return
			}
		}
	}
	if b.entries != nil {
		return b.entries(s, list)
	}
	return list
}

func (b *broken) Redrive(ctx context.Context, id, destination string) error {
	if b.redrive != nil {
		if destination = b.redrive(id, destination); destination == "nothing" {
			return nil
		}
	}
	return b.Queue.Redrive(ctx, id, destination)
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
	tx *memoutbox.Tx
}

func (x brokenTx) Enqueue(ctx context.Context, ev outbox.Event) (string, error) {
	id := ev.ID
	if x.b.event != nil {
		x.b.event(&ev)
	}
	made, err := x.b.Queue.Enqueue(ctx, x.tx, ev)
	if x.b.enqueued != nil {
		if err = x.b.enqueued(err); err == nil && made == "" {
			made = id
		}
	}
	return made, err
}

func (x brokenTx) EnqueueBatch(ctx context.Context, evs []outbox.Event) ([]string, error) {
	if x.b.batch != nil {
		return x.b.batch(x.tx, evs)
	}
	return x.b.Queue.EnqueueBatch(ctx, x.tx, evs)
}

func (x brokenTx) Commit(context.Context) error { return x.tx.Commit() }

func (x brokenTx) Rollback(context.Context) error {
	if x.b.commits {
		return x.tx.Commit()
	}
	return x.tx.Rollback()
}

// harness makes every queue broken in the same way.
func harness(spoil func(*broken)) Harness {
	at := func(q *memoutbox.Queue) *broken {
		b := &broken{Queue: q, unreadable: map[string]bool{}}
		spoil(b)
		return b
	}
	return Harness{
		Open:   func(*testing.T) Queue { return at(memoutbox.New()) },
		Beside: func(_ *testing.T, first Queue) Queue { return at(first.(*broken).Queue) },
		Begin: func(t *testing.T, q Queue) Tx {
			b := q.(*broken)
			tx := b.Begin()
			t.Cleanup(func() { _ = tx.Rollback() })
			return brokenTx{b, tx}
		},
		Spoil: func(_ *testing.T, q Queue, id, _ string) { q.(*broken).unreadable[id] = true },
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

package oneevent

import (
	"context"
	"iter"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// A fault is what happens to a call of the store or the queue.
type fault int

const (
	none       fault = iota
	refused          // nothing is changed, and the error shows it
	lost             // nothing is changed, and the error does not show it
	unanswered       // the call takes effect, and its response is lost
	hangs            // the call takes effect, and its response does not come
)

// over makes a call that may be slow, and fail on the way.
func (p *process) over(ctx context.Context, call func() error) (err error) {
	p.travel(ctx)
	defer func() {
		p.travel(ctx)
		if err == nil && ctx.Err() != nil && p.life.draw(2) == 0 {
			err = store.ErrUnknown // the caller does not wait for the response
		}
	}()
	if p.cut() {
		return store.ErrUnavailable
	}
	switch p.life.drawFault() {
	case refused:
		return store.ErrUnavailable
	case lost:
		return store.ErrUnknown
	case unanswered:
		_ = call()
		return store.ErrUnknown
	case hangs:
		_ = call()
		<-ctx.Done()
		return store.ErrUnknown
	case none:
	}
	return call()
}

// read makes a call that changes nothing.
func (p *process) read(ctx context.Context, call func() error) error {
	p.travel(ctx)
	defer p.travel(ctx)
	if p.cut() {
		return store.ErrUnavailable
	}
	switch p.life.drawFault() {
	case none:
		return call()
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	default:
		return store.ErrUnavailable
	}
}

// travel lets the time of a request or a response pass.
func (p *process) travel(ctx context.Context) {
	if p.life.chance(30) {
		select {
		case <-time.After(p.life.span(storeTimeout / 4)):
		case <-ctx.Done():
		}
	}
	p.waitForResume()
}

func (p *process) cut() bool { return p.dead.Load() || p.down.Load() && !p.life.calm.Load() }

// A storeLink is a process's connection to the store. Calls fail on it in every way that the store's contract allows.
type storeLink struct {
	inbox.Store
	p *process
}

// Reserve implements store.Store.
func (k storeLink) Reserve(ctx context.Context, c store.Claim) (g store.Grant, err error) {
	err = k.p.over(ctx, func() (err error) {
		g, err = k.Store.Reserve(ctx, c)
		return err
	})
	if err != nil {
		return store.Grant{}, err
	}
	return g, nil
}

// Extend implements store.Store.
func (k storeLink) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return k.p.over(ctx, func() error { return k.Store.Extend(ctx, l, d, meta) })
}

// Complete implements store.Store.
func (k storeLink) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return k.p.over(ctx, func() error { return k.Store.Complete(ctx, l, o) })
}

// Release implements store.Store.
func (k storeLink) Release(ctx context.Context, l store.Lease) error {
	return k.p.over(ctx, func() error { return k.Store.Release(ctx, l) })
}

// Find implements store.Store.
func (k storeLink) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	err = k.p.read(ctx, func() (err error) {
		rec, err = k.Store.Find(ctx, id)
		return err
	})
	return rec, err
}

// Pending implements store.Lister.
func (k storeLink) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	if err := k.p.read(ctx, func() error { return nil }); err != nil {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, err) }
	}
	return k.Store.Pending(ctx, scope)
}

// A queueLink is a process's connection to the queue.
type queueLink struct {
	inbox.Queue
	p *process
}

// Append implements outbox.Queue.
func (k queueLink) Append(ctx context.Context, events ...outbox.Event) error {
	return k.p.over(ctx, func() error { return k.Queue.Append(ctx, events...) })
}

// Claim implements outbox.Queue.
func (k queueLink) Claim(ctx context.Context, c outbox.Claim) (ds []outbox.Delivery, err error) {
	err = k.p.over(ctx, func() (err error) {
		ds, err = k.Queue.Claim(ctx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ds, nil
}

// Extend implements outbox.Queue.
func (k queueLink) Extend(ctx context.Context, d time.Duration, ls ...outbox.Lease) (gone []outbox.Lease, err error) {
	err = k.p.over(ctx, func() (err error) {
		gone, err = k.Queue.Extend(ctx, d, ls...)
		return err
	})
	return gone, err
}

// Settle implements outbox.Queue.
func (k queueLink) Settle(ctx context.Context, ended ...outbox.Settlement) (gone []outbox.Lease, err error) {
	err = k.p.over(ctx, func() (err error) {
		gone, err = k.Queue.Settle(ctx, ended...)
		return err
	})
	return gone, err
}

// Events implements outbox.Backlog.
func (k queueLink) Events(ctx context.Context, s outbox.Selection) iter.Seq2[outbox.Entry, error] {
	if err := k.p.read(ctx, func() error { return nil }); err != nil {
		return func(yield func(outbox.Entry, error) bool) { yield(outbox.Entry{}, err) }
	}
	return k.Queue.Events(ctx, s)
}

// Redrive implements outbox.Backlog.
func (k queueLink) Redrive(ctx context.Context, id, destination string) error {
	return k.p.over(ctx, func() error { return k.Queue.Redrive(ctx, id, destination) })
}

// Drop implements outbox.Backlog.
func (k queueLink) Drop(ctx context.Context, id, destination string) error {
	return k.p.over(ctx, func() error { return k.Queue.Drop(ctx, id, destination) })
}

// Disable implements outbox.Queue.
func (k queueLink) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	return k.p.over(ctx, func() error { return k.Queue.Disable(ctx, destination, why) })
}

// Enable implements outbox.Queue.
func (k queueLink) Enable(ctx context.Context, destination string) error {
	return k.p.over(ctx, func() error { return k.Queue.Enable(ctx, destination) })
}

// Disabled implements outbox.Queue.
func (k queueLink) Disabled(ctx context.Context) (ds []outbox.DisabledDestination, err error) {
	err = k.p.read(ctx, func() (err error) {
		ds, err = k.Queue.Disabled(ctx)
		return err
	})
	return ds, err
}

package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

var errLate = errors.New("the store granted the lease too late")

// plain is the mode of an Inbox. It holds the event by a lease, and settles it after the handler has returned.
type plain struct {
	in *Inbox
	h  Handler
}

func (p plain) set() bool { return p.h != nil }

func (p plain) lease() time.Duration { return p.in.config.lease }

func (p plain) attempt(ctx context.Context, a *attempt) error {
	if time.Since(a.held) >= safe(p.lease()) { // by now another delivery may own the event
		a.giveBack(ctx)
		return a.ev.fail(taxonomy.InFlight, errLate).after(a.note.Attempts)
	}
	if err := p.run(ctx, a); err != nil {
		return &handlerError{err}
	}
	return a.settle(ctx)
}

// safe returns the part of a lease within which the handler may run: two thirds.
func safe(lease time.Duration) time.Duration { return lease - lease/3 }

// run calls the handler while hold renews the lease. A handler that does not return, because of a panic or Goexit,
// has failed.
func (p plain) run(ctx context.Context, a *attempt) error {
	held, stop := a.hold(ctx)
	returned := false
	defer func() {
		stop()
		if returned {
			return
		}
		p := recover()
		a.receipt, a.err = a.finish(ctx, &handlerError{broken(p)})
		if p != nil {
			panic(p)
		}
	}()
	bounded, done := context.WithTimeout(held, a.in.timeout)
	defer done()
	a.begun = true
	err := p.h(bounded, a.ev)
	returned = true
	return err
}

// hold renews the lease after each third of it until stop is called, which waits for the last renewal. The context
// ends with the cause store.ErrLost when the lease is lost, or could not be renewed until two thirds of it have
// passed.
func (a *attempt) hold(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.renew(context.WithoutCancel(parent), quit); err != nil {
			cancel(err)
		}
	}()
	return ctx, func() {
		close(quit)
		<-ended
		cancel(nil)
	}
}

// renew renews the lease until quit is closed. Its error wraps store.ErrLost.
func (a *attempt) renew(ctx context.Context, quit <-chan struct{}) error {
	ttl := a.in.config.lease
	timer := time.NewTimer(time.Until(a.held.Add(ttl / 3)))
	defer timer.Stop()
	for {
		select {
		case <-quit:
			return nil
		case <-timer.C:
		}
		asked, limit := time.Now(), a.held.Add(safe(ttl))
		write, done := context.WithDeadline(ctx, limit)
		err := a.in.st.Extend(write, a.lease, ttl, nil)
		done()
		switch left := time.Until(limit); {
		case err == nil:
			a.held = asked
			timer.Reset(ttl / 3)
		case errors.Is(err, store.ErrLost):
			return store.ErrLost
		case left <= 0:
			return fmt.Errorf("%w: it could not be renewed in time: %w", store.ErrLost, err)
		default:
			timer.Reset(min(left, ttl/10))
		}
	}
}

package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// plain is the mode of an Inbox. It holds the event by a lease, and settles it after the handler has returned.
type plain struct {
	in *Inbox
	h  Handler
}

func (p plain) lease() time.Duration { return p.in.config.lease }

func (p plain) attempt(ctx context.Context, a *attempt) error {
	if err := p.run(ctx, a); err != nil {
		return &handlerError{err}
	}
	return a.settle(ctx, a.outcome(false))
}

var errPanicked = errors.New("the handler panicked")

// run calls the handler while hold renews the lease. If the handler does not return, because of a panic or Goexit,
// the event rests as after an error.
func (p plain) run(ctx context.Context, a *attempt) error {
	held, stop := a.hold(ctx)
	returned := false
	defer func() {
		stop()
		if !returned {
			a.note.err = errPanicked.Error()
			a.pause(ctx)
		}
	}()
	bounded, done := context.WithTimeout(held, a.in.timeout)
	defer done()
	err := p.h(bounded, a.ev)
	returned = true
	return err
}

// hold renews the lease every third of it until stop is called, which waits for the last renewal. The context ends with
// the cause store.ErrLost when the lease is lost.
func (a *attempt) hold(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		a.beat(context.WithoutCancel(parent), quit, cancel)
	}()
	return ctx, func() {
		close(quit)
		<-gone
		cancel(nil)
	}
}

func (a *attempt) beat(ctx context.Context, quit <-chan struct{}, cancel context.CancelCauseFunc) {
	ttl := a.in.config.lease
	ticker := time.NewTicker(ttl / 3)
	defer ticker.Stop()
	held := a.since
	for {
		select {
		case <-quit:
			return
		case <-ticker.C:
		}
		asked := time.Now()
		visit, over := context.WithTimeout(ctx, ttl/3)
		err := a.in.st.Extend(visit, a.lease, ttl, nil)
		over()
		switch {
		case err == nil:
			held = asked
		case errors.Is(err, store.ErrLost):
			cancel(store.ErrLost)
			return
		case time.Since(held) >= ttl:
			cancel(fmt.Errorf("%w: it ran out and could not be renewed: %w", store.ErrLost, err))
			return
		}
	}
}

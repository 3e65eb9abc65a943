package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redo-go/redo/store"
)

// The pause between two attempts to end a lease doubles from the first to the last.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// A settlement is the write that ends a lease: Complete, or Release. It is repeated until the store has recorded it.
type settlement struct {
	gate    *gate
	lease   store.Lease
	outcome store.Outcome
	release bool
	// claim is a claim whose Reserve may not have succeeded. If it did, the settlement releases its lease, or hands a
	// dead owner's key back. It is the zero Claim if the lease is known.
	claim store.Claim

	unsure  bool      // the response of an attempt was lost
	renewed time.Time // the lease lasts for LeaseTTL from then at least
	expires time.Time // when the record expires, about; zero: never
	began   time.Time

	ended     bool            // its end is reported; guarded by Background.mu
	values    context.Context // of the request, for the observer and the logger
	operation string
}

// settlement returns the write that ends the request's lease, to be completed by the caller.
func (c *execution) settlement() *settlement {
	s := &settlement{
		gate:      c.gate,
		lease:     c.lease,
		renewed:   c.renewed(),
		began:     time.Now(),
		values:    context.WithoutCancel(c.r.Context()),
		operation: c.operation(c.r),
	}
	if c.retention != store.Forever {
		s.expires = c.started.Add(c.retention)
	}
	return s
}

// unsettled reports whether another attempt could have another result.
func unsettled(err error) bool {
	return err != nil && !errors.Is(err, store.ErrLost) && !errors.Is(err, store.ErrInvalid)
}

// lostResponse reports whether the write that returned err may have been made.
func lostResponse(err error) bool {
	return errors.Is(err, store.ErrUnknown) || errors.Is(err, errStoreTimeout)
}

// repeat goes on after an attempt that returned err. It makes further attempts, with pauses, until the write is made,
// the lease is lost or the context ends. Each attempt is given the timeout; zero leaves it to the context. It returns
// the last attempt's error.
func (s *settlement) repeat(ctx context.Context, timeout time.Duration, err error) error {
	last := max(firstPause, min(lastPause, s.gate.leaseTTL/6))
	for pause := firstPause; unsettled(err); pause = min(2*pause, last) {
		if !s.expires.IsZero() && !time.Now().Before(s.expires) {
			return fmt.Errorf("server: the retention has ended: %w", err)
		}
		if !sleep(ctx, pause) {
			return err
		}
		err = s.try(ctx, timeout)
	}
	return err
}

// try makes one attempt, and renews the lease if that is due.
func (s *settlement) try(ctx context.Context, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errStoreTimeout)
		defer cancel()
	}
	err := s.attempt(ctx)
	if !unsettled(err) || s.lease.Fence == 0 {
		return err
	}
	if now := time.Now(); now.Sub(s.renewed) >= s.gate.leaseTTL/3 {
		switch lost := s.gate.store.Extend(ctx, s.lease, s.gate.leaseTTL, nil); {
		case lost == nil:
			s.renewed = now
		case errors.Is(lost, store.ErrLost) && s.unsure:
			return s.verify(ctx)
		case errors.Is(lost, store.ErrLost):
			return lost
		}
	}
	return err
}

// attempt makes the write once.
func (s *settlement) attempt(ctx context.Context) error {
	if s.lease.Fence == 0 {
		rec, err := s.gate.store.Find(ctx, s.claim.ID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		g, held := store.Held(rec, s.claim)
		if !held {
			return nil
		}
		if g.Verdict == store.TakenOver {
			// The record shows the earlier owner's known effect. The next request takes it over.
			return s.gate.store.Extend(ctx, g.Lease, 0, nil)
		}
		s.lease = g.Lease
	}
	var err error
	if s.release {
		err = s.gate.store.Release(ctx, s.lease)
	} else {
		err = s.gate.store.Complete(ctx, s.lease, s.outcome)
	}
	if lostResponse(err) || s.unsure && errors.Is(err, store.ErrLost) {
		// After a lost response, the lease may be lost because the write was made.
		s.unsure = true
		return s.verify(ctx)
	}
	return err
}

// verify reads from the record whether a write whose response was lost has been made.
func (s *settlement) verify(ctx context.Context) error {
	rec, err := s.gate.store.Find(ctx, s.lease.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) && s.release:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return store.ErrLost
	case err != nil:
		return errors.Join(store.ErrUnknown, err)
	case rec.Fence != s.lease.Fence:
		return store.ErrLost
	case rec.State == store.StatePending:
		return store.ErrUnknown // it was not made: the next attempt makes it
	}
	return nil
}

// report logs the end of a settlement for which the request did not wait.
func (s *settlement) report(err error) {
	if s.gate.logger == nil {
		return
	}
	level, text := slog.LevelInfo, "idempotent outcome recorded late"
	attrs := []slog.Attr{
		slog.String("idempotency_key", s.lease.ID.Key),
		slog.String("operation", s.operation),
		slog.Duration("elapsed", time.Since(s.began)),
	}
	if s.lease.ID.Key == "" {
		attrs[0] = slog.String("idempotency_key", s.claim.ID.Key)
	}
	if err != nil {
		level, text = slog.LevelError, "idempotent outcome not recorded"
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.gate.logger.LogAttrs(s.values, level, text, attrs...)
}

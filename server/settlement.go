package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redo-go/redo/internal/settle"
	"github.com/redo-go/redo/store"
)

// A settlement is the write that ends a lease. It is repeated until the store has recorded it.
type settlement struct {
	settle.Write
	gate *gate
	// claim is a claim whose Reserve may not have succeeded. If it did, the settlement releases its lease, or hands a
	// dead owner's key back. It is the zero Claim if the lease is known.
	claim store.Claim

	expires time.Time // when the record expires, about; zero: never
	began   time.Time

	ended     bool            // its end is reported; guarded by Background.mu
	values    context.Context // of the request, for the observer and the logger
	operation string
}

// settlement returns the write that ends the request's lease, to be completed by the caller.
func (c *execution) settlement() *settlement {
	s := &settlement{
		Write:     settle.Write{Store: c.store, Lease: c.lease, TTL: c.leaseTTL, Renewed: c.renewed()},
		gate:      c.gate,
		began:     time.Now(),
		values:    context.WithoutCancel(c.r.Context()),
		operation: c.operation(c.r),
	}
	if c.retention != store.Forever {
		s.expires = c.started.Add(c.retention)
	}
	return s
}

// repeat goes on after an attempt that returned err. It makes further attempts, with pauses, until the write is made,
// the lease is lost, the retention or the context ends. Each attempt is given the timeout; zero leaves it to the
// context. It returns the last attempt's error.
func (s *settlement) repeat(ctx context.Context, timeout time.Duration, err error) error {
	if !s.expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, s.expires, errExpired)
		defer cancel()
	}
	err = settle.Repeat(ctx, s.TTL, err, func() error { return s.try(ctx, timeout) })
	if settle.Open(err) && errors.Is(context.Cause(ctx), errExpired) {
		err = fmt.Errorf("%w: %w", errExpired, err)
	}
	return err
}

var errExpired = errors.New("server: the retention has ended")

// try makes one attempt.
func (s *settlement) try(ctx context.Context, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errStoreTimeout)
		defer cancel()
	}
	if s.Lease.Fence == 0 {
		rec, err := s.Store.Find(ctx, s.claim.ID)
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
			return s.Store.Extend(ctx, g.Lease, 0, nil)
		}
		s.Lease = g.Lease
	}
	return s.Try(ctx)
}

// report logs the end of a settlement for which the request did not wait.
func (s *settlement) report(err error) {
	if s.gate.logger == nil {
		return
	}
	level, text := slog.LevelInfo, "idempotent outcome recorded late"
	attrs := []slog.Attr{
		slog.String("idempotency_key", s.Lease.ID.Key),
		slog.String("operation", s.operation),
		slog.Duration("elapsed", time.Since(s.began)),
	}
	if s.Lease.ID.Key == "" {
		attrs[0] = slog.String("idempotency_key", s.claim.ID.Key)
	}
	if err != nil {
		level, text = slog.LevelError, "idempotent outcome not recorded"
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.gate.logger.LogAttrs(s.values, level, text, attrs...)
}

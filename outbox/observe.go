package outbox

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Observer receives a relay's attempts and queue calls, for metrics and traces. Its methods are called on the
// relay's goroutines, so they must be quick and safe for concurrent use.
type Observer interface {
	// ObserveAttempt is called once for each attempt, after it was settled or could not be settled.
	ObserveAttempt(ctx context.Context, a Attempt)
	// ObserveQueue is called after each call to the queue.
	ObserveQueue(ctx context.Context, q QueueCall)
}

// Attempt is one delivery that has ended.
type Attempt struct {
	ID          string
	Type        string
	Destination string
	OrderingKey string
	Number      int           // from 1
	Result      Result        // zero if the lease was lost or the queue failed: the event is delivered again
	Code        taxonomy.Code // the failure's code; empty if there is none
	Wait        time.Duration // before the next attempt, when Result is Waiting
	Lag         time.Duration // from the event's Enqueue to the end of the attempt
	Elapsed     time.Duration // of the attempt
	Err         error         // the publisher's, or the queue's when there is no Result
}

// QueueCall is one call to the queue.
type QueueCall struct {
	Method  string // as the interfaces name it: Claim, Extend, Settle, Disable, Watch or Purge
	Count   int    // the number of claimed, extended, settled or purged events
	Elapsed time.Duration
	Err     error
}

func (r *Relay) observeQueue(ctx context.Context, method string, start time.Time, count int, err error) {
	if r.observer != nil {
		r.observer.ObserveQueue(ctx, QueueCall{Method: method, Count: count, Elapsed: time.Since(start), Err: err})
	}
	if err != nil && r.logger != nil {
		r.logger.LogAttrs(ctx, slog.LevelError, "outbox queue failed", slog.String("method", method),
			slog.String("error", err.Error()))
	}
}

// report reports the result of the attempt to the observer and the logger.
func (r *Relay) report(ctx context.Context, d Delivery, a Attempt) {
	if r.observer != nil {
		r.observer.ObserveAttempt(ctx, a)
	}
	if r.logger == nil {
		return
	}
	level, to, text := slog.LevelDebug, a.Result.String(), "event delivered"
	switch a.Result {
	case Sent:
	case Released:
		to, text = Waiting.String(), "delivery broken off"
		if a.Code != "" { // the queue keeps no trace of it
			level, text = slog.LevelInfo, "delivery failed and not counted, to be tried again"
		}
	case Waiting:
		level, text = slog.LevelInfo, "delivery failed, to be tried again"
	case Dead:
		level, text = slog.LevelWarn, "event is a dead letter"
	default:
		level, to, text = slog.LevelWarn, "unknown", "delivery not settled, to come again"
	}
	fault, panicked := errors.AsType[*panicError](a.Err)
	if panicked {
		level = slog.LevelError
	}
	if !r.logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("idempotency_key", a.ID),
		slog.String("payload_hash", store.Raw("", "", "", d.Event.Payload).String()),
		slog.String("operation", a.Type),
		slog.Int("attempt", a.Number),
		slog.String("from_state", Waiting.String()),
		slog.String("to_state", to),
	)
	if a.Code != "" {
		attrs = append(attrs, slog.String("error_code", string(a.Code)))
	}
	if a.Result == Waiting {
		attrs = append(attrs, slog.Duration("retry_delay", a.Wait))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("error", wire.Clip(a.Err.Error(), MaxReason)))
	}
	if panicked {
		attrs = append(attrs, slog.String("stack", string(fault.stack)))
	}
	r.logger.LogAttrs(ctx, level, text, attrs...)
}

// reportDisabled notifies the operator of a disabled destination.
func (r *Relay) reportDisabled(ctx context.Context, d DisabledDestination) {
	if r.onDisabled != nil {
		r.onDisabled(ctx, d)
	}
	if r.logger == nil {
		return
	}
	attrs := []slog.Attr{slog.String("error_code", string(d.Why.Code)), slog.Int("status", d.Why.Status)}
	if u, err := url.Parse(d.Destination); err == nil && u.Host != "" {
		attrs = append(attrs, slog.String("host", u.Host))
	}
	r.logger.LogAttrs(ctx, slog.LevelError, "destination disabled, its events wait for Enable", attrs...)
}

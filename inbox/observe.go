package inbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An Observer sees each delivery and each redrive of an inbox, for metrics and traces. Its method is called on the
// delivery's goroutine, so it must be quick and safe for concurrent use.
type Observer interface {
	// ObserveDelivery is called once for each delivery and each redrive, after it has ended. The deliveries that are
	// refused before the handler runs are included.
	ObserveDelivery(ctx context.Context, d Delivery)
}

// A Delivery is one delivery of an event, or one redrive, after it has ended.
type Delivery struct {
	// Receipt has the status 0 if the delivery was not acknowledged. Then only Source, ID and Attempts are set.
	// Attempts is zero if it is not known, and ID is "" if the event could not be identified.
	Receipt
	Redriven   bool          // by an operator
	Queued     bool          // by the queue of [Accept]
	Code       taxonomy.Code // why the delivery was not acknowledged, or the event not handled; "" for success
	RetryAfter time.Duration // how long further deliveries are refused, if Status is zero
	Elapsed    time.Duration // of the delivery
	Err        error         // the cause, if Code is set; it may be nil
}

// report passes a delivery to the observer and the logger.
func (in *Inbox) report(ctx context.Context, ev Event, c call, r Receipt, err error, start time.Time) {
	if in.observer == nil && in.logger == nil {
		return
	}
	r.Source, r.ID = ev.Source, ev.ID
	d := Delivery{Receipt: r, Redriven: c.redriven, Queued: c.queued, Elapsed: time.Since(start)}
	if e, ok := errors.AsType[*Error](err); ok {
		d.Code, d.Attempts, d.RetryAfter, d.Err = e.Code, e.Attempts, e.RetryAfter, e.Err
	} else if r.Dead() {
		d.Code, d.Err = HandlerFailed, errors.New(r.Failure)
	}
	switch {
	case r.PayloadMismatch:
		d.Code = taxonomy.PayloadMismatch
	case r.Unknown:
		d.Code = taxonomy.OutcomeUnknown
	}
	if in.observer != nil {
		in.observer.ObserveDelivery(ctx, d)
	}
	if in.logger != nil {
		in.log(ctx, d)
	}
}

// log logs a delivery. The payload is not part of it.
func (in *Inbox) log(ctx context.Context, d Delivery) {
	level, text := d.message()
	if !in.logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs,
		slog.String("idempotency_key", wire.Cut(d.ID, MaxID)), // a refused one may be of any length
		slog.String("source", wire.Cut(d.Source, MaxSource)),
		slog.String("status", d.Status.String()),
		slog.Int("attempt", d.Attempts),
		slog.Duration("elapsed", d.Elapsed),
	)
	if d.Status != 0 {
		attrs = append(attrs, slog.String("payload_hash", d.PayloadHash.String()))
	}
	if d.Code != "" {
		attrs = append(attrs, slog.String("error_code", string(d.Code)))
	}
	if d.RetryAfter > 0 {
		attrs = append(attrs, slog.Duration("retry_delay", d.RetryAfter))
	}
	if d.Err != nil {
		attrs = append(attrs, slog.String("error", wire.Clip(d.Err.Error(), maxError)))
	}
	in.logger.LogAttrs(ctx, level, "inbox: "+text, attrs...)
}

// message returns the level and the text with which a delivery is logged.
func (d Delivery) message() (slog.Level, string) {
	switch {
	case errors.Is(d.Err, store.ErrTxEnded), d.Code == taxonomy.OutcomeUnknown:
		return slog.LevelError, "the handler has ended its transaction"
	case d.Status == DeadLettered:
		return slog.LevelWarn, "event is a dead letter"
	case d.Status != 0 && d.Code == taxonomy.PayloadMismatch:
		return slog.LevelWarn, "settled event came with another payload"
	case d.Status == Accepted:
		return slog.LevelDebug, "event accepted"
	case d.Status == Processed:
		return slog.LevelDebug, "event handled"
	case d.Status != 0:
		return slog.LevelDebug, "event was settled before"
	case d.Code == taxonomy.InFlight:
		return slog.LevelDebug, "event is being handled, or rests"
	case d.Code == HandlerFailed:
		return slog.LevelInfo, "event not handled, another delivery is needed"
	case d.Code == taxonomy.Unavailable, d.Code.In(taxonomy.Configuration), d.Code == taxonomy.Internal:
		return slog.LevelError, "delivery failed"
	default:
		return slog.LevelWarn, "delivery refused"
	}
}

package otelredo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/outbox"
)

const (
	attrType   = attribute.Key("redo.event.type")
	attrResult = attribute.Key("redo.result")
	attrState  = attribute.Key("redo.state")
)

// Outbox returns an observer for outbox.Observe. Each attempt is a span. The destination is no attribute, because a
// URL may be a secret.
func Outbox(opts ...Option) outbox.Observer {
	c := newConfig(opts)
	m := c.meter()
	return &relay{
		tracer: c.tracer(), attempts: m.counter(eventAttempts), duration: m.seconds(eventDuration),
		lag:   m.seconds(eventLag),
		queue: m.seconds(queueDuration),
	}
}

type relay struct {
	tracer   trace.Tracer
	attempts metric.Int64Counter
	duration metric.Float64Histogram
	lag      metric.Float64Histogram
	queue    metric.Float64Histogram
}

// ObserveAttempt implements outbox.Observer.
func (r *relay) ObserveAttempt(ctx context.Context, a outbox.Attempt) {
	end := time.Now()
	result := attrResult.String(a.Result.String())
	ctx, span := r.tracer.Start(ctx, "redo delivery", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithTimestamp(end.Add(-a.Elapsed)),
		trace.WithAttributes(attrKey.String(a.ID), attrAttempt.Int(a.Number), attrType.String(a.Type), result))
	counted := []attribute.KeyValue{result}
	if a.Code != "" {
		counted = append(counted, errorType(a.Code))
		span.SetAttributes(semconv.ErrorTypeKey.String(string(a.Code)))
		span.SetStatus(codes.Error, string(a.Code))
	}
	r.attempts.Add(ctx, 1, metric.WithAttributes(counted...))
	r.duration.Record(ctx, a.Elapsed.Seconds(), metric.WithAttributes(result))
	if a.Result == outbox.Sent {
		r.lag.Record(ctx, a.Lag.Seconds())
	}
	span.End(trace.WithTimestamp(end))
}

// ObserveQueue implements outbox.Observer.
func (r *relay) ObserveQueue(ctx context.Context, q outbox.QueueCall) {
	attrs := []attribute.KeyValue{attrMethod.String(q.Method)}
	if q.Err != nil {
		attrs = append(attrs, errorType(redo.CodeOf(q.Err)))
	}
	r.queue.Record(ctx, q.Elapsed.Seconds(), metric.WithAttributes(attrs...))
}

// A Backlog is a queue whose fullness can be read. Those of boltoutbox, pgoutbox and memoutbox are.
type Backlog interface {
	outbox.Queue
	outbox.Backlog
}

// ObserveBacklog reports how full a queue is: the events that wait and that are dead, the age of the oldest, and
// the disabled destinations. Each collection reads the queue. Unregister the result to stop it. A process with several
// queues needs [Name].
func ObserveBacklog(q Backlog, opts ...Option) (metric.Registration, error) {
	if null.Is(q) {
		return nil, errors.New("otelredo: the queue is nil")
	}
	c := newConfig(opts)
	m, named := c.meter(), metric.WithAttributes(c.named...)
	count, errCount := m.gauge(backlogCount)
	age, errAge := m.secondsGauge(backlogAge)
	disabled, errDisabled := m.gauge(disabledCount)
	if err := errors.Join(errCount, errAge, errDisabled); err != nil {
		return nil, fmt.Errorf("otelredo: %w", err)
	}
	return m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		s, err := q.Stats(ctx)
		if err != nil {
			return fmt.Errorf("otelredo: %w", err)
		}
		destinations, err := q.Disabled(ctx)
		if err != nil {
			return fmt.Errorf("otelredo: %w", err)
		}
		o.ObserveInt64(count, int64(s.Waiting), metric.WithAttributes(attrState.String("waiting")), named)
		o.ObserveInt64(count, int64(s.Dead), metric.WithAttributes(attrState.String("dead")), named)
		o.ObserveFloat64(age, s.Oldest.Seconds(), named)
		o.ObserveInt64(disabled, int64(len(destinations)), named)
		return nil
	}, count, age, disabled)
}

package otelredo

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

const (
	attrKind   = attribute.Key("redo.kind")
	attrFrom   = attribute.Key("from_state")
	attrTo     = attribute.Key("to_state")
	attrMethod = attribute.Key("redo.store.method")
)

// Server returns an observer for server.Observe.
func Server(opts ...Option) server.RequestObserver {
	c := newConfig(opts)
	m := c.meter()
	return &middleware{
		tracer: c.tracer(), active: m.upDown(requestActive), waiting: m.upDown(requestWaiting),
		duration: m.seconds(requestDuration), store: m.seconds(storeDuration), lost: m.counter(leaseLost),
		kinds: map[server.Kind]metric.Int64Counter{
			server.Created: m.counter(requestCreated), server.TookOver: m.counter(requestTakenOver),
			server.Replayed: m.counter(requestReplayed), server.Conflicted: m.counter(requestConflict),
			server.Refused: m.counter(requestRefused), server.Unavailable: m.counter(requestFailed),
			server.FailedOpen: m.counter(requestUntracked), server.TimedOut: m.counter(requestTimedOut),
		},
	}
}

type middleware struct {
	tracer   trace.Tracer
	active   metric.Int64UpDownCounter
	waiting  metric.Int64UpDownCounter
	duration metric.Float64Histogram
	store    metric.Float64Histogram
	lost     metric.Int64Counter
	kinds    map[server.Kind]metric.Int64Counter
}

// StartRequest implements server.RequestObserver.
func (m *middleware) StartRequest(ctx context.Context, operation string) context.Context {
	m.active.Add(ctx, 1, metric.WithAttributes(attrOperation.String(operation)))
	ctx, _ = m.tracer.Start(ctx, "redo "+operation, trace.WithAttributes(attrOperation.String(operation)))
	return ctx
}

// ObserveRequest implements server.Observer.
func (m *middleware) ObserveRequest(ctx context.Context, e server.Event) {
	span := trace.SpanFromContext(ctx)
	defer span.End()
	operation, kind := attrOperation.String(e.Operation), attrKind.String(e.Kind.String())
	span.SetAttributes(kind, attrKey.String(e.Key), attrFrom.String(state(e.From)), attrTo.String(state(e.To)))
	if e.Status != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(e.Status))
	}
	counted := []attribute.KeyValue{operation}
	if e.Code != "" {
		counted = append(counted, errorType(e.Code))
		span.SetAttributes(semconv.ErrorTypeKey.String(string(e.Code)))
	}
	if e.Kind == server.Unavailable || e.Status >= 500 {
		span.SetStatus(codes.Error, string(e.Code))
	}
	if counter, ok := m.kinds[e.Kind]; ok {
		counter.Add(ctx, 1, metric.WithAttributes(counted...))
	}
	m.duration.Record(ctx, e.Elapsed.Seconds(), metric.WithAttributes(operation, kind))
	m.active.Add(ctx, -1, metric.WithAttributes(operation))
}

func state(s store.State) string {
	if s == 0 {
		return "absent"
	}
	return s.String()
}

// ObserveWait implements server.RequestObserver.
func (m *middleware) ObserveWait(ctx context.Context, change int) { m.waiting.Add(ctx, int64(change)) }

// ObserveStore implements server.Observer. A call is a span too.
func (m *middleware) ObserveStore(ctx context.Context, s server.StoreCall) {
	attrs := []attribute.KeyValue{attrMethod.String(s.Method)}
	failure := errorType(redo.CodeOf(s.Err))
	if s.Err != nil {
		attrs = append(attrs, failure)
		if errors.Is(s.Err, store.ErrLost) {
			m.lost.Add(ctx, 1)
		}
	}
	m.store.Record(ctx, s.Elapsed.Seconds(), metric.WithAttributes(attrs...))
	end := time.Now()
	_, span := m.tracer.Start(ctx, "redo store "+s.Method, trace.WithTimestamp(end.Add(-s.Elapsed)),
		trace.WithAttributes(attrs...))
	if s.Err != nil {
		span.SetStatus(codes.Error, failure.Value.AsString())
	}
	span.End(trace.WithTimestamp(end))
}

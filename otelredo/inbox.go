package otelredo

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/redo-go/redo/inbox"
)

const (
	attrSource = attribute.Key("redo.source")
	attrStatus = attribute.Key("redo.status")
)

// Inbox returns an observer for inbox.Observe. Each delivery is a span.
func Inbox(opts ...Option) inbox.Observer {
	c := newConfig(opts)
	m := c.meter()
	return &consumer{tracer: c.tracer(), deliveries: m.counter(inboxDelivered), duration: m.seconds(inboxDuration)}
}

type consumer struct {
	tracer     trace.Tracer
	deliveries metric.Int64Counter
	duration   metric.Float64Histogram
}

// ObserveDelivery implements inbox.Observer.
func (c *consumer) ObserveDelivery(ctx context.Context, d inbox.Delivery) {
	end := time.Now()
	source, status := attrSource.String(d.Source), attrStatus.String(d.Status.String())
	ctx, span := c.tracer.Start(ctx, "redo event", trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(end.Add(-d.Elapsed)),
		trace.WithAttributes(attrKey.String(d.ID), attrAttempt.Int(d.Attempts), source, status))
	counted := []attribute.KeyValue{source, status}
	if d.Code != "" {
		counted = append(counted, errorType(d.Code))
		span.SetAttributes(semconv.ErrorTypeKey.String(string(d.Code)))
		span.SetStatus(codes.Error, string(d.Code))
	}
	c.deliveries.Add(ctx, 1, metric.WithAttributes(counted...))
	c.duration.Record(ctx, d.Elapsed.Seconds(), metric.WithAttributes(source, status))
	span.End(trace.WithTimestamp(end))
}

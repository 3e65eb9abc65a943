package otelredo

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/redo-go/redo"
)

// Attributes of this package.
const (
	attrKey       = attribute.Key("idempotency_key")
	attrAttempt   = attribute.Key("attempt")
	attrOperation = attribute.Key("operation")
	attrEffect    = attribute.Key("redo.effect")
	attrReplayed  = attribute.Key("redo.replayed")
	attrResumed   = attribute.Key("redo.resumed")
	attrAttempts  = attribute.Key("redo.attempts")
	attrReason    = attribute.Key("redo.reason")
	attrClass     = attribute.Key("redo.class")
)

// Client returns an observer for redo.WithObserver. It also observes attempts.
func Client(opts ...Option) redo.Observer {
	c := newConfig(opts)
	m := c.meter()
	return &client{
		tracer: c.tracer(), duration: m.seconds(operationDuration), active: m.upDown(operationActive),
		attempts: m.counts(operationAttempts), refused: m.counter(operationRefused), delay: m.seconds(retryDelay),
	}
}

type client struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	active   metric.Int64UpDownCounter
	attempts metric.Int64Histogram
	refused  metric.Int64Counter
	delay    metric.Float64Histogram
}

// callKey is the context key of an operation's *call.
type callKey struct{}

// A call is the state of an operation under way. The client makes its attempts one after the other.
type call struct {
	host    []attribute.KeyValue // the destination
	attempt trace.Span           // of the last attempt; nil before the first
}

// hostOf returns server.address, and server.port if the host has a port.
func hostOf(host string) []attribute.KeyValue {
	u := url.URL{Host: host}
	attrs := []attribute.KeyValue{semconv.ServerAddress(u.Hostname())}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		attrs = append(attrs, semconv.ServerPort(port))
	}
	return attrs
}

// StartOperation implements redo.Observer.
func (c *client) StartOperation(ctx context.Context, s redo.OperationStart) context.Context {
	host := hostOf(s.Host)
	c.active.Add(ctx, 1, metric.WithAttributes(host...))
	ctx, _ = c.tracer.Start(ctx, "redo "+s.Method, trace.WithAttributes(host...), trace.WithAttributes(
		attrOperation.String(s.Operation), semconv.HTTPRequestMethodKey.String(s.Method),
	))
	return context.WithValue(ctx, callKey{}, &call{host: host})
}

// EndOperation implements redo.Observer.
func (c *client) EndOperation(ctx context.Context, e redo.OperationEnd) {
	k, _ := ctx.Value(callKey{}).(*call)
	if k == nil {
		k = &call{}
	}
	host := k.host
	if k.attempt != nil && k.attempt.IsRecording() { // it has panicked
		k.attempt.SetStatus(codes.Error, "panic")
		k.attempt.End()
	}
	effect := attrEffect.String(e.Effect.String())
	attrs := append(slices.Clip(host), effect)
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attrKey.String(e.Key), attrAttempts.Int(e.Attempts), effect, attrReplayed.Bool(e.Replayed),
		attrResumed.Bool(e.Resumed))
	if e.Err != nil {
		attrs = append(attrs, errorType(e.Err.Code))
		span.SetAttributes(semconv.ErrorTypeKey.String(string(e.Err.Code)))
		span.SetStatus(codes.Error, string(e.Err.Code))
		if reason := refusal(e.Err); reason != "" {
			c.refused.Add(ctx, 1, metric.WithAttributes(append(slices.Clip(host), attrReason.String(reason))...))
		}
	}
	c.duration.Record(ctx, e.Elapsed.Seconds(), metric.WithAttributes(attrs...))
	if e.Attempts > 0 {
		c.attempts.Record(ctx, int64(e.Attempts), metric.WithAttributes(host...))
	}
	c.active.Add(ctx, -1, metric.WithAttributes(host...))
	span.End()
}

// refusal returns which of the client's own limits ended the call, "" if none did.
func refusal(err error) string {
	switch {
	case errors.Is(err, redo.ErrBudget):
		return "budget"
	case errors.Is(err, redo.ErrBreakerOpen):
		return "breaker"
	case errors.Is(err, redo.ErrLimited):
		return "limiter"
	}
	return ""
}

// StartAttempt implements redo.AttemptObserver.
func (c *client) StartAttempt(ctx context.Context, s redo.AttemptStart) context.Context {
	ctx, span := c.tracer.Start(ctx, "redo attempt", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attrOperation.String(s.Operation), attrKey.String(s.Key), attrAttempt.Int(s.Number),
	))
	if k, _ := ctx.Value(callKey{}).(*call); k != nil {
		k.attempt = span
	}
	return ctx
}

// EndAttempt implements redo.AttemptObserver.
func (c *client) EndAttempt(ctx context.Context, e redo.AttemptEnd) {
	span := trace.SpanFromContext(ctx)
	defer span.End()
	if e.Attempt.Wait > 0 {
		c.delay.Record(ctx, e.Attempt.Wait.Seconds())
	}
	if e.Attempt.Status != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(e.Attempt.Status))
	}
	if e.Attempt.Code != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(string(e.Attempt.Code)), attrClass.String(e.Class.String()))
		span.SetStatus(codes.Error, string(e.Attempt.Code))
	}
}

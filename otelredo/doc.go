// Package otelredo reports the work of redo to OpenTelemetry, as traces and metrics. Each side needs one line:
//
//	client, err := redo.New(redo.WithStore(st), redo.WithObserver(otelredo.Client()))
//	once := server.Middleware(st, server.Required(), server.Principal(customer), server.Observe(otelredo.Server()))
//	relay, err := outbox.NewRelay(queue, publisher, outbox.Observe(otelredo.Outbox()))
//	events, err := inbox.New(st, inbox.Observe(otelredo.Inbox()))
//
// [Pending] reports pending operations, and [ObserveBacklog] waiting events.
//
// The providers are the global ones of package otel unless [TracerProvider] and [MeterProvider] set others.
//
// # Traces
//
// An operation of the client is one span, with a child for each attempt. A request with a key is one span of the
// server, a child of the span in the request's context. A relay's attempt and a delivery to an inbox are one span each.
// All have the attribute idempotency_key, so that a search for the key finds all sides. To connect them in one trace,
// give the client a transport of otelhttp and put otelhttp before the middleware.
//
// # Metrics
//
// [Metrics] lists the name, the unit and the meaning of every metric. A metric that is recorded on the context of a
// sampled span has an exemplar with its trace.
// The attribute error.type of a metric has redo's own codes only. Another code, such as one that a remote server chose,
// is cut at its dots until it is one of them. Spans have the whole code.
//
// No body, credential, query string or URL is ever part of a span or a metric. Keys and operation names are attributes
// of spans only. With server.Pepper the key of a server's span is its HMAC.
package otelredo

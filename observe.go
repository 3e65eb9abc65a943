package redo

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An Observer sees every call, including one that ends before its first attempt. StartOperation returns the context
// that the operation runs on and that EndOperation receives: put a span in it. An Observer that is also an
// [AttemptObserver] sees every attempt. The client calls the methods synchronously. They must be safe for concurrent
// use.
type Observer interface {
	StartOperation(ctx context.Context, start OperationStart) context.Context
	EndOperation(ctx context.Context, end OperationEnd)
}

// An AttemptObserver sees every attempt. StartAttempt returns the context that the attempt runs on and that
// EndAttempt receives.
type AttemptObserver interface {
	StartAttempt(ctx context.Context, start AttemptStart) context.Context
	EndAttempt(ctx context.Context, end AttemptEnd)
}

// OperationStart is a call before its first attempt.
type OperationStart struct {
	Operation string // empty if it has no name
	Key       string // empty if it has none, or if the store has not been read yet
	Method    string
	Host      string
}

// OperationEnd is a call after its last attempt.
type OperationEnd struct {
	Operation string
	Key       string
	Attempts  int
	Elapsed   time.Duration
	Effect    Effect
	Resumed   bool // the operation was pending or complete when the call began
	Stored    bool // the response came from the store, nothing was sent
	Replayed  bool // the response is marked as a replay, or came from the store
	Err       *Error
}

// AttemptStart is an attempt before it is sent.
type AttemptStart struct {
	Operation string
	Key       string
	Number    int
}

// AttemptEnd is an attempt after its response or error.
type AttemptEnd struct {
	Operation string
	Key       string
	Attempt   Attempt
	Class     taxonomy.Class
}

// startEvent returns the call's OperationStart.
func (k *call) startEvent() OperationStart {
	start := OperationStart{Operation: k.op.name, Key: k.op.key}
	if k.req != nil && k.req.URL != nil {
		start.Method, start.Host = k.req.Method, k.req.URL.Host
	}
	return start
}

// refusal reports a call that ended before there was a request, and returns its error.
func (c *Client) refusal(ctx context.Context, e *Error) *Error {
	if ctx == nil {
		ctx = context.Background()
	}
	k := &call{client: c, ctx: ctx, op: operation{name: e.Operation, key: e.Key}, start: time.Now()}
	if c.observer != nil {
		k.ctx = c.observer.StartOperation(k.ctx, k.startEvent())
	}
	k.end(outcome{err: e, effect: e.Effect}, intentOf(ctx).report)
	return e
}

// log writes one record with the attributes that every record of a call has. Bodies, credentials and query strings are
// never logged.
func (k *call) log(level slog.Level, msg string, attrs ...slog.Attr) {
	l := k.client.log
	if l == nil || !l.Enabled(k.ctx, level) {
		return
	}
	attrs = append(attrs, slog.String("operation", k.op.name), slog.String("idempotency_key", k.op.key))
	if k.req != nil {
		if id := cmp.Or(k.req.Header.Get("X-Correlation-Id"), k.req.Header.Get("X-Request-Id")); id != "" {
			attrs = append(attrs, slog.String("correlation_id", id))
		}
	}
	l.LogAttrs(k.ctx, level, msg, attrs...)
}

// logRetry logs the wait after an attempt.
func (k *call) logRetry(a Attempt) {
	k.log(slog.LevelInfo, "retrying", slog.Int("attempt", a.Number), slog.Int("status", a.Status),
		slog.String("error_code", string(a.Code)), slog.Duration("retry_delay", a.Wait))
}

// logTransition logs an operation's change of state.
func (k *call) logTransition(fingerprint store.Fingerprint, from string, to store.State) {
	k.log(slog.LevelDebug, "operation changed state", slog.String("payload_hash", fingerprint.String()),
		slog.String("from_state", from), slog.String("to_state", to.String()))
}

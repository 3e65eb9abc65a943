package redo

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// An Observer is told of every operation. StartOperation returns the context that the operation then runs on
// and that EndOperation receives: put a span in it. An Observer that is an [AttemptObserver] too is also told
// of every attempt. Its methods are called synchronously and must be safe for concurrent use.
type Observer interface {
	StartOperation(ctx context.Context, start OperationStart) context.Context
	EndOperation(ctx context.Context, end OperationEnd)
}

// An AttemptObserver is told of every attempt: StartAttempt returns the context that the attempt then runs on, and
// that EndAttempt receives.
type AttemptObserver interface {
	StartAttempt(ctx context.Context, start AttemptStart) context.Context
	EndAttempt(ctx context.Context, end AttemptEnd)
}

// OperationStart is what is known before the first attempt.
type OperationStart struct {
	Operation string // empty when it has no name
	Key       string // empty when it has none
	Method    string
	Host      string
	Resumed   bool // the operation was pending already
}

// OperationEnd is how a call ended.
type OperationEnd struct {
	Operation string
	Key       string
	Attempts  int
	Elapsed   time.Duration
	Effect    Effect
	Stored    bool // answered from the store, nothing was sent
	Replayed  bool // the server says that it replayed its answer
	Err       *Error
}

// AttemptStart is what is known before an attempt is sent.
type AttemptStart struct {
	Operation string
	Key       string
	Number    int
}

// AttemptEnd is how an attempt ended.
type AttemptEnd struct {
	Operation string
	Key       string
	Attempt   Attempt
	Class     taxonomy.Class
}

// Attribute names of log records. Bodies, credentials and query strings are never logged.
const (
	logKey         = "idempotency_key"
	logPayload     = "payload_hash"
	logOperation   = "operation"
	logStatus      = "status"
	logAttempt     = "attempt"
	logFrom        = "from_state"
	logTo          = "to_state"
	logCode        = "error_code"
	logDelay       = "retry_delay"
	logCorrelation = "correlation_id"
)

// logAttrs are the attributes that every record of a call has.
func (k *call) logAttrs(more ...slog.Attr) []slog.Attr {
	attrs := append(more, slog.String(logOperation, k.op.name), slog.String(logKey, k.op.key))
	if id := cmp.Or(k.req.Header.Get("X-Correlation-Id"), k.req.Header.Get("X-Request-Id")); id != "" {
		attrs = append(attrs, slog.String(logCorrelation, id))
	}
	return attrs
}

// logTransition notes an operation's change of state.
func (k *call) logTransition(from, to string) {
	if l := k.client.log; l != nil && l.Enabled(k, slog.LevelDebug) {
		l.LogAttrs(k, slog.LevelDebug, "operation changed state", k.logAttrs(
			slog.String(logPayload, k.claimed.fingerprint.String()), slog.String(logFrom, from), slog.String(logTo, to))...)
	}
}

// logRetry notes a wait.
func (k *call) logRetry(a Attempt) {
	if l := k.client.log; l != nil && l.Enabled(k, slog.LevelInfo) {
		l.LogAttrs(k, slog.LevelInfo, "retrying", k.logAttrs(slog.Int(logAttempt, a.Number), slog.Int(logStatus, a.Status),
			slog.String(logCode, string(a.Code)), slog.Duration(logDelay, a.Wait))...)
	}
}

// logStore notes a write to the store that failed after the answer was in. The operation stays pending, and
// the server answers its next call from its record.
func (k *call) logStore(err error) {
	if l := k.client.log; l != nil {
		l.LogAttrs(k, slog.LevelWarn, "outcome not stored: the operation stays pending", k.logAttrs(slog.Any("error", err))...)
	}
}

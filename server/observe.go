package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An Observer is told what the middleware does, for metrics and traces. Its methods are called on the request's
// goroutine (and, for heartbeats, on others), so they must be quick and safe for concurrent use.
type Observer interface {
	// ObserveRequest is called once for each request that brought a key, or lacked a required one, after it was answered;
	// also when the handler panicked.
	ObserveRequest(ctx context.Context, e Event)
	// ObserveStore is called after each call to the store.
	ObserveStore(ctx context.Context, s StoreCall)
}

// A Kind says what became of a request. The zero value is no kind.
type Kind uint8

const (
	Created     Kind = iota + 1 // the handler ran, as the first for the key
	TookOver                    // the handler ran, after an earlier request with the key had died
	Replayed                    // the stored response was given
	Conflicted                  // refused for what the key stands for; Event.Code tells which conflict
	Refused                     // refused for the request itself, before the store was asked
	Unavailable                 // refused because the store did not answer, or the outcome could not be recorded
	FailedOpen                  // the handler ran untracked, because the store did not answer
)

var kindNames = [...]string{"none", "created", "taken over", "replayed", "conflict", "refused", "unavailable", "failed open"}

// String returns the kind in words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// An Event is one request with a key, after it was answered.
type Event struct {
	Kind      Kind
	Operation string            // the route: its pattern, or method and path where there is none
	Key       string            // the key as it is kept: with Pepper, its HMAC
	Payload   store.Fingerprint // zero for a request that was refused before its body was read
	Status    int               // of the answer; zero if it is not known, which it is not for FailedOpen
	Code      taxonomy.Code     // empty unless the answer is the middleware's own
	From, To  store.State       // of the record, before and after; zero: there was, or is, none
	Elapsed   time.Duration     // from the request's arrival to its answer
}

// A StoreCall is one call to the store.
type StoreCall struct {
	Method  string // as the interface names it: Reserve, Extend, Complete, Release, Find, Begin, Commit, Discard or Rollback
	Elapsed time.Duration
	Err     error
}

// report tells the observer and the logger how the call ended.
func (c *execution) report() {
	if c.observer == nil && c.logger == nil {
		return
	}
	e := &c.event
	e.Operation = routeOf(c.r)
	e.Key = c.claim.ID.Key
	if e.Key == "" && c.pepper == nil {
		e.Key = c.key
	}
	e.Payload = c.claim.Fingerprint
	e.Elapsed = time.Since(c.started)
	if c.observer != nil {
		c.observer.ObserveRequest(c.r.Context(), *e)
	}
	if c.logger != nil {
		c.log()
	}
}

// log writes one line. It holds nothing that the key's owner would not tell an operator: no body, no header but the
// correlation ID, no query string.
func (c *execution) log() {
	e, level := &c.event, slog.LevelInfo
	switch {
	case e.Kind == Unavailable || e.Kind == FailedOpen || e.Code.In(taxonomy.Configuration) || errors.Is(c.err, store.ErrTxEnded):
		level = slog.LevelError
	case e.Kind == TookOver || e.Kind == Conflicted:
		level = slog.LevelWarn
	}
	ctx := c.r.Context()
	if !c.logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("idempotency_key", e.Key),
		slog.String("operation", e.Operation),
		slog.Int("status", e.Status),
		slog.String("from_state", stateName(e.From)),
		slog.String("to_state", stateName(e.To)),
	)
	if !e.Payload.IsZero() {
		attrs = append(attrs, slog.String("payload_hash", e.Payload.String()))
	}
	if e.Code != "" {
		attrs = append(attrs, slog.String("error_code", string(e.Code)))
	}
	if id := correlation(c.r.Header.Get("X-Correlation-Id"), c.r.Header.Get("X-Request-Id")); id != "" {
		attrs = append(attrs, slog.String("correlation_id", id))
	}
	if c.err != nil {
		attrs = append(attrs, slog.String("error", c.err.Error()))
	}
	c.logger.LogAttrs(ctx, level, "idempotent request "+e.Kind.String(), attrs...)
}

func stateName(s store.State) string {
	if s == 0 {
		return "absent"
	}
	return s.String()
}

// correlation returns the first ID that is of a decent length: a client must not be able to fill the log.
func correlation(ids ...string) string {
	const most = 128
	for _, id := range ids {
		if id != "" && len(id) <= most {
			return id
		}
	}
	return ""
}

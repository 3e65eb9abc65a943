package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An Observer receives the events of the middleware, for metrics and traces. Its methods are called in the request's
// goroutine, and in others while a lease is renewed. They must be quick and safe for concurrent use.
type Observer interface {
	// ObserveRequest is called once for each request that has a key, or lacks a required one. It is called after the
	// response, even if the handler has panicked.
	ObserveRequest(ctx context.Context, e Event)
	// ObserveStore is called after each call to the store.
	ObserveStore(ctx context.Context, s StoreCall)
}

// A RequestObserver is an [Observer] that also sees the beginning of a request. Observe accepts one.
type RequestObserver interface {
	Observer
	// StartRequest is called before the handler, for each request that ObserveRequest will see. It returns the context
	// that the handler runs on, and that ObserveRequest receives: put a span in it.
	StartRequest(ctx context.Context, operation string) context.Context
	// ObserveWait is called with 1 when a request begins to wait for a key in flight, and with -1 when the wait ends.
	ObserveWait(ctx context.Context, change int)
}

// A Kind is the way in which a request ended. The zero value is no kind.
type Kind uint8

const (
	Created     Kind = iota + 1 // the handler ran, as the first for the key
	TookOver                    // the handler ran, after an earlier request with the key had died
	Replayed                    // the stored response was sent
	Conflicted                  // refused because of the key's record; Event.Code names the conflict
	Refused                     // refused because of the request itself, or of a mistake that Event.Code names
	Unavailable                 // refused because the store failed, or did not record the outcome
	FailedOpen                  // the handler ran untracked, because the store failed
	TimedOut                    // the handler's time ended before it had written a response
)

var kindNames = [...]string{
	"none", "created", "taken over", "replayed", "conflict", "refused", "unavailable", "failed open", "timed out",
}

// String returns the kind in words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// An Event is one request with a key, after its response.
type Event struct {
	Kind      Kind
	Operation string            // the route: the name given to Route, or its pattern, or "POST *" outside of a mux
	Key       string            // the key as it is stored: with Pepper, its HMAC
	Payload   store.Fingerprint // zero for a request that was refused before its body was read
	Status    int               // of the response; zero if it is not known, as for FailedOpen
	Code      taxonomy.Code     // empty unless the response is the middleware's own
	From, To  store.State       // of the record, before and after; zero if there is none
	Elapsed   time.Duration     // from the request's arrival to its response
}

// A StoreCall is one call to the store.
type StoreCall struct {
	// Method is Reserve, Extend, Complete, Release, Find, Begin, Commit, Discard or Rollback.
	Method  string
	Elapsed time.Duration
	Err     error
}

// observe reports the beginning of the request to a RequestObserver.
func (c *execution) observe() {
	if c.starts != nil {
		c.r = c.r.WithContext(c.starts.StartRequest(c.r.Context(), c.operation(c.r)))
	}
}

// observeWait reports the beginning or the end of a wait.
func (c *execution) observeWait(change int) {
	if c.starts != nil {
		c.starts.ObserveWait(c.r.Context(), change)
	}
}

// report sends the event to the observer and the logger.
func (c *execution) report() {
	if c.observer == nil && c.logger == nil {
		return
	}
	e := &c.event
	e.Operation = c.operation(c.r)
	e.Key = c.claim.ID.Key
	if e.Key == "" && c.pepper() == nil {
		e.Key = c.canonical(c.key)
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

// log writes one line. It has no body, no query string, and no header other than the
// correlation ID.
func (c *execution) log() {
	e, level := &c.event, slog.LevelInfo
	switch {
	case e.Kind == Unavailable || e.Kind == FailedOpen || e.Code.In(taxonomy.Configuration) || c.faulty:
		level = slog.LevelError
	case e.Kind == TookOver || e.Kind == Conflicted || e.Kind == TimedOut:
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

// correlation returns the first ID that is not too long, because a client must not be able to fill the log.
func correlation(ids ...string) string {
	const most = 128
	for _, id := range ids {
		if id != "" && len(id) <= most {
			return id
		}
	}
	return ""
}

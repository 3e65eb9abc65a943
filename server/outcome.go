package server

import (
	"context"
	"net/http"
)

// Key returns the Idempotency-Key of the request that the handler runs for, unquoted, to be passed on to whatever
// the handler calls. It is empty outside of the middleware, and for a request without a key.
func Key(ctx context.Context) string {
	if c := callOf(ctx); c != nil {
		return c.key
	}
	return ""
}

// TakenOver reports whether an earlier request with this key died before its outcome was recorded, so that the
// effect may have been made already.
func TakenOver(ctx context.Context) bool {
	c := callOf(ctx)
	return c != nil && c.takenOver
}

// Store says that the effect has been made: the response is recorded whatever its status, and the key is never
// released. Should the handler panic afterwards, a retry gets 409, code CONFLICT.idempotency.result_not_stored. Like
// Release and Fail it does nothing for a request without a key, and nothing after the handler has returned. What the three
// do to the handler's writes in a transaction is told at Transactional.
func Store(ctx context.Context) { mark(ctx, overrideStore) }

// Release says that the effect has not been made: the key is given back whatever the response's status, and the
// next request with it runs the handler. It does nothing once Store has been called.
func Release(ctx context.Context) { mark(ctx, overrideRelease) }

// Fail says that the operation has failed for good: the response is recorded as a failure, whatever its status, and
// replayed.
func Fail(ctx context.Context) { mark(ctx, overrideFail) }

// Checkpoint keeps meta with the record, durably, before it returns: a note for whoever takes the key over should this
// process die, such as the name of the payment that is about to be made. It replaces an earlier note. An error
// matches store.ErrLost when the key was taken over from this request, and errors.ErrUnsupported on a route with
// Transactional: there a process that dies leaves nothing behind, and the note would vanish too. It returns nil, and
// does nothing, for a request without a key.
func Checkpoint(ctx context.Context, meta []byte) error {
	c := callOf(ctx)
	if c == nil || c.own == nil {
		return nil
	}
	return c.own.checkpoint(ctx, meta)
}

type callKey struct{}

func callOf(ctx context.Context) *execution {
	c, _ := ctx.Value(callKey{}).(*execution)
	return c
}

func mark(ctx context.Context, o override) {
	c := callOf(ctx)
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.override = o
	c.effect = c.effect || o == overrideStore
}

// An override is what the handler says of its outcome. The last word counts.
type override uint8

const (
	overrideNone override = iota
	overrideStore
	overrideRelease
	overrideFail
)

// An ending is what becomes of the record.
type ending uint8

const (
	settleComplete ending = iota
	settleFailed
	settleRelease
)

// endingOf decides. A response that asks for a retry is not kept, for the retry would get it again; once an
// effect was made there is nothing to retry.
func endingOf(status int, o override, effect, storeServerErrors bool) ending {
	switch {
	case o == overrideFail:
		return settleFailed
	case o == overrideRelease && !effect:
		return settleRelease
	case effect:
		// kept, whatever the status
	case status < 200:
		return settleRelease
	case status >= 500 && !storeServerErrors:
		return settleRelease
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return settleRelease
	}
	if status >= 400 {
		return settleFailed
	}
	return settleComplete
}

// undoes decides whether what the handler wrote in a transaction is left out of the commit: a refusal tells the client
// that nothing was applied. Store keeps it, unless Fail was said since.
func undoes(s ending, o override, effect bool) bool {
	return s == settleFailed && (o == overrideFail || !effect)
}

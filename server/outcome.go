package server

import "context"

// Key returns the Idempotency-Key of the request that the handler runs for, unquoted. It is "" outside of the
// middleware, and for a request without a key. Two principals, and two routes, may get the same key. A handler that
// makes a key for another service from it must add the principal and the purpose, such as "charge".
func Key(ctx context.Context) string {
	if c := callOf(ctx); c != nil {
		return c.canonical(c.key)
	}
	return ""
}

// Fence returns the number of this run under the key. A later run under the same key always has a greater number. A
// handler that writes to its own database stores the number with its row, and updates the row only if the stored
// number is not greater:
//
//	UPDATE refunds SET state = 'done', fence = $1 WHERE id = $2 AND fence <= $1
//
// A process that was paused while another one took the key over then changes no row. It is 0 outside of the
// middleware, for a request without a key, and if FailOpen runs the handler untracked.
func Fence(ctx context.Context) uint64 {
	if c := callOf(ctx); c != nil {
		return c.lease.Fence
	}
	return 0
}

// TakenOver reports whether an earlier request with this key ended without a recorded outcome, so that its effect may
// have been made. It stays true for later requests until an outcome is recorded, or a handler calls Release.
func TakenOver(ctx context.Context) bool {
	c := callOf(ctx)
	return c != nil && c.takenOver
}

// Applied reports that the effect has been made. The response is then stored with any status. No failure of the
// handler, the process or the store makes the handler run again. A retry that finds no response gets 409, code
// CONFLICT.idempotency.result_not_stored or CONFLICT.idempotency.outcome_unknown. Only a function given to Recover
// can run the handler again.
//
// Applied writes its mark to the store before it returns, which takes one round trip, and retries for StoreTimeout.
// It ignores the end of ctx. After an error the mark may not be durable. It then holds until this process ends. The
// error matches store.ErrLost if another request has taken the key over. With Transactional nothing is written,
// because the commit makes the effect durable. Applied returns nil and does nothing for a request without a key.
//
// Transactional documents how Applied, Release, Fail and Unknown change the handler's writes in a transaction. All
// four may be called from any goroutine. After the handler has returned, the last three do nothing. Applied then still
// marks a key that is pending without a new owner, and blocks it for LeaseTTL. For any other key it returns
// store.ErrLost.
func Applied(ctx context.Context) error {
	c := mark(ctx, overrideApplied)
	if c == nil || c.own == nil {
		return nil
	}
	return c.own.applied()
}

// Release reports that the effect has not been made. The key is released with any status of the response, and the
// next request with it runs the handler. It does nothing after Applied.
func Release(ctx context.Context) { mark(ctx, overrideRelease) }

// Fail reports that the operation has failed for good. The response is stored as a failure, with any status, and
// replayed.
func Fail(ctx context.Context) { mark(ctx, overrideFail) }

// Unknown reports that the handler does not know whether the effect has been made, for example because a call to a
// payment provider timed out. The response is sent and not stored. The next request with the key takes it over, so
// that TakeOver decides. It does nothing after Applied.
func Unknown(ctx context.Context) { mark(ctx, overrideUnknown) }

// Checkpoint writes meta to the record, durably, before it returns. A function given to Recover gets it if this
// process dies. An example is the number of the payment that the handler is about to make. It replaces an earlier
// meta, and retries for StoreTimeout or until ctx ends.
//
// The error matches store.ErrLost if another request has taken the key over. On a route with Transactional it matches
// errors.ErrUnsupported, because the meta would be rolled back with the transaction. Checkpoint returns nil and does
// nothing for a request without a key.
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

func mark(ctx context.Context, o override) *execution {
	c := callOf(ctx)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.override = o
	c.effect = c.effect || o == overrideApplied
	return c
}

// reported returns the handler's last call of Applied, Release, Fail and Unknown, and whether it has called Applied.
func (c *execution) reported() (override, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.override, c.effect
}

// An override is a call with which the handler overrides the rule by status. The last call counts.
type override uint8

const (
	overrideNone override = iota
	overrideApplied
	overrideRelease
	overrideFail
	overrideUnknown
)

// An ending is the way in which the middleware settles the record.
type ending uint8

const (
	endComplete ending = iota
	endFailed
	endRelease
	endHandBack // pending without an owner
)

// endingOf decides how the record ends. A response that requests a retry is not stored, because the retry would
// get it again. After an effect there is nothing to retry.
func endingOf(status int, o override, effect, keep bool) ending {
	switch {
	case o == overrideFail:
		return endFailed
	case o == overrideRelease && !effect:
		return endRelease
	case o == overrideUnknown && !effect:
		return endHandBack
	case effect:
		// stored, with any status
	case status < 200, !keep:
		return endRelease
	}
	if status >= 400 {
		return endFailed
	}
	return endComplete
}

// undoes reports whether a commit leaves out the handler's writes in its transaction. A refusal states to the
// client that nothing was applied. Applied keeps the writes, unless Fail was called after it.
func undoes(e ending, o override, effect bool) bool {
	return e == endFailed && (o == overrideFail || !effect)
}

package server

import (
	"context"
	"time"

	"github.com/redo-go/redo/store"
)

// An ownership holds a request's key while the handler runs. It is a lease or an open transaction. One of settle,
// release and handBack ends it.
type ownership interface {
	// context returns the parent of the handler's context. The handler begins now.
	context(now time.Time) context.Context

	// settle writes the outcome. If undo is true, a transaction leaves the handler's writes out. The error is
	// errRolledBack if nothing was done, and store.ErrLost if another owner has the key. With any other error the
	// record is unknown for now.
	settle(o store.Outcome, undo bool) error

	// release lets the next request with the key run the handler. The error is store.ErrLost if another owner has the
	// key, and store.ErrTxEnded if the handler has ended its transaction. No other failure is returned: it can't
	// change the response.
	release() error

	// handBack leaves the record pending without an owner, so that the next request takes the key over. A transaction
	// is rolled back. The errors are those of release.
	handBack() error

	// unfinished returns the result for a handler that has made its effect and has no response to show.
	unfinished(status int) []byte

	// applied makes the mark of Applied durable.
	applied() error

	// checkpoint makes the meta of Checkpoint durable.
	checkpoint(ctx context.Context, meta []byte) error
}

// record settles the record. An error means that the record may not be settled.
func (c *execution) record(e ending, undo bool, result []byte) error {
	c.ended = true
	err := c.own.settle(store.Outcome{Failed: e == endFailed, Result: result, Retention: c.keptFor(result)}, undo)
	if err == nil {
		c.event.To = store.StateComplete
		if e == endFailed {
			c.event.To = store.StateFailed
		}
	}
	return err
}

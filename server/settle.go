package server

import (
	"context"
	"time"

	"github.com/redo-go/redo/store"
)

// How often the outcome is written, or looked for, when the store does not tell that it has it, and the pause after the
// first time, which doubles.
const (
	settleTries = 4
	settlePause = 50 * time.Millisecond
)

// An ownership is how a request has its key to itself while the handler runs: by a lease, or by an open transaction. One of
// settle, giveBack and handBack ends it.
type ownership interface {
	// context returns the one that the handler's is made from.
	context() context.Context

	// settle writes the outcome. To undo is to leave out of it what the handler has written, where that can be told. An
	// error is errRolledBack when nothing was done, store.ErrLost when another owner has the key, and leaves the
	// record unknown otherwise.
	settle(o store.Outcome, undo bool) error

	// giveBack lets the next request with the key run the handler. An error is store.ErrTxEnded when it does not, since
	// there is an effect.
	giveBack() error

	// unfinished returns the result that is recorded for a handler that has said that it made its effect, and then did
	// not return.
	unfinished(status int) []byte

	// handBack leaves a record that was taken over pending, for the next request to take over.
	handBack()

	// checkpoint keeps a note with the record.
	checkpoint(ctx context.Context, meta []byte) error
}

// record settles the record. An error means that it is not known to be settled.
func (c *execution) record(s ending, undo bool, result []byte) error {
	err := c.own.settle(store.Outcome{Failed: s == settleFailed, Result: result}, undo)
	if err == nil {
		c.settled = true
		c.event.To = store.StateComplete
		if s == settleFailed {
			c.event.To = store.StateFailed
		}
	}
	return err
}

// sleep waits for d and reports whether it did: it does not when the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

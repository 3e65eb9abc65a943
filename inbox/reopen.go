package inbox

import (
	"context"
	"errors"

	"github.com/redo-go/redo/store"
)

// Reopen lets a dead letter be redriven whose outcome is Unknown, by somebody who has looked and found that nothing of it was
// done, or has undone it: it is a letter like any other after that, and the next delivery or [Inbox.Redrive] is another
// attempt. What was done must not be reopened: [Inbox.Drop] its letter. A letter that is not Unknown is left as it is.
//
// The error matches ErrNoLetter when there is no such letter, and otherwise is an [*Error]: call it again then. Its code is
// taxonomy.InFlight when somebody else has moved the event or its letter on, so that it has to be looked at again.
func (in *Inbox) Reopen(ctx context.Context, source, id string) error {
	ev := Event{Source: source, ID: id}
	rec, err := in.letter(ctx, ev)
	if err != nil {
		return err
	}
	n, err := decodeNote(rec.Meta)
	if err != nil {
		return ev.fail(Unreadable, 0, err)
	}
	if !n.unknown {
		return nil
	}
	// The event first: a crash in between leaves a letter that Redrive refuses, and not one that it takes for an event's that
	// was handled.
	n.unknown = false
	err = in.forgetUnknown(ctx, ev)
	if err == nil {
		err = in.st.Extend(ctx, rec.Lease(), 0, n.encode())
	}
	if err != nil {
		return ev.failStore(n.attempts, err)
	}
	return nil
}

// forgetUnknown removes the event's record if its outcome is unknown.
func (in *Inbox) forgetUnknown(ctx context.Context, ev Event) error {
	rec, err := in.st.Find(ctx, ev.id())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !rec.OutcomeUnknown():
		return nil
	}
	return in.st.Forget(ctx, rec.Lease())
}

// errBarred is why Redrive refuses a letter.
var errBarred = errors.New(unknownFailure + " until somebody has looked and reopens it")

package inbox

import (
	"cmp"
	"context"
	"errors"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An unknownError reports that the handler ended its transaction without the store, so that its effect is unknown.
// The store has settled the event with store.UnknownOutcome.
type unknownError struct{ err error }

func (e *unknownError) Error() string { return e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

var errUnknown = errors.New("the handler's effect is unknown, and the handler does not run again")

// replayUnknown returns the receipt for a delivery of an event whose outcome is unknown.
func (a *attempt) replayUnknown(ctx context.Context, rec store.Record) (Receipt, error) {
	n, _ := decodeNote(rec.Meta) // there is none if the record had expired before the transaction began
	a.note.Attempts, a.note.Received = max(n.Attempts, 1), cmp.Or(n.Received, rec.CreatedAt.UTC())
	a.read = rec.ReadAt
	return a.unknown(ctx, rec.Fingerprint, Replayed, errUnknown)
}

// unknown makes a dead letter of an event whose outcome is unknown, unless there is one or the queue keeps one. The
// process may have died before an earlier delivery wrote the letter.
func (a *attempt) unknown(ctx context.Context, fp store.Fingerprint, s Status, why error) (Receipt, error) {
	if a.queued {
		return Receipt{}, a.ev.fail(taxonomy.OutcomeUnknown, why).after(a.note.Attempts)
	}
	letter := a.note
	letter.State, letter.Changed, letter.Err = dead, a.now(), why.Error()
	r := letter.receipt(a.ev, fp, s)
	r.Unknown = true
	if fp != a.claim.Fingerprint {
		return r, nil // this delivery has another payload
	}
	letter.Kept, letter.payload = true, a.ev.Payload
	ctx, done := a.in.storeContext(ctx)
	defer done()
	g, err := a.in.st.Reserve(ctx, store.Claim{
		ID: a.ev.unknown(), Fingerprint: fp, Retention: a.in.letters, Meta: letter.encode(),
	})
	switch {
	case err != nil:
		return Receipt{}, a.ev.failStore(a.note.Attempts, err)
	case !g.Verdict.Owned(): // the letter of an earlier event with this id
		return Receipt{}, a.ev.fail(taxonomy.PayloadMismatch, nil).after(a.note.Attempts)
	}
	return r, nil
}

package inbox

import (
	"context"
	"errors"
	"log/slog"

	"github.com/redo-go/redo/store"
)

// An unknownError reports that the handler ended its transaction without the store, so that its effect is unknown.
type unknownError struct{ err error }

func (e *unknownError) Error() string { return e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

// endedUnknown reports whether an error of the transaction's end means that the handler's writes may be committed. The
// store has settled the event with store.UnknownOutcome then.
func endedUnknown(err error) bool {
	return errors.Is(err, store.ErrTxEnded) && errors.Is(err, store.ErrUnknown)
}

// unknownFailure is the failure of an event with an unknown outcome, without the cause.
const unknownFailure = "the handler's effect is unknown, and the handler does not run again"

var errUnknown = errors.New(unknownFailure + " unless an operator decides so")

// bury makes a dead letter of the event, whose record is settled already. If the letter can't be written, the next
// delivery writes it.
func (e *unknownError) bury(ctx context.Context, a *attempt) (Receipt, error) {
	a.note.processed, a.note.unknown = a.now(), true
	a.note.err = unknownFailure + ": " + e.Error()
	if err := a.keep(ctx); err != nil {
		return Receipt{}, a.failStore(err)
	}
	return a.note.receipt(a.ev, a.claim.Fingerprint, DeadLettered), nil
}

// replayUnknown returns the receipt for a delivery of an event that was settled with an unknown outcome. If there is
// no letter, because the process died before it wrote one, replayUnknown writes it.
func (a *attempt) replayUnknown(ctx context.Context, rec store.Record) (Receipt, error) {
	a.note = unknownNote(rec)
	kept, err := a.in.keptUnknown(ctx, a.ev, rec)
	if err == nil && !kept {
		err = a.keep(ctx)
	}
	if err != nil {
		return Receipt{}, a.failStore(err)
	}
	return a.note.receipt(a.ev, rec.Fingerprint, Replayed), nil
}

// keptUnknown reports whether the event has a letter with an unknown outcome, or had one that was dropped.
func (in *Inbox) keptUnknown(ctx context.Context, ev Event, rec store.Record) (bool, error) {
	letter, err := in.st.Find(ctx, ev.letter())
	if errors.Is(err, store.ErrNotFound) {
		if letter, err = in.st.Find(ctx, ev.dropped()); errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return letter.Fingerprint == rec.Fingerprint, err
	}
	if err != nil || letter.Fingerprint != rec.Fingerprint {
		return false, err
	}
	n, err := decodeNote(letter.Meta)
	if err != nil {
		return false, ev.fail(Unreadable, 0, err)
	}
	return n.unknown, nil
}

// unknownNote returns the note of an event whose record has an unknown outcome.
func unknownNote(rec store.Record) note {
	n, err := decodeNote(rec.Meta)
	if err != nil { // the record had expired before the transaction began, which writes no meta
		n = note{attempts: 1}
	}
	if n.received.IsZero() {
		n.received = rec.CreatedAt.UTC()
	}
	n.processed, n.err, n.unknown = rec.ReadAt.UTC(), unknownFailure, true
	return n
}

// blame logs that a handler has ended its transaction.
func (a *attempt) blame(ctx context.Context, err error) {
	if a.in.logger == nil {
		return
	}
	a.in.logger.LogAttrs(ctx, slog.LevelError, "inbox: the handler has ended its transaction",
		slog.String("source", a.ev.Source), slog.String("event_id", a.ev.ID), slog.Int("attempt", a.note.attempts),
		slog.String("error", err.Error()))
}

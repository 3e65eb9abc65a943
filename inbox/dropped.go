package inbox

import (
	"context"
	"errors"
	"strconv"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// droppedScope holds the marks of letters that were dropped although their event's record can't tell that it had one. It is
// no longer than deadScope, which MaxSource allows for.
const droppedScope = "inbox-gone/"

func (ev Event) dropped() store.ID { return store.ID{Scope: droppedScope + ev.Source, Key: ev.ID} }

// outcomeOf names one unknown outcome, so that a mark is not taken for that of a later one under the same id.
func outcomeOf(rec store.Record) store.Fingerprint {
	return store.Raw("", "", strconv.FormatUint(rec.Fence, 10), []byte(rec.Fingerprint.String()))
}

// Drop deletes a dead letter, whose event is then never handled. Its record stays, so that further deliveries are
// acknowledged until it expires. The error matches ErrNoLetter when there is no such letter.
func (in *Inbox) Drop(ctx context.Context, source, id string) error {
	ev := Event{Source: source, ID: id}
	letter, err := in.letter(ctx, ev)
	if err != nil {
		return err
	}
	err = in.mark(ctx, ev, letter)
	if err == nil {
		err = in.drop(ctx, letter)
	}
	if err != nil {
		return ev.fail(taxonomy.Unavailable, 0, err)
	}
	return nil
}

// mark notes that the letter of an unknown outcome is about to be dropped, or the next delivery would write it anew. The
// payload is not kept.
func (in *Inbox) mark(ctx context.Context, ev Event, letter store.Record) error {
	rec, err := in.st.Find(ctx, ev.id())
	if errors.Is(err, store.ErrNotFound) || err == nil && (!rec.OutcomeUnknown() || rec.Fingerprint != letter.Fingerprint) {
		return nil // or the letter is an earlier event's
	}
	if err != nil {
		return err
	}
	n, err := decodeNote(letter.Meta)
	if err != nil || !n.unknown {
		n = remembered(rec)
	}
	n.payload = nil
	c := store.Claim{ID: ev.dropped(), Fingerprint: outcomeOf(rec), Retention: in.retention, Meta: n.encode()}
	g, err := in.st.Reserve(ctx, c)
	if err == nil && g.Verdict == store.Mismatch {
		if err := in.st.Release(ctx, g.Record.Lease()); err != nil && !errors.Is(err, store.ErrLost) {
			return err
		}
		_, err = in.st.Reserve(ctx, c)
	}
	return err
}

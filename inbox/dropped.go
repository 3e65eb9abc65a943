package inbox

import (
	"context"
	"errors"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// droppedScope holds a mark for each dropped letter of an unknown outcome. Without it the next delivery would write the
// letter again. The scope is not longer than deadScope, for which MaxSource leaves room.
const droppedScope = "inbox-gone/"

func (ev Event) dropped() store.ID { return store.ID{Scope: droppedScope + ev.Source, Key: ev.ID} }

// Drop deletes a dead letter. Its event is then never handled: the event's record stays, so that further deliveries are
// acknowledged until it expires. The error matches ErrNoLetter if there is no such letter. After any other error call
// Drop again.
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

// mark records that the letter of an unknown outcome is dropped. The mark has no payload, and expires with the event's
// record.
func (in *Inbox) mark(ctx context.Context, ev Event, letter store.Record) error {
	rec, err := in.st.Find(ctx, ev.id())
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !rec.OutcomeUnknown() || rec.Fingerprint != letter.Fingerprint {
		return nil // or the letter belongs to an earlier event with this id
	}
	retention := store.Forever
	if !rec.ExpiresAt.IsZero() {
		retention = rec.ExpiresAt.Sub(rec.ReadAt)
	}
	_, err = in.st.Reserve(ctx, store.Claim{ID: ev.dropped(), Fingerprint: rec.Fingerprint, Retention: retention})
	return err
}

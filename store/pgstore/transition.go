package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
)

// reserveOn is told of an ID's turn that somebody else has by errLostRace, as of a write of somebody else's between
// the statement's look and its own write. Who has it is then asked for.
func (q *statements) reserveOn(ctx context.Context, on session, c store.Claim) (store.Grant, error) {
	l := q.lockOf(c)
	g, err := grantOf(c, on.queryRow(ctx, q.reserve, q.reserveArgs(c, l)...))
	if !errors.Is(err, errLostRace) {
		return g, err
	}
	switch h, err := holderOn(ctx, on, l); {
	case err != nil:
		return store.Grant{}, err
	case h == nobody:
		return store.Grant{}, errLostRace
	case h == same, h == another:
		return unseen(c, h == another), nil
	}
	g, err = grantOf(c, on.queryRow(ctx, q.reserveNext, q.reserveArgs(c, l)...))
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == lockNotAvailable {
		return store.Grant{}, errLostRace
	}
	return g, err
}

// reserveHeldOn reserves in a transaction that stays open, without a lease and a meta.
func (q *statements) reserveHeldOn(ctx context.Context, on session, c store.Claim) (reservation, error) {
	return reservationOf(c, on.queryRow(ctx, q.reserveHeld, q.reserveHeldArgs(c)...))
}

// A reservation is a record in the transaction that has written it.
type reservation struct {
	store.Grant
	place string // of the row
	xact  string // the transaction's number
}

func reservationOf(c store.Claim, found scanner) (reservation, error) {
	var h reservation
	r := row{id: c.ID}
	if err := scan(found, r.into(&h.place, &h.xact)); err != nil {
		return reservation{}, err
	}
	var err error
	h.Grant, err = r.owned()
	return h, err
}

// completeOn settles the record where it was written.
func (h reservation) completeOn(ctx context.Context, on session, q *statements, o store.Outcome) error {
	return completeOn(ctx, on, q.completeHeld, h.Lease, o, h.place, h.xact)
}

func (q *statements) reserveArgs(c store.Claim, l lock) []any {
	return []any{[]byte(c.ID.Scope), []byte(c.ID.Key), c.Fingerprint[:], l.turn, c.Meta, micros(c.Lease), micros(c.Retention)}
}

func (q *statements) reserveHeldArgs(c store.Claim) []any {
	c.Lease, c.Meta = 0, nil
	l := q.lockOf(c)
	return append(q.reserveArgs(c, l), l.class, l.mark)
}

// grantOf reads what a reserving statement returned.
func grantOf(c store.Claim, found scanner) (store.Grant, error) {
	var mine bool
	r := row{id: c.ID}
	if err := scan(found, r.into(&mine)); err != nil {
		return store.Grant{}, err
	}
	if mine {
		return r.owned()
	}
	rec, err := r.record()
	if err != nil {
		return store.Grant{}, err
	}
	return store.Grant{Verdict: verdictOn(c, rec), Record: rec}, nil
}

func scan(found scanner, into []any) error {
	err := found.Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return errLostRace
	}
	return err
}

// owned is the grant of a row that was just written.
func (r *row) owned() (store.Grant, error) {
	rec, err := r.record()
	if err != nil {
		return store.Grant{}, err
	}
	g := store.Grant{Verdict: store.TakenOver, Lease: rec.Lease(), Record: rec}
	if r.born == r.fence {
		g.Verdict = store.Acquired
	}
	return g, nil
}

// verdictOn is the verdict on a claim by a record that stands in its way.
func verdictOn(c store.Claim, r store.Record) store.Verdict {
	switch {
	case r.Fingerprint != c.Fingerprint:
		return store.Mismatch
	case r.State == store.StateComplete:
		return store.Complete
	case r.State == store.StateFailed:
		return store.Failed
	}
	return store.InFlight
}

// standsInTheWay is the condition of "standing" in reserveSQL, of a record that has not expired.
func standsInTheWay(c store.Claim, r store.Record) bool {
	return r.Fingerprint != c.Fingerprint || r.State != store.StatePending || r.LeaseLeft() > 0
}

func (q *statements) extendOn(ctx context.Context, on session, l store.Lease, d time.Duration, meta []byte) error {
	return changeOn(ctx, on, q.extend, l, micros(d), meta)
}

func completeOn(ctx context.Context, on session, text string, l store.Lease, o store.Outcome, more ...any) error {
	state := store.StateComplete
	if o.Failed {
		state = store.StateFailed
	}
	return changeOn(ctx, on, text, l, append([]any{int16(state), o.Result, micros(o.Retention)}, more...)...)
}

// changeOn runs a statement that compares and sets on the lease's fence.
func changeOn(ctx context.Context, on session, text string, l store.Lease, more ...any) error {
	if l.Fence > math.MaxInt64 {
		return store.ErrLost // no record has such a fence
	}
	args := append([]any{[]byte(l.ID.Scope), []byte(l.ID.Key), int64(l.Fence)}, more...)
	changed, err := on.exec(ctx, text, args...)
	switch {
	case err != nil:
		return err
	case changed == 0:
		return store.ErrLost
	}
	return nil
}

func (q *statements) findOn(ctx context.Context, on session, id store.ID) (store.Record, error) {
	r := row{id: id}
	err := on.queryRow(ctx, q.find, []byte(id.Scope), []byte(id.Key)).Scan(r.into()...)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Record{}, store.ErrNotFound
	}
	if err != nil {
		return store.Record{}, err
	}
	if expired(r.expiresAt, r.readAt) {
		return store.Record{}, store.ErrNotFound
	}
	return r.record()
}

// micros is a duration in microseconds, rounded up, so that no lease or retention becomes none; -1 is Forever.
func micros(d time.Duration) int64 {
	if d == store.Forever {
		return -1
	}
	n := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		n++
	}
	return n
}

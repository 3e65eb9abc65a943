package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store"
)

// reserveOn returns errLostRace when somebody else wrote between the statement's look and its write.
func (q *statements) reserveOn(ctx context.Context, on session, c store.Claim) (store.Grant, error) {
	var mine bool
	r := row{id: c.ID}
	err := on.QueryRow(ctx, q.reserve, []byte(c.ID.Scope), []byte(c.ID.Key), c.Fingerprint[:], turnOf(c.ID), c.Meta,
		micros(c.Lease), micros(c.Retention)).Scan(r.into(&mine)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Grant{}, errLostRace
	}
	if err != nil {
		return store.Grant{}, err
	}
	g := store.Grant{}
	if g.Record, err = r.record(); err != nil {
		return store.Grant{}, err
	}
	switch {
	case mine && r.born == r.fence:
		g.Verdict = store.Acquired
	case mine:
		g.Verdict = store.TakenOver
	case g.Record.Fingerprint != c.Fingerprint:
		g.Verdict = store.Mismatch
	case g.Record.State == store.StateComplete:
		g.Verdict = store.Complete
	case g.Record.State == store.StateFailed:
		g.Verdict = store.Failed
	default:
		g.Verdict = store.InFlight
	}
	if mine {
		g.Lease = g.Record.Lease()
	}
	return g, nil
}

func (q *statements) extendOn(ctx context.Context, on session, l store.Lease, d time.Duration, meta []byte) error {
	return changeOn(ctx, on, q.extend, l, micros(d), meta)
}

func completeOn(ctx context.Context, on session, text string, l store.Lease, o store.Outcome) error {
	state := store.StateComplete
	if o.Failed {
		state = store.StateFailed
	}
	return changeOn(ctx, on, text, l, int16(state), o.Result, micros(o.Retention))
}

// changeOn runs a statement that compares and sets on the lease's fence.
func changeOn(ctx context.Context, on session, text string, l store.Lease, more ...any) error {
	if l.Fence > math.MaxInt64 {
		return store.ErrLost // no record has such a fence
	}
	args := append([]any{[]byte(l.ID.Scope), []byte(l.ID.Key), int64(l.Fence)}, more...)
	tag, err := on.Exec(ctx, text, args...)
	switch {
	case err != nil:
		return err
	case tag.RowsAffected() == 0:
		return store.ErrLost
	}
	return nil
}

func (q *statements) findOn(ctx context.Context, on session, id store.ID) (store.Record, error) {
	r := row{id: id}
	err := on.QueryRow(ctx, q.find, []byte(id.Scope), []byte(id.Key)).Scan(r.into()...)
	if errors.Is(err, pgx.ErrNoRows) {
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

// turnOf is the number of the advisory lock under which an ID is reserved. IDs that share one wait for each
// other and are otherwise none the worse.
func turnOf(id store.ID) int64 {
	var buf [256]byte
	in := append(buf[:0], "redo/pgstore/"...)
	in = binary.AppendUvarint(in, uint64(len(id.Scope)))
	in = append(append(in, id.Scope...), id.Key...)
	sum := sha256.Sum256(in)
	return int64(binary.BigEndian.Uint64(sum[:]))
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

package pgstore

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/redo-go/redo/store"
)

// format is the newest format of a record that this release reads, and the one that it writes.
const format = 1

// columns are those that a row is scanned from.
const columns = "format, fingerprint, state, result, meta, owner, fence, born, lease_until, created_at, expires_at"

// A row is a record as the statements return it. Its format is 0 if there was none.
type row struct {
	id                                       store.ID
	format, state                            zeronull.Int2
	fingerprint, result, meta, owner         []byte
	fence, born                              zeronull.Int8
	leaseUntil, createdAt, expiresAt, readAt pgtype.Timestamptz
}

// into returns the targets of a row's scan, after those in before. The row's instant of reading comes last.
func (r *row) into(before ...any) []any {
	return append(before, &r.format, &r.fingerprint, &r.state, &r.result, &r.meta, &r.owner, &r.fence, &r.born,
		&r.leaseUntil, &r.createdAt, &r.expiresAt, &r.readAt)
}

// soundSQL reports whether the row with the alias can be read. Its rules are those of row.record.
func soundSQL(alias string) string {
	return strings.ReplaceAll(fmt.Sprintf(`coalesce(.format <= %d AND octet_length(.fingerprint) = 33
		AND .state BETWEEN 1 AND 3 AND .fence > 0
		AND isfinite(.created_at) AND isfinite(coalesce(.lease_until, .created_at))
		AND isfinite(coalesce(.expires_at, .created_at)), false)`, format), ".", alias+".")
}

// record returns an error that wraps ErrVersion if a later release wrote the row, and one that wraps store.ErrDamaged
// if the row breaks a rule of the table. Only another program can break a rule.
func (r *row) record() (store.Record, error) {
	rec := store.Record{
		ID:         r.id,
		State:      store.State(r.state),
		Result:     r.result,
		Meta:       r.meta,
		Owner:      string(r.owner),
		Fence:      uint64(r.fence),
		LeaseUntil: r.leaseUntil.Time,
		CreatedAt:  r.createdAt.Time,
		ExpiresAt:  r.expiresAt.Time,
		ReadAt:     r.readAt.Time,
	}
	switch {
	case r.format > format:
		return store.Record{}, fmt.Errorf("pgstore: %w: the record of %v has format %d, "+
			"this release reads formats up to %d: %w", ErrVersion, r.id, r.format, format, store.ErrUnavailable)
	case len(r.fingerprint) != len(rec.Fingerprint):
		return r.damaged("its fingerprint has %d bytes, not %d", len(r.fingerprint), len(rec.Fingerprint))
	case r.state < zeronull.Int2(store.StatePending) || r.state > zeronull.Int2(store.StateFailed):
		return r.damaged("its state is %d", r.state)
	case r.fence <= 0:
		return r.damaged("its fence is %d", r.fence)
	}
	for _, at := range []pgtype.Timestamptz{r.createdAt, r.leaseUntil, r.expiresAt} {
		if at.InfinityModifier != pgtype.Finite {
			return r.damaged("an instant is %v", at.InfinityModifier)
		}
	}
	copy(rec.Fingerprint[:], r.fingerprint)
	return rec, nil
}

func (r *row) damaged(why string, args ...any) (store.Record, error) {
	return store.Record{}, fmt.Errorf("pgstore: the record of %v: %w: %s: %w",
		r.id, store.ErrDamaged, fmt.Sprintf(why, args...), store.ErrUnavailable)
}

// expired reports whether the row had expired when it was read. NULL is never. An infinite expiry is damage.
func (r *row) expired() bool {
	at := r.expiresAt
	return at.Valid && at.InfinityModifier != pgtype.Infinity && !at.Time.After(r.readAt.Time)
}

// refuses reports whether the row refuses the claim, with the grant. No row refuses none.
func (r *row) refuses(c store.Claim) (g store.Grant, refused bool, err error) {
	if r.format == 0 || r.expired() {
		return store.Grant{}, false, nil
	}
	g, err = r.judge(c)
	return g, err == nil && !g.Verdict.Owned(), err
}

// judge returns the verdict on the claim.
func (r *row) judge(c store.Claim) (store.Grant, error) {
	rec, err := r.record()
	if err != nil {
		return store.Grant{}, err
	}
	return store.Grant{Verdict: store.Judge(rec, c, rec.ReadAt), Record: rec}, nil
}

// grant returns the grant of a row that a claim has written.
func (r *row) grant() (store.Grant, error) {
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

// held returns the grant of a claim whose ID an open transaction holds. No other session can see its record.
func held(c store.Claim) store.Grant {
	return store.Grant{Verdict: store.InFlight, Record: store.Record{ID: c.ID, State: store.StatePending}}
}

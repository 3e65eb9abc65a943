package pgstore

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/redo-go/redo/store"
)

// A row is a record as the statements return it.
type row struct {
	id                               store.ID
	fingerprint                      []byte
	state                            int16
	result, meta                     []byte
	fence, born                      int64
	leaseUntil, createdAt, expiresAt pgtype.Timestamptz
	readAt                           pgtype.Timestamptz
}

// into returns where to scan a row to, after what stands before it.
func (r *row) into(before ...any) []any {
	return append(before, &r.fingerprint, &r.state, &r.result, &r.meta, &r.fence, &r.born,
		&r.leaseUntil, &r.createdAt, &r.expiresAt, &r.readAt)
}

// record returns an error that wraps store.ErrDamaged if the row breaks a rule of the table. Only another program's
// write can do that. The rules are those of soundSQL.
func (r *row) record() (store.Record, error) {
	rec := store.Record{
		ID:         r.id,
		State:      store.State(r.state),
		Result:     r.result,
		Meta:       r.meta,
		Fence:      uint64(r.fence),
		LeaseUntil: r.leaseUntil.Time,
		CreatedAt:  r.createdAt.Time,
		ExpiresAt:  r.expiresAt.Time,
		ReadAt:     r.readAt.Time,
	}
	switch {
	case len(r.fingerprint) != len(rec.Fingerprint):
		return r.damaged("its fingerprint has %d bytes, not %d", len(r.fingerprint), len(rec.Fingerprint))
	case r.state < int16(store.StatePending) || r.state > int16(store.StateFailed):
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

func (r *row) damaged(format string, args ...any) (store.Record, error) {
	return store.Record{}, fmt.Errorf("pgstore: the record of %v: %w: %w: %s: %w",
		r.id, store.ErrDamaged, ErrForeign, fmt.Sprintf(format, args...), store.ErrUnavailable)
}

// expired judges an expiry, NULL being never, by when it was read. An infinite one is damage, and not past.
func expired(expiresAt, readAt pgtype.Timestamptz) bool {
	return expiresAt.Valid && expiresAt.InfinityModifier != pgtype.Infinity && !expiresAt.Time.After(readAt.Time)
}

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

// record is an error only where somebody else has written to the table.
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
	if len(r.fingerprint) != len(rec.Fingerprint) {
		return store.Record{}, fmt.Errorf("%w: the record of %v has a fingerprint of %d bytes, not %d: %w",
			ErrForeign, r.id, len(r.fingerprint), len(rec.Fingerprint), store.ErrUnavailable)
	}
	copy(rec.Fingerprint[:], r.fingerprint)
	return rec, nil
}

// expired judges an expiry, NULL being never, by when it was read.
func expired(expiresAt, readAt pgtype.Timestamptz) bool {
	return expiresAt.Valid && !expiresAt.Time.After(readAt.Time)
}

package sqltx

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// A Row is a record as the stores over database/sql keep it. Instants are microseconds since the Unix epoch, so that
// no driver, session or server converts them between time zones. A State that is NULL is an absent record.
type Row struct {
	Fingerprint, Owner []byte
	Result, Meta       Bytes
	State, Fence       sql.NullInt64
	LeaseUntil         sql.NullInt64 // NULL: no lease
	CreatedAt          sql.NullInt64
	ExpiresAt          sql.NullInt64 // NULL: never
}

// Dest returns where to scan the columns fingerprint, state, result, meta, owner, fence, lease_until, created_at and
// expires_at, in this order.
func (r *Row) Dest() []any {
	return []any{
		&r.Fingerprint, &r.State, &r.Result, &r.Meta, &r.Owner, &r.Fence, &r.LeaseUntil, &r.CreatedAt, &r.ExpiresAt,
	}
}

// Bytes is a column of bytes that may be NULL, which is nil. It is a sql.Scanner because a driver may return a nil
// slice for an empty value.
type Bytes []byte

// Scan implements [sql.Scanner]. It copies the value.
func (b *Bytes) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*b = nil
	case []byte:
		*b = append(Bytes{}, v...)
	default:
		return fmt.Errorf("sqltx: a column of bytes holds a %T", value)
	}
	return nil
}

// Record returns the record of id as it was read at now. It returns the zero Record if the row is absent. Its error
// wraps store.ErrDamaged and store.ErrUnavailable if the row breaks a rule of the table, as another program's write
// can.
func (r *Row) Record(id store.ID, now time.Time) (store.Record, error) {
	rec := store.Record{
		ID: id, State: store.State(r.State.Int64), Result: r.Result, Meta: r.Meta, Owner: string(r.Owner),
		Fence: uint64(r.Fence.Int64), LeaseUntil: instant(r.LeaseUntil), CreatedAt: instant(r.CreatedAt),
		ExpiresAt: instant(r.ExpiresAt), ReadAt: now,
	}
	damaged := func(format string, args ...any) (store.Record, error) {
		return store.Record{}, fmt.Errorf("the record of %v: %w: %s: %w", id, store.ErrDamaged,
			fmt.Sprintf(format, args...), store.ErrUnavailable)
	}
	switch {
	case !r.State.Valid:
		return store.Record{}, nil
	case len(r.Fingerprint) != len(rec.Fingerprint):
		return damaged("its fingerprint has %d bytes, not %d", len(r.Fingerprint), len(rec.Fingerprint))
	case r.State.Int64 < int64(store.StatePending) || r.State.Int64 > int64(store.StateFailed):
		return damaged("its state is %d", r.State.Int64)
	case r.Fence.Int64 <= 0:
		return damaged("its fence is %d", r.Fence.Int64)
	case !r.CreatedAt.Valid:
		return damaged("it has no time of creation")
	}
	copy(rec.Fingerprint[:], r.Fingerprint)
	return rec, nil
}

// Claimed returns the record that a claim makes of rec with an owned verdict at now. rec is the ID's record. It is not
// used if the verdict is Acquired.
func Claimed(rec store.Record, v store.Verdict, c store.Claim, fence uint64, now time.Time) store.Record {
	c.Lease, c.Retention, c.Meta = ceil(c.Lease), ceil(c.Retention), bytes.Clone(c.Meta)
	rec = rec.Claimed(c, v, fence, now)
	rec.ReadAt = now
	return rec
}

// A Snapshot is the state of an ID that one statement has read.
type Snapshot struct {
	Record store.Record // zero: there is none
	At     time.Time    // by the store's clock
	Held   bool         // an open transaction holds the ID
}

// Find returns the record, or store.ErrNotFound if there is none or it has expired.
func (now Snapshot) Find() (store.Record, error) {
	if now.Record.State == 0 || now.Record.Expired(now.At) {
		return store.Record{}, store.ErrNotFound
	}
	return now.Record, nil
}

// Judge returns the verdict on a claim. If that is not Owned, the grant is complete.
func (now Snapshot) Judge(c store.Claim) store.Grant {
	v := store.Judge(now.Record, c, now.At)
	switch {
	case !v.Owned():
		return store.Grant{Verdict: v, Record: now.Record}
	case now.Held:
		known := store.Record{ID: c.ID, State: store.StatePending, ReadAt: now.At}
		return store.Grant{Verdict: store.InFlight, Record: known}
	}
	return store.Grant{Verdict: v}
}

// RefuseDrop returns the error of a Drop, or nil if the record is damaged. err is the error with which it was read.
func (now Snapshot) RefuseDrop(id store.ID, err error) error {
	switch {
	case errors.Is(err, store.ErrDamaged):
		return nil
	case errors.Is(err, sql.ErrNoRows) || err == nil && now.Record.State == 0:
		return store.ErrNotFound
	case err != nil:
		return err
	}
	return fmt.Errorf("sqltx: %w: the record of %v is not damaged", store.ErrInvalid, id)
}

// Micros returns d in microseconds, rounded up, so that no lease and no retention becomes zero. It returns -1 for
// store.Forever.
func Micros(d time.Duration) int64 {
	if d == store.Forever {
		return -1
	}
	n := d.Microseconds()
	if d%time.Microsecond > 0 {
		n++
	}
	return n
}

// Instant returns t for a column that keeps instants: NULL if t is zero.
func Instant(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}

func instant(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64).UTC()
}

// ceil rounds a duration up to the microsecond. It leaves alone a duration that is too long for that.
func ceil(d time.Duration) time.Duration {
	if up := (d + time.Microsecond - 1).Truncate(time.Microsecond); up >= d {
		return up
	}
	return d
}

// A Queryer is a pool, a connection or a transaction.
type Queryer interface {
	// ExecContext is [sql.DB.ExecContext].
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// QueryRowContext is [sql.DB.QueryRowContext].
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Move runs a statement that changes the record of a lease. Its parameters are args, then the lease's scope, key and
// fence. It returns store.ErrLost if no row was changed.
func Move(ctx context.Context, on Queryer, text string, l store.Lease, args ...any) error {
	// A fence above the range of an int64 becomes negative, and no record has such a fence.
	result, err := on.ExecContext(ctx, text, append(args, []byte(l.ID.Scope), []byte(l.ID.Key), int64(l.Fence))...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); n == 0 {
		return errors.Join(err, store.ErrLost)
	}
	return nil
}

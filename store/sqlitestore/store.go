package sqlitestore

import (
	"context"
	"database/sql"
	"iter"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// live restricts a statement to the record of a lease. Its parameters are the time, scope, key and fence.
const live = ` AND (expires_at IS NULL OR expires_at > ?) AND scope = ? AND id_key = ? AND fence = ?`

const (
	completeSQL = `UPDATE redo_records SET state = ?, result = ?, owner = x'', lease_until = NULL,
		expires_at = CASE ? WHEN 0 THEN expires_at WHEN -1 THEN NULL ELSE ? END WHERE state = 1` + live
	extendSQL = `UPDATE redo_records SET lease_until = ?, meta = coalesce(?, meta),
		expires_at = max(expires_at, coalesce(?, expires_at)) WHERE state = 1` + live
	releaseSQL = `DELETE FROM redo_records WHERE state = 1` + live
	forgetSQL  = `DELETE FROM redo_records WHERE state <> 1` + live
)

// move changes the record of a lease in a separate transaction. args are the statement's parameters before live's.
func (s *Store) move(ctx context.Context, text string, l store.Lease, args func(now time.Time) []any) error {
	return s.change(ctx, func(tx *sql.Tx) error { return sqltx.Move(ctx, tx, text, l, args(s.clock())...) })
}

func onlyNow(now time.Time) []any { return []any{now.UnixMicro()} }

// Extend implements [store.Store]. A negative d and store.Forever are refused with store.ErrInvalid.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := l.ValidateExtend(d, meta); err != nil {
		return err
	}
	return s.move(ctx, extendSQL, l, func(now time.Time) []any {
		until := sql.NullInt64{Int64: now.UnixMicro() + sqltx.Micros(d), Valid: d > 0}
		return []any{until, meta, until, now.UnixMicro()}
	})
}

// Complete implements [store.Store]. A lazy outcome is written like any other.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return s.move(ctx, completeSQL, l, settled(o))
}

// settled returns the parameters of completeSQL.
func settled(o store.Outcome) func(now time.Time) []any {
	return func(now time.Time) []any {
		retention := sqltx.Micros(o.Retention)
		return []any{sqltx.State(o), o.Result, retention, now.UnixMicro() + retention, now.UnixMicro()}
	}
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	return s.move(ctx, releaseSQL, l, onlyNow)
}

// Forget implements [store.Forgetter].
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	return s.move(ctx, forgetSQL, l, onlyNow)
}

// Find implements [store.Store]. An ID outside its limits is refused with store.ErrInvalid.
func (s *Store) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	if err := id.Validate(); err != nil {
		return store.Record{}, err
	}
	err = s.repeat(ctx, func() error {
		now, err := s.read(ctx, s.reads, id)
		if err == nil {
			rec, err = now.Find()
		}
		return err
	})
	return rec, err
}

// Drop implements [store.Dropper].
func (s *Store) Drop(ctx context.Context, id store.ID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		now, err := s.read(ctx, tx, id)
		if err = now.RefuseDrop(id, err); err == nil {
			const text = "DELETE FROM redo_records WHERE scope = ? AND id_key = ?"
			_, err = tx.ExecContext(ctx, text, []byte(id.Scope), []byte(id.Key))
		}
		return err
	})
}

// Purge implements [store.Store], in transactions of at most 1,000 records.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	return sqltx.Purge(limit, func(batch int) (int, error) {
		var n int64
		err := s.change(ctx, func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, freeSQL, s.clock().UnixMicro(), batch)
			if err == nil {
				n, err = result.RowsAffected()
			}
			return err
		})
		return int(n), err
	})
}

const pendingSQL = `SELECT ?4, (SELECT max(created_at) FROM redo_records WHERE state = 1), rowid, scope, id_key, ` +
	columns + ` FROM redo_records
WHERE state = 1 AND (created_at, rowid) > (?1, ?2) AND created_at <= ?3 AND (expires_at IS NULL OR expires_at > ?4)
	AND (?5 = x'' OR scope = ?5)
ORDER BY created_at, rowid LIMIT ?6`

// Pending implements [store.Lister]. It reads 64 records at a time. It does not list records that are made while it
// runs, unless the clock was set back.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return sqltx.List(ctx, func(after sqltx.Position, until int64) (page []sqltx.Listed, err error) {
		err = s.repeat(ctx, func() error {
			page, err = sqltx.ReadPage(s.reads.QueryContext(ctx, pendingSQL, after.CreatedAt, after.Row, until,
				s.clock().UnixMicro(), []byte(scope), sqltx.PageSize))
			return err
		})
		return page, err
	})
}

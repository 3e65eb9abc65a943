package pgstore

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/redo-go/redo/store"
)

// Pending implements [store.Lister]. It reads 64 records at a time by their creation and holds no connection
// over the loop's body. Records that are made while the list runs are not listed.
func (s *records) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		after := position{createdAt: pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}}
		until := pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
		for {
			page, err := s.page(ctx, scope, after, until)
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			if until.InfinityModifier == pgtype.Infinity {
				until = page[0].readAt
			}
			for _, r := range page {
				after = position{r.createdAt, r.born}
				if expired(r.expiresAt, r.readAt) {
					continue
				}
				if err := ctx.Err(); err != nil {
					yield(store.Record{}, err)
					return
				}
				rec, err := r.record()
				if err != nil {
					rec = store.Record{ID: r.id}
				}
				if !yield(rec, err) {
					return
				}
			}
		}
	}
}

// A position in the order of the list. born tells apart what was made in the same microsecond.
type position struct {
	createdAt pgtype.Timestamptz
	born      int64
}

// page reads the next records after a position, whole, before it returns.
func (s *records) page(ctx context.Context, scope string, after position, until pgtype.Timestamptz) ([]row, error) {
	text, args := s.sql.pending, []any{after.createdAt, after.born, until}
	if scope != "" {
		text, args = s.sql.pendingIn, append(args, []byte(scope))
	}
	var page []row
	err := s.run(ctx, false, func(on session) error {
		page = page[:0]
		rows, err := on.query(ctx, text, args...)
		if err != nil {
			return err
		}
		defer rows.close()
		for rows.Next() {
			var r row
			var scope, key []byte
			if err := rows.Scan(r.into(&scope, &key)...); err != nil {
				return err
			}
			r.id = store.ID{Scope: string(scope), Key: string(key)}
			page = append(page, r)
		}
		return rows.Err()
	})
	return page, err
}

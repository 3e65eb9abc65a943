package pgstore

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/redo-go/redo/store"
)

// listed is the number of records that Pending reads at a time.
const listed = 64

// Pending implements [store.Lister]. For every scope it reads the whole table, and for one scope the records of that.
// It holds no connection while the loop's body runs. Records that are made while the list runs are not listed.
func (s *records) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		at := position{
			createdAt: pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true},
			until:     pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true},
		}
		for {
			page, err := s.page(ctx, scope, &at)
			for some := range slices.Chunk(page, listed) {
				if err == nil && !s.yieldPending(ctx, some, yield) {
					return
				}
			}
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

// A position is a place in the order of the list. born distinguishes records of the same microsecond.
type position struct {
	createdAt pgtype.Timestamptz
	born      int64
	until     pgtype.Timestamptz // when the list began
}

// page returns the IDs and the creation of the records after a position, and moves it.
func (s *records) page(ctx context.Context, scope string, at *position) (page []store.Record, err error) {
	text, args := s.sql.pending, []any{at.createdAt, at.born, at.until}
	if scope != "" {
		text, args = s.sql.within, append(args, []byte(scope))
	}
	var readAt pgtype.Timestamptz
	err = s.run(ctx, false, func(on *pgx.Conn) error {
		page = page[:0]
		rows, _ := on.Query(ctx, text, args...) // ForEachRow returns the error
		var scope, key []byte
		_, err := pgx.ForEachRow(rows, []any{&at.createdAt, &at.born, &scope, &key, &readAt}, func() error {
			id := store.ID{Scope: string(scope), Key: string(key)}
			page = append(page, store.Record{ID: id, CreatedAt: at.createdAt.Time})
			return nil
		})
		return err
	})
	if err == nil && at.until.InfinityModifier == pgtype.Infinity {
		at.until = readAt
	}
	return page, err
}

// yieldPending yields those of the records that are still pending. Another may have been made for the same ID. It
// returns false if the loop has ended.
func (s *records) yieldPending(ctx context.Context, page []store.Record, yield func(store.Record, error) bool) bool {
	records, failures := make([]store.Record, len(page)), make([]error, len(page))
	err := s.run(ctx, false, func(on *pgx.Conn) error {
		var b pgx.Batch
		for i, r := range page {
			b.Queue(s.sql.find, []byte(r.ID.Scope), []byte(r.ID.Key)).QueryRow(func(found pgx.Row) error {
				records[i], failures[i] = scanFound(r.ID, found)
				if errors.Is(failures[i], store.ErrNotFound) || errors.Is(failures[i], store.ErrUnavailable) {
					return nil
				}
				return failures[i]
			})
		}
		return on.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		yield(store.Record{}, err)
		return false
	}
	for i, rec := range records {
		switch {
		case ctx.Err() != nil:
			yield(store.Record{}, ctx.Err())
			return false
		case errors.Is(failures[i], store.ErrNotFound),
			failures[i] == nil && (rec.State != store.StatePending || !rec.CreatedAt.Equal(page[i].CreatedAt)):
			continue
		case failures[i] != nil:
			rec = store.Record{ID: page[i].ID}
		}
		if !yield(rec, failures[i]) {
			return false
		}
	}
	return true
}

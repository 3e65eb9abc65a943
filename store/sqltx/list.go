package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/redo-go/redo/store"
)

// PageSize is the number of records that [List] reads at a time.
const PageSize = 64

// A Position is a place in the order of a list: by creation, then by the row's number.
type Position struct{ CreatedAt, Row int64 }

// A Listed is a record of a list. Record has only its ID if Err is not nil.
type Listed struct {
	Position
	ReadAt int64 // by the store's clock, in microseconds
	Newest int64 // when the newest pending record of any scope was made, by that clock
	Record store.Record
	Err    error
}

// List yields records as [store.Lister] does. page returns the PageSize records after a position that were created at
// until or before, or fewer if they are the last. So the list has no records that are made while it runs, unless the
// clock was set back. No connection is used while the loop's body runs.
func List(
	ctx context.Context, page func(after Position, until int64) ([]Listed, error),
) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		after, until, size := Position{CreatedAt: -1 << 62}, int64(math.MaxInt64), PageSize
		for size == PageSize {
			list, err := page(after, until)
			if size = len(list); size == 0 && err == nil {
				err = ctx.Err()
			}
			if until == math.MaxInt64 && size > 0 {
				until = max(list[0].ReadAt, list[0].Newest) // the clock may have been set back
			}
			for i := 0; i < size && err == nil; i++ {
				if err = ctx.Err(); err == nil && !yield(list[i].Record, list[i].Err) {
					return
				}
				after = list[i].Position
			}
			if err != nil {
				yield(store.Record{}, err)
				return
			}
		}
	}
}

// ReadPage reads all rows and closes them. Their columns are those of [Listed]: ReadAt, Newest and Row. Scope, key and
// those of [Row.Dest] follow. It takes the results of QueryContext.
func ReadPage(rows *sql.Rows, err error) ([]Listed, error) {
	if err != nil {
		return nil, err
	}
	var list []Listed
	for rows.Next() {
		var l Listed
		var r Row
		var scope, key []byte
		if err := rows.Scan(append([]any{&l.ReadAt, &l.Newest, &l.Row, &scope, &key}, r.Dest()...)...); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		id := store.ID{Scope: string(scope), Key: string(key)}
		l.CreatedAt = r.CreatedAt.Int64
		if l.Record, l.Err = r.Record(id, time.UnixMicro(l.ReadAt).UTC()); l.Err != nil {
			l.Record = store.Record{ID: id}
		}
		list = append(list, l)
	}
	return list, errors.Join(rows.Err(), rows.Close())
}

// purgeBatch bounds one transaction of Purge. Others write in between.
const purgeBatch = 1000

// Purge deletes at most limit records as [store.Store] does. batch deletes at most n in one transaction, and returns
// how many it has deleted. A batch that returns an error counts nothing.
func Purge(limit int, batch func(n int) (int, error)) (purged int, err error) {
	if err := store.ValidatePurge(limit); err != nil {
		return 0, err
	}
	for purged < limit {
		size := min(purgeBatch, limit-purged)
		n, err := batch(size)
		if err != nil {
			return purged, err
		}
		if purged += n; n < size {
			break
		}
	}
	return purged, nil
}

package sqltx_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

var errPage = errors.New("connection reset")

// A table has so many rows. Its pages can fail.
type table struct {
	rows   int
	fails  int // the row from which on a page fails; zero: none
	after  []sqltx.Position
	until  []int64
	broken int // the row whose record can't be read; zero: none
}

func (tb *table) page(after sqltx.Position, until int64) (list []sqltx.Listed, err error) {
	tb.after, tb.until = append(tb.after, after), append(tb.until, until)
	for row := int(after.Row) + 1; row <= tb.rows && len(list) < sqltx.PageSize; row++ {
		if row == tb.fails {
			return list, errPage
		}
		l := sqltx.Listed{Position: sqltx.Position{CreatedAt: 7, Row: int64(row)}, ReadAt: 100 + int64(len(tb.after))}
		if l.Record.ID.Key = fmt.Sprint(row); row == tb.broken {
			l.Err = store.ErrDamaged
		}
		list = append(list, l)
	}
	return list, nil
}

func TestListReadsPageAfterPage(t *testing.T) {
	const size = sqltx.PageSize
	for _, c := range []struct{ rows, pages int }{
		{0, 1}, {1, 1}, {size - 1, 1}, {size, 2}, {size + 1, 2}, {2 * size, 3},
	} {
		tb := &table{rows: c.rows, broken: 1}
		n := 0
		for r, err := range sqltx.List(t.Context(), tb.page) {
			n++
			require.Equal(t, fmt.Sprint(n), r.ID.Key)
			require.Equal(t, n == 1, errors.Is(err, store.ErrDamaged))
		}
		require.Equal(t, c.rows, n)
		require.Len(t, tb.after, c.pages)
		require.Negative(t, tb.after[0].CreatedAt, "before all instants")
		require.Equal(t, int64(math.MaxInt64), tb.until[0])
		for _, until := range tb.until[1:] {
			require.Equal(t, int64(101), until, "when the first page was read")
		}
		for i, after := range tb.after[1:] {
			require.Equal(t, sqltx.Position{CreatedAt: 7, Row: int64(i+1) * size}, after)
		}
	}
}

// A clock that was set back is behind the newest record.
func TestListReadsRecordsThatTheClockIsBehind(t *testing.T) {
	var until []int64
	for range sqltx.List(t.Context(), func(after sqltx.Position, to int64) ([]sqltx.Listed, error) {
		until = append(until, to)
		return slices.Repeat([]sqltx.Listed{{ReadAt: 7, Newest: 9}}, sqltx.PageSize*(2-len(until))), nil
	}) {
	}
	require.Equal(t, []int64{math.MaxInt64, 9}, until)
}

// A partial list is never taken for a whole one.
func TestListEndsWithItsError(t *testing.T) {
	const size = sqltx.PageSize
	for name, c := range map[string]struct {
		table  table
		ends   int // the record in whose loop the context ends; -1: before the loop
		listed int
		err    error
	}{
		"no page":             {table{rows: 2, fails: 1}, 0, 0, errPage},
		"a part of a page":    {table{rows: 2, fails: 2}, 0, 0, errPage},
		"the second page":     {table{rows: 2 * size, fails: size + 1}, 0, size, errPage},
		"an ended context":    {table{rows: 2}, -1, 0, context.Canceled},
		"an empty list of it": {table{}, -1, 0, context.Canceled},
		"in the loop":         {table{rows: 3}, 1, 1, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.ends < 0 {
				cancel()
			}
			n := 0
			var last error
			for r, err := range sqltx.List(ctx, c.table.page) {
				require.NoError(t, last, "the error is the last")
				if last = err; err != nil {
					require.Zero(t, r)
					continue
				}
				if n++; n == c.ends {
					cancel()
				}
			}
			require.Equal(t, c.listed, n)
			require.ErrorIs(t, last, c.err)
		})
	}
	for range sqltx.List(t.Context(), (&table{rows: 2}).page) {
		break
	}
}

func TestPurgeWorksInBatches(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   int
		deleted []int
		err     error // of the last batch
		asked   []int
		want    int
	}{
		{"up to its limit", 2500, []int{1000, 1000, 500}, nil, []int{1000, 1000, 500}, 2500},
		{"until a batch finds too few", 2500, []int{1000, 999}, nil, []int{1000, 1000}, 1999},
		{"until an error, whose batch is rolled back", 2500, []int{1000, 1000}, errPage, []int{1000, 1000}, 1000},
		{"one record", 1, []int{1}, nil, []int{1}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []int
			n, err := sqltx.Purge(c.limit, func(n int) (int, error) {
				asked = append(asked, n)
				if len(asked) == len(c.deleted) {
					return c.deleted[len(asked)-1], c.err
				}
				return c.deleted[len(asked)-1], nil
			})
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.want, n)
			require.Equal(t, c.asked, asked)
		})
	}
	_, err := sqltx.Purge(0, nil)
	require.ErrorIs(t, err, store.ErrInvalid)
}

// foreignRows has a row of a table that is not the store's, and no other.
type foreignRows struct {
	noRows
	read bool
}

func (*foreignRows) Columns() []string { return []string{"name"} }

func (r *foreignRows) Next(row []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, row[0] = true, "x"
	return nil
}

func TestARowThatCannotBeReadEndsThePage(t *testing.T) {
	for name, rows := range map[string]driver.Rows{"foreign": &foreignRows{}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			tx, e := begin(t)
			e.rows = rows
			page, err := sqltx.ReadPage(tx.Query("a"))
			require.Empty(t, page)
			require.Equal(t, rows != nil, err != nil, "%v", err)
		})
	}
}

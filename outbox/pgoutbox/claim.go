package pgoutbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/redo-go/redo/outbox"
)

const (
	// spare is how many events that can't be claimed a claim passes over for nothing. It goes on behind them only in
	// need, and parks them on its way.
	spare = 100
	// stride is how many it looks at, and parks, at a time then: some 20 ms.
	stride = 1000
	// A claim that has parked so many returns what it has; the next one goes on. Somebody may wait for events that it
	// has found.
	mostParked       = 50 * stride
	mostParkedBeside = 2 * stride
)

// Claim implements [outbox.Queue], in one statement unless two claims meet at an ordering key, or many events stand
// first that can't be claimed. Of these it parks those that wait behind another of their key, so that no claim has to
// look at them until their turn comes.
func (q *Queue) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var found []outbox.Delivery
	var from place
	for parked, size := 0, c.Max+spare; ; size = c.Max + stride {
		ds, to, more, err := q.claimBetween(ctx, c, len(found), from, size)
		found = append(found, ds...)
		if err == nil && (len(found) == c.Max || !more && from == (place{})) {
			return found, nil
		}
		if err == nil {
			var n int
			n, err = q.park(ctx, from, to, size)
			parked += n
		}
		switch {
		case err != nil && len(found) == 0:
			return nil, err
		case err != nil, !more, parked >= mostParked, len(found) > 0 && parked >= mostParkedBeside:
			return found, nil //nolint:nilerr // what was claimed is the caller's, whatever failed after it
		}
		from = to
	}
}

// A place is one in the order in which events are due; its zero value is before all of them.
type place struct {
	due time.Time
	seq int64
}

func (p place) args() []any {
	if p == (place{}) {
		return []any{nil, p.seq}
	}
	return []any{p.due, p.seq}
}

// claimBetween claims of the first events behind a place, size of them. It returns the place of the last of these, and
// whether there may be more behind it.
func (q *Queue) claimBetween(
	ctx context.Context,
	c outbox.Claim,
	found int,
	from place,
	size int,
) (ds []outbox.Delivery, to place, more bool, err error) {
	args := append([]any{int64(c.Max - found), micros(c.Lease), c.HoldKeys}, append(from.args(), int64(size))...)
	err = q.run(ctx, true, func(on *pgx.Conn) error {
		rows, err := on.Query(ctx, q.sql.claim, args...)
		if err != nil {
			return err
		}
		ds = nil
		for rows.Next() {
			d, err := scanClaimed(rows, &more, &to.due, &to.seq)
			if err != nil {
				rows.Close()
				return err
			}
			if d.Lease.Seq != 0 {
				ds = append(ds, d)
			}
		}
		return rows.Err()
	})
	return ds, to, more, err
}

// scanClaimed reads a delivery, which has no Seq where nothing was claimed, behind other columns.
func scanClaimed(row pgx.Row, others ...any) (outbox.Delivery, error) {
	var d outbox.Delivery
	var seq, fence, attempts, age, tried zeronull.Int8
	var key, header zeronull.Text
	ev := &d.Event
	err := row.Scan(
		append(
			others,
			&seq,
			&fence,
			&attempts,
			(*zeronull.Text)(&ev.ID),
			(*zeronull.Text)(&ev.Type),
			(*zeronull.Text)(&ev.Destination),
			&key,
			&header,
			&ev.Payload,
			&age,
			&tried,
		)...)
	if err != nil || seq == 0 {
		return outbox.Delivery{}, err
	}
	d.Lease = outbox.Lease{Seq: uint64(seq), Fence: uint64(fence)}
	d.Attempt = int(attempts)
	d.Age = max(0, time.Duration(age)*time.Microsecond)
	d.Tried = max(0, time.Duration(tried)*time.Microsecond)
	ev.OrderingKey = string(key)
	ev.Header, err = decodeHeader(string(header))
	return d, err
}

// park puts off what waits behind another event of its key between two places, and returns how many.
func (q *Queue) park(ctx context.Context, from, to place, limit int) (parked int, err error) {
	args := append(append(from.args(), to.args()...), int64(limit))
	err = q.run(ctx, true, func(on *pgx.Conn) error {
		tag, err := on.Exec(ctx, q.sql.park, args...)
		parked = int(tag.RowsAffected())
		return err
	})
	return parked, err
}

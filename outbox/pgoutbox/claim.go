package pgoutbox

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/pgstore/pgtable"
)

const (
	// longRead is the number of rows of the log that a claim reads if it may not claim enough of the first ones.
	longRead = 1000
	// mostPassed bounds how many rows of the log a claim passes. The next claim continues behind them.
	mostPassed = 10_000
	// mostTries bounds how often a claim meets another claim of the log before it returns what it has.
	mostTries = 4
	// tryPause is the longest pause before the next try: about the time of another claim's commit.
	tryPause = 4 * time.Millisecond
	// sweepEvery is the time between two searches of a process for all expired leases. Other searches look at
	// recent ones only.
	sweepEvery = time.Minute
)

// Claim implements [outbox.Queue]. It is one statement if no late event is due, no lease has expired, and no other
// claim reads the log. It is more statements if many events of the log may not be claimed now.
func (q *Queue) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	f := &claiming{q: q, Claim: c}
	if c.PerDestination == 0 {
		f.PerDestination = c.Max
	}
	err := f.run(ctx)
	if err != nil && len(f.found) == 0 {
		return nil, err
	}
	slices.SortStableFunc(f.found, func(a, b outbox.Delivery) int { return cmp.Compare(a.Lease.Seq, b.Lease.Seq) })
	return q.readable(ctx, f.found), nil
}

// A claiming is a call of Claim. Max, PerDestination and Room are the remaining limits.
type claiming struct {
	q *Queue
	outbox.Claim
	found []outbox.Delivery
}

func (f *claiming) run(ctx context.Context) error {
	if f.q.sweepIsDue(f.q.now()) {
		if err := f.q.sweep(ctx, true); err != nil {
			return err
		}
		if err := f.q.checkCursor(ctx); err != nil {
			return err
		}
	}
	ask := question{fresh: true, rows: int64(f.Max)}
	if !f.q.many.Load() {
		ask.few, ask.rows = true, int64(min(f.Max, fewEvents))
	}
	for passed, tries := int64(0), 0; f.Max > 0 && passed < mostPassed; {
		at, err := f.readLog(ctx, ask)
		if err != nil {
			return err
		}
		passed += at.passed
		few, all := ask.few, at.seen == ask.rows
		if few {
			ask.few, ask.rows = false, int64(f.Max)
		}
		switch {
		case at.expired || at.due:
			ask.fresh = false
			if err := f.takeLate(ctx, at.expired); err != nil {
				return err
			}
		case few && at.reading: // it can't claim them
		case !at.moved && (at.passed > 0 || at.reading): // another claim was faster
			if tries++; tries == mostTries {
				return nil
			}
			if err := pgtable.Pause(ctx, rand.N(tryPause)); err != nil {
				return err
			}
		case at.reading:
		case ask.pass && at.claimed > 0: // the jam is passed
			ask.pass = false
		case !all:
			f.q.jam.clear()
			return nil
		case at.passed == at.seen: // it may claim more
		case len(f.found) > 0 && !f.q.jam.due(f.q.now()):
			return nil
		case ask.rows < longRead:
			ask.rows = longRead
		default:
			if ask.pass, err = f.look(ctx, at.last); err != nil || !ask.pass {
				return err
			}
		}
	}
	return nil
}

func (f *claiming) takeLate(ctx context.Context, expired bool) error {
	if expired {
		if err := f.q.sweep(ctx, false); err != nil {
			return err
		}
	}
	if err := f.readLate(ctx); err != nil || f.Max == 0 {
		return err
	}
	return f.readLines(ctx)
}

// add keeps the deliveries that a statement has claimed.
func (f *claiming) add(ds []outbox.Delivery) {
	if len(ds) == 0 {
		return
	}
	f.found = append(f.found, ds...)
	f.Max -= len(ds)
	f.Room = maps.Clone(f.Room)
	if f.Room == nil {
		f.Room = map[string]int{}
	}
	for _, d := range ds {
		to := d.Event.Destination
		if _, ok := f.Room[to]; !ok {
			f.Room[to] = f.PerDestination
		}
		f.Room[to]--
	}
}

// rooms returns the destinations that have a limit of their own, and the limits.
func (f *claiming) rooms() ([]string, []int64) {
	names := slices.Sorted(maps.Keys(f.Room))
	limits := make([]int64, len(names))
	for i, name := range names {
		limits[i] = int64(f.Room[name])
	}
	return names, limits
}

// A question selects the part of the log that a statement reads.
type question struct {
	few   bool // by fewSQL
	fresh bool // nothing, if late events are due or leases have expired
	rows  int64
	pass  bool // pass rows that may not be claimed
}

// A reading is the result of a statement that reads the log.
type reading struct {
	due, expired   bool  // there are late events or expired leases, and nothing was read
	seen, passed   int64 // rows
	moved, reading bool  // the cursor has moved; it was among rows of pending transactions, or fewSQL can't claim them
	last           int64 // the place of the last row that was read
	claimed        int
}

func (f *claiming) readLog(ctx context.Context, ask question) (at reading, err error) {
	names, limits := f.rooms()
	text := f.q.sql.log
	args := []any{
		ask.rows, micros(f.Lease), f.HoldKeys, int64(f.PerDestination), names, limits, ask.fresh, int64(f.Max),
		ask.pass,
	}
	if ask.few {
		text, args = f.q.sql.few, args[:7]
	}
	var ds []outbox.Delivery
	at.last = -1 // each row has a place
	err = f.q.run(ctx, true, func(on *pgx.Conn) error {
		ds, err = f.deliveries(ctx, on, text, args,
			&at.due, &at.expired, &at.seen, &at.passed, &at.moved, &at.reading, &at.last)
		return err
	})
	if err == nil && at.last < 0 {
		return at, f.q.table.Unfit(ErrForeign, "%w", errNoCursor)
	}
	if err == nil {
		f.add(ds)
		at.claimed = len(ds)
		keyed := slices.ContainsFunc(ds, func(d outbox.Delivery) bool { return d.Event.OrderingKey != "" })
		if at.seen > 0 {
			f.q.many.Store(keyed || at.seen >= fewEvents || int64(len(ds)) < at.seen)
		}
	}
	return at, err
}

// deliveries returns the deliveries that a statement has claimed. Each of its rows has other columns before those
// of the delivery.
func (f *claiming) deliveries(
	ctx context.Context, on *pgx.Conn, text string, args []any, others ...any,
) (ds []outbox.Delivery, err error) {
	err = planned(ctx, on, text, args, func(rows pgx.Rows) error {
		for rows.Next() {
			d, err := scanDelivery(rows, others...)
			if err != nil {
				return err
			}
			if d.Lease.Seq != 0 {
				ds = append(ds, d)
			}
		}
		return rows.Err()
	})
	return ds, err
}

// scanDelivery reads the columns of deliverySQL behind other columns. A row without a delivery has no Seq. A header
// that can't be read has the name unreadable.
func scanDelivery(row pgx.Row, others ...any) (outbox.Delivery, error) {
	var d outbox.Delivery
	var seq, fence, attempts, age, tried zeronull.Int8
	var header zeronull.Text
	ev := &d.Event
	into := append(slices.Clone(others), &seq, &fence, &attempts,
		(*zeronull.Text)(&ev.ID), (*zeronull.Text)(&ev.Type), (*zeronull.Text)(&ev.Destination),
		(*zeronull.Text)(&ev.OrderingKey), &header, &ev.Payload, &age, &tried)
	if err := row.Scan(into...); err != nil {
		return outbox.Delivery{}, err
	}
	d.Lease = outbox.Lease{Seq: uint64(seq), Fence: uint64(fence)}
	d.Attempt = int(attempts)
	d.Age = max(0, time.Duration(age)*time.Microsecond)
	d.Tried = max(0, time.Duration(tried)*time.Microsecond)
	var err error
	if ev.Header, err = decodeHeader(string(header)); err != nil {
		ev.Header = unreadable
	}
	return d, nil
}

package pgstore

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

const (
	freePause = time.Second           // between two searches that find less than two records
	freeRetry = 10 * time.Millisecond // after a claim that was refused, which searches nothing
	freeSlack = time.Minute           // for records that were committed late
)

// A freer decides which writes also delete expired records. A write that does so searches the index of expiries. To
// keep others from a search that finds nothing, a store pauses after one, unless it has itself made a record that
// expires sooner.
type freer struct {
	mu   sync.Mutex
	next time.Time          // of the next search
	from pgtype.Timestamptz // where the next search begins
}

// freed is the result of a search.
type freed struct {
	n    int64
	last pgtype.Timestamptz // the latest expiry
}

// due reports whether a write is to delete expired records, and the expiry at which it begins.
func (f *freer) due() (from pgtype.Timestamptz, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.from.Valid {
		f.from = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return f.from, !time.Now().Before(f.next)
}

// did records the result of a search.
func (f *freer) did(d freed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.n < 2 {
		f.next = time.Now().Add(freePause)
	}
	if d.n > 0 && d.last.InfinityModifier == pgtype.Finite {
		f.from = pgtype.Timestamptz{Time: d.last.Time.Add(-freeSlack), Valid: true}
	}
}

// refused records that a claim was refused, so that nothing was searched. Refused claims are cheaper without a search.
func (f *freer) refused() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = time.Now().Add(freeRetry)
}

// expiresIn records that the store has made a record which expires after d.
func (f *freer) expiresIn(d time.Duration) {
	if d >= freePause {
		return // a search comes before
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := time.Now().Add(d); at.Before(f.next) {
		f.next = at
	}
}

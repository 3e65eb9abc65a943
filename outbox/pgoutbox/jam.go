package pgoutbox

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// lookSQL finds the first row of the log behind a place ($1) that a claim might take. It reads ten thousand rows. Its
// other parameters are the limit of a destination ($2), and destinations with another limit ($3, $4). It returns the
// row's place or 0, the place of the last row that was read, and whether there may be more.
const lookSQL = `
WITH page AS MATERIALIZED (
	SELECT o.seq, o.destination, o.ordering_key FROM {table} AS o
	WHERE o.seq > $1::bigint ORDER BY o.seq LIMIT 10000
),
free AS MATERIALIZED (
	SELECT p.* FROM page AS p
	LEFT JOIN {.disabled} AS d ON d.destination = p.destination
	LEFT JOIN unnest($3::text[], $4::bigint[]) AS r (destination, room) ON r.destination = p.destination
	WHERE d.destination IS NULL AND coalesce(r.room, $2::bigint) > 0
	ORDER BY p.seq
)
SELECT coalesce((SELECT f.seq FROM free AS f WHERE f.ordering_key IS NULL OR (SELECT true FROM {.line} AS l
		WHERE l.destination = f.destination AND l.ordering_key = f.ordering_key) IS NULL LIMIT 1), 0),
	coalesce((SELECT max(seq) FROM page), $1::bigint),
	(SELECT count(*) FROM page) = 10000`

// A jam is a beginning of the log that may not be claimed, because its destinations have no room or its lines are held.
// To pass it makes each of its events late, which costs several writes. So it is passed only if an event behind it may
// be claimed.
type jam struct {
	mu     sync.Mutex
	looked time.Time // when the log behind it was last read
	from   int64     // up to which place
	more   bool      // that was not the end
	free   int64     // the place of an event that may be claimed; 0: none was found
}

const (
	// lookEvery is the time between two reads of a process behind a jam. In between it reads only new rows.
	lookEvery = 250 * time.Millisecond
	// mostLooks bounds how many times ten thousand rows a claim reads behind a jam if it has no event yet. With an
	// event it reads once. The next claim continues there.
	mostLooks = 3
)

// due reports whether it is time to read behind the jam, or an event behind it is known.
func (j *jam) due(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.free > 0 || now.Sub(j.looked) >= lookEvery
}

// look reports whether a claim must pass the jam that reaches to a place.
func (f *claiming) look(ctx context.Context, last int64) (bool, error) {
	j := &f.q.jam
	j.mu.Lock()
	if j.free > last {
		j.mu.Unlock()
		return true, nil
	}
	now := f.q.now()
	soon := now.Sub(j.looked) < lookEvery
	if soon && j.more {
		j.mu.Unlock()
		return false, nil
	}
	at := jam{from: max(j.from, last), more: true}
	if !soon {
		j.looked = now
		if !j.more { // from the beginning
			at.from = last
		}
	}
	j.mu.Unlock()
	looks := mostLooks
	if len(f.found) > 0 {
		looks = 1
	}
	names, limits := f.rooms()
	for ; looks > 0 && at.more && at.free == 0; looks-- {
		err := f.q.run(ctx, false, func(on *pgx.Conn) error {
			return on.QueryRow(ctx, f.q.sql.look, at.from, int64(f.PerDestination), names, limits).
				Scan(&at.free, &at.from, &at.more)
		})
		if err != nil {
			return false, err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.free, j.from, j.more = at.free, at.from, at.more
	return j.free > 0, nil
}

// clear records that there is no jam.
func (j *jam) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.from, j.free, j.more = 0, 0, false
}

package pgoutbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
)

// lateSQL claims late events without an ordering key. Its parameters are the maximum ($1), the lease ($2), the limit of
// a destination ($3), and destinations with another limit ($4, $5).
//
// It jumps from one destination to the next in the index. So many due events of a destination without room cost no
// more than one. It locks the events that it takes and reads them again, because another claim may have taken them.
const lateSQL = `
WITH RECURSIVE present AS MATERIALIZED (SELECT clock_timestamp() AS at),
dest (destination) AS (
	(SELECT destination FROM {.late} WHERE state = 1 AND ordering_key IS NULL ORDER BY destination LIMIT 1)
	UNION ALL
	SELECT (SELECT l.destination FROM {.late} AS l
		WHERE l.state = 1 AND l.ordering_key IS NULL AND l.destination > dest.destination
		ORDER BY l.destination LIMIT 1)
	FROM dest WHERE dest.destination IS NOT NULL
),
picked AS MATERIALIZED (
	SELECT e.seq FROM present CROSS JOIN dest
	LEFT JOIN unnest($4::text[], $5::bigint[]) AS r (destination, room)
		ON r.destination = dest.destination
	CROSS JOIN LATERAL (
		SELECT * FROM (SELECT l.seq, l.due_at FROM {.late} AS l
			WHERE l.state = 1 AND l.ordering_key IS NULL
				AND l.destination = dest.destination AND l.due_at <= present.at
			ORDER BY l.destination, l.due_at, l.seq LIMIT 1000) AS l
		LIMIT least($1::bigint, coalesce(r.room, $3::bigint))) AS e
	WHERE dest.destination IS NOT NULL
		AND (SELECT true FROM {.disabled} AS d WHERE d.destination = dest.destination) IS NULL
	ORDER BY e.due_at, e.seq LIMIT $1::bigint
),
locked AS MATERIALIZED (
	SELECT l.seq FROM {.late} AS l
	WHERE l.seq = ANY (ARRAY(SELECT seq FROM picked)) AND l.state = 1 FOR UPDATE SKIP LOCKED
),
` + takeLateSQL + `
SELECT ` + deliverySQL + lateDeliveriesSQL

// takeLateSQL claims the locked events, in chunks. Each chunk is a row of claims.
const takeLateSQL = `chunks AS MATERIALIZED (
	SELECT ` + fenceSQL + ` AS fence, array_agg(seq ORDER BY seq) AS open
	FROM (SELECT seq, (row_number() OVER (ORDER BY seq) - 1) / 100 AS chunk FROM locked) AS c GROUP BY chunk
),
fenced AS MATERIALIZED (SELECT fence, unnest(open) AS seq FROM chunks),
claims AS (
	INSERT INTO {.claim} (fence, part, open, lease_end, claimed_at)
	SELECT c.fence, 0, c.open, present.at + $2::bigint * interval '1 microsecond', present.at
	FROM chunks AS c, present
),
` + takenSQL

const takenSQL = `taken AS (
	UPDATE {.late} AS l SET state = 2, fence = NULL, attempts = l.attempts + 1,
		first_at = coalesce(l.first_at, present.at)
	FROM fenced AS f, present WHERE l.seq = f.seq
	RETURNING l.seq, f.fence, l.attempts, CASE WHEN l.attempts > 1 THEN l.first_at END AS first_at
)`

// lateDeliveriesSQL reads the log by an array. For that the planner uses the index with any statistics.
const lateDeliveriesSQL = `
FROM present CROSS JOIN taken AS f
JOIN (SELECT * FROM {table} WHERE seq = ANY (ARRAY(SELECT seq FROM taken))) AS o ON o.seq = f.seq
ORDER BY o.seq`

// readLate claims late events without an ordering key.
func (f *claiming) readLate(ctx context.Context) error {
	names, limits := f.rooms()
	args := []any{int64(f.Max), micros(f.Lease), int64(f.PerDestination), names, limits}
	var ds []outbox.Delivery
	err := f.q.run(ctx, true, func(on *pgx.Conn) (err error) {
		ds, err = f.deliveries(ctx, on, f.q.sql.late, args)
		return err
	})
	if err == nil {
		f.add(ds)
	}
	return err
}

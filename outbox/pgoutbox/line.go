package pgoutbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
)

// readyLinesSQL locks lines that are due and that no claim holds, at most one for each event that may be claimed. Its
// parameters are the maximum ($1), HoldKeys ($2), the limit of a destination ($3), and destinations with another limit
// ($4, $5). It jumps from one destination to the next.
const readyLinesSQL = `
WITH RECURSIVE present AS MATERIALIZED (SELECT clock_timestamp() AS at),
dest (held, destination) AS (
	SELECT h.held, (SELECT destination FROM {.line} AS l WHERE l.fence = 0 AND l.held = h.held
		ORDER BY l.held, l.destination LIMIT 1)
	FROM (VALUES (false), (true)) AS h (held) WHERE NOT (h.held AND $2::boolean)
	UNION ALL
	SELECT dest.held, (SELECT l.destination FROM {.line} AS l
		WHERE l.fence = 0 AND l.held = dest.held AND l.destination > dest.destination
		ORDER BY l.held, l.destination LIMIT 1)
	FROM dest WHERE dest.destination IS NOT NULL
),
picked AS MATERIALIZED (
	SELECT e.* FROM present CROSS JOIN dest
	LEFT JOIN unnest($4::text[], $5::bigint[]) AS r (destination, room)
		ON r.destination = dest.destination
	CROSS JOIN LATERAL (
		SELECT * FROM (SELECT l.destination, l.ordering_key, l.due_at FROM {.line} AS l
			WHERE l.fence = 0 AND l.held = dest.held AND l.destination = dest.destination AND l.due_at <= present.at
			ORDER BY l.held, l.destination, l.due_at LIMIT 1000) AS l
		LIMIT least($1::bigint, coalesce(r.room, $3::bigint))) AS e
	WHERE dest.destination IS NOT NULL
		AND (SELECT true FROM {.disabled} AS d WHERE d.destination = dest.destination) IS NULL
	ORDER BY e.due_at LIMIT $1::bigint
)
SELECT l.destination, l.ordering_key FROM present CROSS JOIN picked AS p
CROSS JOIN LATERAL (SELECT l.destination, l.ordering_key FROM {.line} AS l
	WHERE l.destination = p.destination AND l.ordering_key = p.ordering_key AND l.fence = 0 AND l.due_at <= present.at
	FOR UPDATE SKIP LOCKED) AS l`

// linesSQL claims the first events of locked lines, and writes when each of the other lines is due. It must see
// every commit before the lines were locked. So it is a separate statement, at read committed. Its parameters are
// the maximum ($1), the lease ($2), HoldKeys ($3), the limit of a destination ($4), destinations with another
// limit ($5, $6), and the lines ($7, $8).
//
// It takes the first event of each line, then the second, and so on.
const linesSQL = `
WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
line AS MATERIALIZED (SELECT * FROM unnest($7::text[], $8::text[]) AS l (destination, ordering_key)),
waiting AS MATERIALIZED (
	SELECT line.destination, line.ordering_key, e.seq, e.due_at,
		$3::boolean AND coalesce((SELECT d.seq FROM {.late} AS d
			WHERE d.state = 3 AND d.ordering_key IS NOT NULL
				AND d.destination = line.destination AND d.ordering_key = line.ordering_key
			ORDER BY d.destination, d.ordering_key, d.seq LIMIT 1) < e.seq, false) AS held
	FROM line CROSS JOIN LATERAL (
		SELECT * FROM (SELECT l.seq, l.due_at FROM {.late} AS l
			WHERE l.state = 1 AND l.ordering_key IS NOT NULL
				AND l.destination = line.destination AND l.ordering_key = line.ordering_key
			ORDER BY l.destination, l.ordering_key, l.seq LIMIT 1000) AS l
		LIMIT $1::bigint) AS e
),
judged AS MATERIALIZED (
	SELECT w.*, row_number() OVER line AS nth, bool_and(w.due_at <= present.at AND NOT w.held) OVER line AS free
	FROM waiting AS w, present WINDOW line AS (PARTITION BY w.destination, w.ordering_key ORDER BY w.seq)
),
ranked AS MATERIALIZED (
	SELECT j.* FROM (
		SELECT j.*, row_number() OVER (PARTITION BY j.destination ORDER BY j.nth, j.seq) AS place
		FROM judged AS j WHERE j.free) AS j
	LEFT JOIN unnest($5::text[], $6::bigint[]) AS r (destination, room) ON r.destination = j.destination
	WHERE j.place <= coalesce(r.room, $4::bigint)
	ORDER BY j.nth, j.seq LIMIT $1::bigint
),
locked AS MATERIALIZED ( -- the owner of an expired lease may settle an event meanwhile
	SELECT l.seq FROM {.late} AS l WHERE l.seq = ANY (ARRAY(SELECT seq FROM ranked)) AND l.state = 1
	ORDER BY l.seq FOR UPDATE
),
wanted AS MATERIALIZED (
	SELECT ` + fenceSQL + ` AS fence, destination, ordering_key, array_agg(seq ORDER BY seq) AS open
	FROM ranked JOIN locked USING (seq) GROUP BY destination, ordering_key
),
fenced AS MATERIALIZED (SELECT fence, unnest(open) AS seq FROM wanted),
claims AS (
	INSERT INTO {.claim} (fence, part, open, lease_end, claimed_at, destination, ordering_key)
	SELECT w.fence, 0, w.open, present.at + $2::bigint * interval '1 microsecond', present.at, w.destination,
		w.ordering_key
	FROM wanted AS w, present
),
` + takenSQL + `,
fate AS MATERIALIZED (
	SELECT line.*, coalesce(w.fence, 0) AS fence, j.held, j.due_at, j.free, EXISTS (SELECT FROM {.late} AS d
		WHERE d.state = 3 AND d.ordering_key IS NOT NULL
			AND d.destination = line.destination AND d.ordering_key = line.ordering_key) AS buried
	FROM line
	LEFT JOIN wanted AS w ON w.destination = line.destination AND w.ordering_key = line.ordering_key
	LEFT JOIN judged AS j ON j.destination = line.destination AND j.ordering_key = line.ordering_key AND j.nth = 1
),
emptied AS (
	DELETE FROM {.line} AS l USING fate AS f
	WHERE l.destination = f.destination AND l.ordering_key = f.ordering_key AND f.free IS NULL AND NOT f.buried
),
marked AS (
	UPDATE {.line} AS l SET fence = f.fence, held = f.fence = 0 AND coalesce(f.held, false),
		due_at = CASE WHEN f.fence = 0 THEN coalesce(f.due_at, 'infinity') ELSE l.due_at END
	FROM fate AS f
	WHERE l.destination = f.destination AND l.ordering_key = f.ordering_key AND (f.free IS NOT NULL OR f.buried)
)
SELECT ` + deliverySQL + lateDeliveriesSQL

// readLines claims late events of lines, in one transaction.
func (f *claiming) readLines(ctx context.Context) error {
	var ds []outbox.Delivery
	err := f.q.run(ctx, true, func(on *pgx.Conn) (err error) {
		ds = nil
		return pgx.BeginTxFunc(ctx, on, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			names, limits := f.rooms()
			most, each := int64(f.Max), int64(f.PerDestination)
			rows, _ := tx.Query(ctx, f.q.sql.readyLines, most, f.HoldKeys, each, names, limits)
			var destinations, keys []string
			var destination, key string
			if _, err := pgx.ForEachRow(rows, []any{&destination, &key}, func() error {
				destinations, keys = append(destinations, destination), append(keys, key)
				return nil
			}); err != nil || len(keys) == 0 {
				return err
			}
			args := []any{most, micros(f.Lease), f.HoldKeys, each, names, limits, destinations, keys}
			ds, err = f.deliveries(ctx, on, f.q.sql.lines, args)
			return err
		})
	})
	if err == nil {
		f.add(ds)
	}
	return err
}

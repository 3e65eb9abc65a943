package pgoutbox

// deliverySQL are the columns that scanDelivery reads, of a row o of the log, and of f, which has the fence, the
// attempts and the instant of the first attempt.
const deliverySQL = `o.seq, f.fence, f.attempts, o.id, o.type, o.destination, o.ordering_key, o.header::text, o.payload,
	(extract(epoch FROM present.at - o.enqueued_at) * 1000000)::bigint,
	(extract(epoch FROM present.at - f.first_at) * 1000000)::bigint`

// readLogSQL reads the next events of the log. Its parameters are the number of rows ($1), the lease ($2), HoldKeys
// ($3), the limit of a destination ($4), and destinations with another limit ($5, $6). With $7 it leaves the log
// alone if late events are due or leases have expired.
//
// The cursor's head is the place of the last row that was passed. A transaction that commits later may have rows before
// it. So the cursor also keeps which transactions may: those that were open when the log was read. They are the ones
// in the statement's snapshot, and those from the snapshot's xmax to the statement's own transaction, which began
// later. A row's transaction has its number before the row draws its place from the sequence. So a row before the head
// that the snapshot does not see is of one of these transactions. The statement gets its own number in a subquery,
// because the planner would evaluate the bare function, before the snapshot.
//
// A visible row can't be of an open transaction, unless it is from the dump of another cluster, where another
// transaction had that number. Its number is then set to 0, so that a later claim does not take it for a late row.
//
// More rows of pending transactions may appear together than a claim reads. The cursor then keeps the transactions
// that have ended as reading, and the place up to which they were read. The head does not move until all are read.
//
// The head moves to the last row that is claimed. Rows before it that may not be claimed become late events. Rows
// behind it stay in the log, unless all are to be passed. See jam.
//
// Each claim locks the cursor's row, deletes it and inserts the next one. A concurrent claim finds the row locked or
// deleted, and takes nothing. An updated row would be slow to read while another transaction holds an old snapshot.
//
// The limits of 1000 and the comparisons of rows are for the planner, which must use the one index that has the order.
const readLogSQL = `
WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
cur AS MATERIALIZED (SELECT n, head, pending, reading, place, swept FROM {.cursor} ORDER BY n DESC LIMIT 1),
alarm AS MATERIALIZED (
	SELECT $7::boolean AND (late OR ready OR held) AS due, $7::boolean AND expired AS expired FROM (
		SELECT coalesce((SELECT true FROM {.late} WHERE state = 1 AND ordering_key IS NULL AND due_at <= present.at
				ORDER BY due_at LIMIT 1), false) AS late,
			coalesce((SELECT true FROM {.line} WHERE fence = 0 AND NOT held AND due_at <= present.at
				ORDER BY held, due_at LIMIT 1), false) AS ready,
			NOT $3::boolean AND coalesce((SELECT true FROM {.line} WHERE fence = 0 AND held AND due_at <= present.at
				ORDER BY held, due_at LIMIT 1), false) AS held,
			coalesce((SELECT true FROM {.claim} WHERE lease_end > cur.swept AND lease_end <= present.at
				ORDER BY lease_end LIMIT 1), false) AS expired
		FROM present, cur) AS a
),
quiet AS MATERIALIZED (SELECT NOT (due OR expired) AS yes FROM alarm),
older AS MATERIALIZED (
	SELECT * FROM (SELECT e.* FROM cur
	CROSS JOIN LATERAL unnest(CASE WHEN cur.reading = '{}' THEN cur.pending ELSE cur.reading END) AS x (xid)
	CROSS JOIN LATERAL (
		SELECT o.* FROM {table} AS o
		WHERE (o.xid, o.seq) > (x.xid, cur.place) AND (o.xid, o.seq) <= (x.xid, cur.head)
		ORDER BY o.xid, o.seq LIMIT 1000) AS e
	WHERE (SELECT yes FROM quiet)
	ORDER BY e.seq LIMIT 1000) AS e LIMIT $1::bigint
),
newer AS MATERIALIZED (
	SELECT e.* FROM (
		SELECT o.* FROM {table} AS o
		WHERE (SELECT yes FROM quiet) AND (SELECT reading = '{}' FROM cur) AND o.seq > (SELECT head FROM cur)
		ORDER BY o.seq LIMIT 1000) AS e
	LIMIT $1::bigint - (SELECT count(*) FROM older)
)`

// logSQL claims the next events of the log, at most $8. With $9 it passes all of the rows that it reads.
const logSQL = readLogSQL + `,
seen AS MATERIALIZED (
	SELECT s.*, coalesce(r.room, $4::bigint) AS room,
		d.destination IS NOT NULL OR CASE WHEN s.ordering_key IS NULL THEN false
		ELSE coalesce((SELECT true FROM {.line} AS l
			WHERE l.destination = s.destination AND l.ordering_key = s.ordering_key), false) END AS shut
	FROM (SELECT *, true AS pass FROM older UNION ALL SELECT *, $9::boolean FROM newer) AS s
	LEFT JOIN {.disabled} AS d ON d.destination = s.destination
	LEFT JOIN unnest($5::text[], $6::bigint[]) AS r (destination, room) ON r.destination = s.destination
),
ranked AS MATERIALIZED (
	SELECT s.*, NOT s.shut AND row_number() OVER (PARTITION BY s.destination, s.shut ORDER BY s.seq) <= s.room AS fits
	FROM seen AS s
),
fitting AS MATERIALIZED (SELECT seq FROM ranked WHERE fits ORDER BY seq LIMIT $8::bigint),
edge AS MATERIALIZED (SELECT max(seq) AS seq FROM fitting),
judged AS MATERIALIZED (
	SELECT r.*, NOT r.fits OR r.seq > coalesce(edge.seq, 0) AS late
	FROM ranked AS r, edge WHERE r.pass OR r.seq <= edge.seq
),
locked AS MATERIALIZED (
	SELECT c.n FROM {.cursor} AS c
	WHERE c.n = (SELECT n FROM cur) AND (SELECT yes FROM quiet)
		AND ((SELECT count(*) FROM judged) > 0 OR (SELECT reading <> '{}' FROM cur))
	FOR UPDATE SKIP LOCKED
),
` + leaveSQL + `,
moved AS (
	INSERT INTO {.cursor} AS c (n, head, pending, reading, place, swept)
	SELECT cur.n + 1, greatest(cur.head, (SELECT max(seq) FROM judged)),
		CASE WHEN cut AND cur.reading = '{}' THEN ARRAY(
				SELECT x FROM unnest(cur.pending) AS x WHERE NOT EXISTS (SELECT FROM {table} AS o WHERE o.xid = x))
			WHEN cut OR cur.reading <> '{}' THEN cur.pending
			ELSE ` + openSQL + ` END,
		CASE WHEN NOT cut THEN '{}'
			WHEN cur.reading = '{}' THEN ARRAY(
				SELECT x FROM unnest(cur.pending) AS x WHERE EXISTS (SELECT FROM {table} AS o WHERE o.xid = x))
			ELSE cur.reading END,
		CASE WHEN cut THEN (SELECT max(seq) FROM older) ELSE 0 END,
		CASE WHEN $7::boolean THEN present.at - interval '2 seconds' ELSE cur.swept END
	FROM left_behind, present, cur, (SELECT count(*) = $1::bigint AS cut FROM older) AS o
	RETURNING c.pending, c.reading
),
` + renumberSQL + `,
chunks AS MATERIALIZED (
	SELECT ` + fenceSQL + ` AS fence, array_agg(seq ORDER BY seq) AS open
	FROM (SELECT seq, (row_number() OVER (ORDER BY seq) - 1) / 100 AS chunk FROM judged
		WHERE ordering_key IS NULL AND NOT late) AS c
	GROUP BY chunk
),
wanted AS MATERIALIZED (
	SELECT destination, ordering_key, bool_or(late) AS queued,
		CASE WHEN bool_and(late) THEN 0 ELSE ` + fenceSQL + ` END AS fence
	FROM judged WHERE ordering_key IS NOT NULL
	GROUP BY destination, ordering_key
),
lines AS (
	INSERT INTO {.line} AS l (destination, ordering_key, fence, queued, due_at)
	SELECT w.destination, w.ordering_key, w.fence, w.queued, present.at FROM wanted AS w, present, moved
	ORDER BY w.destination, w.ordering_key
	ON CONFLICT (destination, ordering_key) DO UPDATE
	SET queued = true, held = false, due_at = least(l.due_at, excluded.due_at)
	RETURNING l.destination, l.ordering_key, l.fence
),
fenced AS MATERIALIZED (
	SELECT c.fence, unnest(c.open) AS seq, NULL::text COLLATE "C" AS destination,
		NULL::text COLLATE "C" AS ordering_key FROM chunks AS c, moved
	UNION ALL
	SELECT w.fence, j.seq, w.destination, w.ordering_key
	FROM wanted AS w
	JOIN lines AS l ON l.destination = w.destination AND l.ordering_key = w.ordering_key AND l.fence = w.fence
	JOIN judged AS j ON j.destination = w.destination AND j.ordering_key = w.ordering_key AND NOT j.late
),
claims AS (
	INSERT INTO {.claim} (fence, part, open, lease_end, claimed_at, destination, ordering_key)
	SELECT f.fence, 0, array_agg(f.seq ORDER BY f.seq),
		present.at + $2::bigint * interval '1 microsecond', present.at,
		min(f.destination), min(f.ordering_key)
	FROM fenced AS f, present GROUP BY f.fence, present.at
),
lates AS (
	INSERT INTO {.late} (seq, destination, ordering_key, due_at)
	SELECT j.seq, j.destination, j.ordering_key, present.at FROM judged AS j, present, moved
	WHERE NOT EXISTS (SELECT FROM fenced AS f WHERE f.seq = j.seq)
),
status AS MATERIALIZED (
	SELECT alarm.due, alarm.expired, (SELECT count(*) FROM ranked) AS seen, (SELECT count(*) FROM judged) AS passed,
		(SELECT count(*) FROM moved) > 0 AS moved, (SELECT reading <> '{}' FROM cur) AS reading,
		coalesce((SELECT max(seq) FROM ranked), 0) AS last
	FROM alarm
)
SELECT status.due, status.expired, status.seen, status.passed, status.moved, status.reading, status.last,
	` + deliverySQL + `
FROM status CROSS JOIN present
LEFT JOIN (SELECT fence, seq, 1 AS attempts, NULL::timestamptz AS first_at FROM fenced) AS f ON true
LEFT JOIN judged AS o ON o.seq = f.seq
ORDER BY o.seq`

// fenceSQL draws a fence: a number of the sequence and 16 random bits. A standby that was behind when it was promoted
// draws numbers, and gives places of the log, again. The random bits keep a lease of a lost event from fitting another.
const fenceSQL = `nextval({'fence}::regclass) * 65536 + floor(random() * 65536)::bigint`

// leaveSQL deletes the locked row of the cursor.
const leaveSQL = `left_behind AS (DELETE FROM {.cursor} AS c WHERE c.n = (SELECT n FROM locked) RETURNING c.n)`

// openSQL returns the transactions that were open when the log was read.
const openSQL = `ARRAY(SELECT x::text::bigint FROM pg_snapshot_xip(pg_current_snapshot()) AS x
	UNION ALL SELECT generate_series(pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
		(SELECT pg_current_xact_id())::text::bigint - 1))`

// renumberSQL takes the numbers of open transactions from visible rows, if the cursor has a new list of them.
const renumberSQL = `renumbered AS (
	UPDATE {table} AS o SET xid = 0 FROM moved, cur
	WHERE o.xid = ANY (moved.pending) AND moved.reading = '{}' AND cur.reading = '{}'
)`

// fewEvents is the number of events that fewSQL claims at most. They share a row of claims.
const fewEvents = 100

// fewSQL does the same as logSQL for a few events, in less than half of the time. It claims all rows that it reads, or
// none: it can't claim events with an ordering key, and it makes no event late.
const fewSQL = readLogSQL + `,
judged AS MATERIALIZED (SELECT * FROM older UNION ALL SELECT * FROM newer),
total AS MATERIALIZED (
	SELECT count(*) AS seen, max(j.seq) AS last, array_agg(j.seq ORDER BY j.seq) AS open,
		bool_and(j.ordering_key IS NULL
			AND (SELECT true FROM {.disabled} AS d WHERE d.destination = j.destination) IS NULL)
		AND count(*) <= min(coalesce(($6::bigint[])[array_position($5::text[], j.destination)], $4::bigint)) AS fit
	FROM judged AS j
),
locked AS MATERIALIZED (
	SELECT c.n FROM {.cursor} AS c
	WHERE c.n = (SELECT n FROM cur WHERE reading = '{}') AND (SELECT fit FROM total)
		AND (SELECT count(*) FROM older) < $1::bigint
	FOR UPDATE SKIP LOCKED
),
` + leaveSQL + `,
moved AS (
	INSERT INTO {.cursor} AS c (n, head, pending, reading, place, swept)
	SELECT cur.n + 1, greatest(cur.head, total.last), ` + openSQL + `, '{}', 0, present.at - interval '2 seconds'
	FROM left_behind, present, cur, total
	RETURNING c.pending, c.reading
),
` + renumberSQL + `,
claims AS (
	INSERT INTO {.claim} AS c (fence, part, open, lease_end, claimed_at)
	SELECT ` + fenceSQL + `, 0, total.open, present.at + $2::bigint * interval '1 microsecond', present.at
	FROM moved, present, total
	RETURNING c.fence, 1 AS attempts, NULL::timestamptz AS first_at
)
SELECT alarm.due, alarm.expired, total.seen, CASE WHEN f.fence IS NULL THEN 0 ELSE total.seen END, f.fence IS NOT NULL,
	f.fence IS NULL AND (total.seen > 0 OR cur.reading <> '{}'), 0::bigint,
	` + deliverySQL + `
FROM alarm CROSS JOIN present CROSS JOIN cur CROSS JOIN total
LEFT JOIN claims AS f ON true
LEFT JOIN judged AS o ON f.fence IS NOT NULL
ORDER BY o.seq`

package pgoutbox

// The templates are filled by New. {count} is an expression that may notify relays.

// enqueueSQL returns how many rows it added. Its count is of what it selects from the row that was added.
const enqueueSQL = `
WITH added AS (
	INSERT INTO {table} (id, type, destination, ordering_key, header, payload)
	VALUES ($1::text, $2::text, $3::text, nullif($4::text, ''), $5::text::jsonb, $6::bytea)
	ON CONFLICT (id) DO NOTHING RETURNING seq
)
SELECT count({count}) FROM added`

// These read an ordering key's line, from o to the nearest event before or behind it that waits or is dead. The bounds
// and the order are there for the planner: only the index of lines can serve them. Otherwise, if one key has most of
// the events, the planner reads the table from its beginning. It would drop an order inside EXISTS.
const (
	beforeSQL     = ` FROM {table} AS p WHERE p.state = 1` + backwardSQL
	deadBeforeSQL = ` FROM {table} AS p WHERE p.state = 3` + backwardSQL
	behindSQL     = ` FROM {table} AS p WHERE p.state = 1
		AND (p.ordering_key, p.seq) > (o.ordering_key, o.seq) AND p.ordering_key <= o.ordering_key
		ORDER BY p.ordering_key, p.seq LIMIT 1`
	backwardSQL = `
		AND (p.ordering_key, p.seq) < (o.ordering_key, o.seq) AND p.ordering_key >= o.ordering_key
		ORDER BY p.ordering_key DESC, p.seq DESC LIMIT 1`
)

// claimSQL takes one event of each ordering key: the claimed one whose lease has ended, or the first one if none is
// claimed. Two claims may see different first events, because one was committed in between. They meet at the unique
// index of claimed events, where one of them fails and is repeated.
//
// It reads the due events in their order, behind a place ($4, $5), at most $6 of them, and stops as soon as it can.
// Each row holds whether there are more, and the place of the last one read. If nothing is taken, there is one row.
//
// The condition that a key is not NULL follows from its comparison. It is repeated because the planner may drop it. The
// planner likes to hash all claimed events, and must find them in the index instead of the whole table.
const claimSQL = `
WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
edge AS MATERIALIZED (
	SELECT coalesce(l.due_at, present.at) AS due_at, coalesce(l.seq, 9223372036854775807) AS seq,
		l.seq IS NOT NULL AS more
	FROM present LEFT JOIN (
		SELECT o.due_at, o.seq FROM {table} AS o
		WHERE o.state = 1 AND o.due_at <= (SELECT at FROM present)
			AND (o.due_at, o.seq) > (coalesce($4::timestamptz, '-infinity'), $5::bigint)
		ORDER BY o.due_at, o.seq LIMIT 1 OFFSET $6::bigint - 1) AS l ON true
),
picked AS MATERIALIZED (
	SELECT o.seq, o.due_at FROM {table} AS o
	WHERE o.state = 1 AND (o.due_at, o.seq) > (coalesce($4::timestamptz, '-infinity'), $5::bigint)
		AND (o.due_at, o.seq) <= (SELECT due_at, seq FROM edge)
		AND (o.ordering_key IS NULL OR o.leased OR (
			(SELECT true` + beforeSQL + `) IS NOT TRUE
			AND NOT EXISTS (SELECT FROM {table} AS p
				WHERE p.ordering_key = o.ordering_key AND p.leased AND p.ordering_key IS NOT NULL)
			AND ($3::boolean AND (SELECT true` + deadBeforeSQL + `)) IS NOT TRUE))
	ORDER BY o.due_at, o.seq
	LIMIT $1::bigint
	FOR UPDATE OF o SKIP LOCKED
),
taken AS (
	UPDATE {table} AS t SET leased = true, fence = t.fence + 1, attempts = t.attempts + 1,
		first_at = CASE WHEN t.attempts = 0 THEN present.at ELSE t.first_at END,
		due_at = present.at + $2::bigint * interval '1 microsecond'
	FROM picked, present
	WHERE t.seq = picked.seq
	RETURNING picked.due_at AS was_due_at, t.*
)
SELECT edge.more, edge.due_at, edge.seq, t.seq, t.fence, t.attempts, t.id, t.type, t.destination,
	t.ordering_key, t.header::text, t.payload,
	(extract(epoch FROM present.at - t.enqueued_at) * 1000000)::bigint,
	(extract(epoch FROM present.at - t.first_at) * 1000000)::bigint
FROM present CROSS JOIN edge LEFT JOIN taken AS t ON true
ORDER BY t.was_due_at, t.seq`

// parkSQL parks at most $5 of the events that are due between two places and wait behind another one of their key.
// Claims then do not read them. unparkSQL makes each due again when it is the first of its key. The hour or two bounds
// the wait if another program changes the line, for example an operator's DELETE.
//
// An untried event that is first in its line is due, or a transaction that is still open makes it due. That holds
// because an event is parked only while the event before it is locked and waits, until the parking is committed. The
// transactions that settle that event and those in between come after it, one after the other, because the index allows
// one claimed event. The last of them unparks the first event that is left. parkSQL waits for no lock. It leaves events
// that were tried, which have a due time of their own.
const parkSQL = `
WITH seen AS MATERIALIZED (
	SELECT seq, ordering_key FROM {table}
	WHERE state = 1 AND attempts = 0 AND ordering_key IS NOT NULL
		AND (due_at, seq) > (coalesce($1::timestamptz, '-infinity'), $2::bigint)
		AND (due_at, seq) <= ($3::timestamptz, $4::bigint)
	ORDER BY due_at, seq LIMIT $5::bigint
),
front AS MATERIALIZED (
	SELECT seq, ordering_key FROM {table}
	WHERE state = 1 AND seq = ANY (ARRAY(
		SELECT coalesce((SELECT p.seq` + beforeSQL + `), o.seq)
		FROM (SELECT ordering_key, min(seq) AS seq FROM seen GROUP BY ordering_key) AS o))
	FOR SHARE SKIP LOCKED
),
parked AS MATERIALIZED (
	SELECT seq FROM {table}
	WHERE state = 1 AND attempts = 0 AND seq = ANY (ARRAY(
		SELECT s.seq FROM seen AS s JOIN front AS f ON f.ordering_key = s.ordering_key AND f.seq < s.seq))
	FOR UPDATE SKIP LOCKED
)
UPDATE {table} AS t SET due_at = clock_timestamp() + (1 + random()) * interval '1 hour'
FROM parked WHERE t.seq = parked.seq`

// unparkSQL makes the next event behind a settled one due, if it is parked. It must see everything that was committed
// before the settled event was locked. So it is a statement of its own, at read committed: an event may be enqueued and
// parked between the snapshot of a statement and its lock.
const unparkSQL = `
UPDATE {table} AS t SET due_at = clock_timestamp()
FROM (SELECT seq, ordering_key FROM {table} WHERE seq = $1::bigint) AS o
CROSS JOIN LATERAL (SELECT p.seq` + behindSQL + `) AS next
WHERE t.seq = next.seq AND t.attempts = 0 AND t.due_at > clock_timestamp()`

const ownedSQL = ` WHERE seq = $1::bigint AND fence = $2::bigint AND leased`

const extendSQL = `UPDATE {table} SET due_at = clock_timestamp() + $3::bigint * interval '1 microsecond'` + ownedSQL

// settleSQL settles an event.
const settleSQL = `UPDATE {table} SET leased = false, {outcome}` + ownedSQL

// Outcomes of settleSQL.
const (
	sentSQL    = `state = 2, done_at = clock_timestamp()`
	deadSQL    = `state = 3, done_at = clock_timestamp(), code = $3::text, reason = $4::text`
	waitingSQL = `due_at = clock_timestamp() + $3::bigint * interval '1 microsecond',
		code = $4::text, reason = $5::text`
	releasedSQL = `due_at = clock_timestamp(), attempts = attempts - 1`
)

const statsSQL = `
SELECT count(*), coalesce((extract(epoch FROM clock_timestamp() - min(enqueued_at)) * 1000000)::bigint, 0),
	(SELECT count(*) FROM {table} WHERE state = 3)
FROM {table} WHERE state = 1`

const lettersSQL = `
SELECT seq, attempts, id, type, destination, coalesce(ordering_key, ''), header::text, payload, enqueued_at, done_at,
	coalesce(code, ''), coalesce(reason, '')
FROM {table} WHERE state = 3 AND ($1::timestamptz IS NULL OR (done_at, seq) > ($1::timestamptz, $2::bigint))
ORDER BY done_at, seq LIMIT $3::bigint`

const redriveSQL = `
WITH revived AS (
	UPDATE {table} SET state = 1, attempts = 0, first_at = NULL, due_at = clock_timestamp(), done_at = NULL,
		code = NULL, reason = NULL
	WHERE id = $1::text AND state = 3 RETURNING seq
)
SELECT count({count}) FROM revived`

const dropSQL = `
WITH dropped AS (DELETE FROM {table} WHERE id = $1::text AND state = 3 RETURNING seq)
SELECT count({count}) FROM dropped`

// purgeSQL goes to the rows by their places: a join with what the subquery returns may be planned as a scan of the
// whole table for each batch. The rows are locked, so that they stay where they are.
const purgeSQL = `
DELETE FROM {table} WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM {table} 
	WHERE state = 2 AND done_at < (SELECT clock_timestamp()) - $1::bigint * interval '1 microsecond'
	ORDER BY done_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED))`

package pgoutbox

// A template's braces are filled by config.replacer.

// enqueueSQL returns how many rows it added. Its count is of what it selects from the row that was added.
const enqueueSQL = `
WITH added AS (
	INSERT INTO {table} (id, type, destination, ordering_key, header, payload)
	VALUES ($1::text, $2::text, $3::text, nullif($4::text, ''), $5::text::jsonb, $6::bytea)
	ON CONFLICT (id) DO NOTHING RETURNING seq
)
SELECT count({told}) FROM added`

const (
	toldSQL   = `pg_notify({channel}, '')`
	untoldSQL = `seq`
)

// claimSQL takes of each ordering key the event that is under way and whose lease has ended, or else the first one if none
// is under way. Concurrent claims that see different first events, because one was committed in between, meet at the
// unique index of those under way: one of them fails, and is made again.
//
// That a key is not NULL follows from its comparison, and is said again where the planner may drop that: it likes to read
// all that is under way into a table of hashes, and has to find it in the index and not in the whole table.
const claimSQL = `
WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
picked AS MATERIALIZED (
	SELECT o.seq, o.due_at FROM {table} AS o
	WHERE o.state = 1 AND o.due_at <= (SELECT at FROM present)
		AND (o.ordering_key IS NULL OR o.leased OR (
			NOT EXISTS (SELECT FROM {table} AS p WHERE p.ordering_key = o.ordering_key AND p.state = 1 AND p.seq < o.seq)
			AND NOT EXISTS (SELECT FROM {table} AS p WHERE p.ordering_key = o.ordering_key AND p.leased AND p.ordering_key IS NOT NULL)
			AND NOT ($3::boolean AND EXISTS (
				SELECT FROM {table} AS p WHERE p.ordering_key = o.ordering_key AND p.state = 3 AND p.seq < o.seq))))
	ORDER BY o.due_at, o.seq
	LIMIT $1::bigint
	FOR UPDATE OF o SKIP LOCKED
)
UPDATE {table} AS t SET leased = true, fence = t.fence + 1, attempts = t.attempts + 1,
	first_at = CASE WHEN t.attempts = 0 THEN present.at ELSE t.first_at END,
	due_at = present.at + $2::bigint * interval '1 microsecond'
FROM picked, present
WHERE t.seq = picked.seq
RETURNING t.seq, t.fence, t.attempts, t.id, t.type, t.destination, coalesce(t.ordering_key, ''), t.header::text, t.payload,
	picked.due_at, (extract(epoch FROM present.at - t.enqueued_at) * 1000000)::bigint,
	(extract(epoch FROM present.at - t.first_at) * 1000000)::bigint`

const ownedSQL = ` WHERE seq = $1::bigint AND fence = $2::bigint AND leased`

const extendSQL = `UPDATE {table} SET due_at = clock_timestamp() + $3::bigint * interval '1 microsecond'` + ownedSQL

// settleSQL settles an event and lets those behind it know. They rest with an event that rests, so that not every claim has
// to look at each of them: at most 10,000, which takes a moment; when an event is settled otherwise the first of the others
// is due. One that was tried before keeps its own time. So none is put off for good: whoever comes to stand first was
// enqueued or redriven since, was tried itself, or is made due by the one that made room for it.
const settleSQL = `
WITH settled AS (UPDATE {table} SET leased = false, {outcome}` + ownedSQL + ` RETURNING seq, ordering_key, due_at),
others AS ({others})
SELECT count(*) FROM settled`

// Parts of settleSQL.
const (
	sentSQL     = `state = 2, done_at = clock_timestamp()`
	deadSQL     = `state = 3, done_at = clock_timestamp(), code = $3::text, reason = $4::text`
	waitingSQL  = `due_at = clock_timestamp() + $3::bigint * interval '1 microsecond', code = $4::text, reason = $5::text`
	releasedSQL = `due_at = clock_timestamp(), attempts = attempts - 1`

	restSQL = `
	UPDATE {table} AS t SET due_at = f.until FROM (
		SELECT o.seq, s.due_at AS until FROM settled AS s CROSS JOIN LATERAL (
			SELECT p.seq FROM {table} AS p
			WHERE p.ordering_key = s.ordering_key AND p.state = 1 AND p.seq > s.seq AND p.attempts = 0 AND p.due_at < s.due_at
			ORDER BY p.seq LIMIT 10000 FOR UPDATE SKIP LOCKED) AS o) AS f
	WHERE t.seq = f.seq`

	nextSQL = `
	UPDATE {table} AS t SET due_at = clock_timestamp() FROM (
		SELECT o.seq FROM settled AS s CROSS JOIN LATERAL (
			SELECT p.seq FROM {table} AS p WHERE p.ordering_key = s.ordering_key AND p.state = 1 AND p.seq <> s.seq
			ORDER BY p.seq LIMIT 1) AS o) AS f
	WHERE t.seq = f.seq AND t.attempts = 0 AND t.due_at > clock_timestamp()`
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
	UPDATE {table} SET state = 1, attempts = 0, first_at = NULL, due_at = clock_timestamp(), done_at = NULL, code = NULL, reason = NULL
	WHERE id = $1::text AND state = 3 RETURNING seq
)
SELECT count({told}) FROM revived`

const dropSQL = `
WITH dropped AS (DELETE FROM {table} WHERE id = $1::text AND state = 3 RETURNING seq)
SELECT count({told}) FROM dropped`

// purgeSQL goes to the rows by their places: a join with what the subquery returns may be planned as a scan of the whole table
// for each batch. The rows are locked, so that they stay where they are.
const purgeSQL = `
DELETE FROM {table} WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM {table} WHERE state = 2 AND done_at < (SELECT clock_timestamp()) - $1::bigint * interval '1 microsecond'
	ORDER BY done_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED))`

package pgstore

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
	"github.com/redo-go/redo/store/sqltx"
)

// statements holds the texts for one table.
type statements struct {
	table                                string // qualified
	reserve, reserveFreeing              string
	begin, beginFind, beginWrite         string
	settle, settleFreeing, settleOver    string
	extend, release, forget, drop, purge string
	complete, completeLazy               string
	find, pending, within                string
}

func newStatements(t pgtable.Table) statements {
	fill := func(parts ...string) string {
		return t.Fill(strings.NewReplacer(
			"{columns}", columns, "{fence}", fenceSQL, "{sound}", soundSQL("{table}"),
			"{sound f}", soundSQL("f"), "{sound r}", soundSQL("r")).Replace(strings.Join(parts, "")))
	}
	const nothing = "0::bigint, NULL::timestamptz, "
	const write = writeSQL + overSQL
	return statements{
		table:          t.String(),
		reserve:        fill(reserveSQL, write, granting("", "")),
		reserveFreeing: fill(reserveSQL, write, freeing("written", "$10"), granting(nothing, freedSQL+", ")),
		begin:          fill(beginSQL),
		beginFind:      fill(findSQL, beginFindSQL),
		beginWrite:     fill(beginWriteSQL, write, writtenSQL),
		extend:         fill(extendSQL),
		complete:       fill(completeSQL, ownedSQL),
		completeLazy:   fill(lazySQL, completeSQL, ownedSQL, " AND EXISTS (SELECT FROM lazy)"),
		settle:         fill(settleSQL, settled("", nothing)),
		settleOver:     fill(settleSQL, settleOverSQL, settled("", nothing)),
		settleFreeing: fill(settleSQL,
			settled(freeing("settled", "$11", " AND "+readCommittedSQL), freedSQL+", ")),
		release: fill(releaseSQL),
		forget:  fill(forgetSQL),
		find:    fill(findSQL, primarySQL),
		pending: fill(pendingSQL, pendingOrderSQL),
		within:  fill(pendingSQL, " AND scope = $4::bytea", pendingOrderSQL),
		purge:   fill(purgeSQL),
		drop:    fill(dropSQL),
	}
}

// Two advisory locks guard an ID. Both end with their transaction.
//
// turn is held by the session that writes the record: by Reserve for one statement, and by Begin until its transaction
// ends. It is tried before the clock and the fence are read. So fences are drawn in the order in which they are
// written, and no insert waits for an uncommitted row.
//
// open is held by Begin too. A Reserve that does not get the turn tries open. If it gets that, another Reserve is
// writing, and it waits for the turn. Otherwise a transaction holds the ID, and it does not wait.
type locks struct{ turn, open int64 }

// locksOf returns the locks of an ID. Two IDs whose numbers are equal by chance are in flight for each other.
func (q *statements) locksOf(id store.ID) locks {
	var buf [512]byte
	in := append(buf[:0], "redo/pgstore/"...)
	for _, part := range []string{"id", q.table, id.Scope, id.Key} {
		in = append(binary.AppendUvarint(in, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(in)
	return locks{int64(binary.BigEndian.Uint64(sum[:])), int64(binary.BigEndian.Uint64(sum[8:]))}
}

// claimArgs returns the arguments $1 to $9 of the statements that reserve.
func (q *statements) claimArgs(c store.Claim) []any {
	l := q.locksOf(c.ID)
	var owner []byte
	if c.Owner != "" {
		owner = []byte(c.Owner)
	}
	return []any{[]byte(c.ID.Scope), []byte(c.ID.Key), c.Fingerprint[:], l.turn, c.Meta,
		sqltx.Micros(c.Lease), sqltx.Micros(c.Retention), owner, l.open}
}

// Instants come from clock_timestamp(), because now() does not move in a transaction. A duration is a number of
// microseconds: 0 is none, and -1 is Forever.

// reserveSQL reads the record first. If the record refuses the claim, the statement writes, locks and draws nothing, so
// that it has no transaction id. Otherwise it takes the turn: see locks. It waits for the turn for a second at most.
const reserveSQL = `
WITH found AS MATERIALIZED (
	SELECT {columns}, clock_timestamp() AS read_at FROM {table} WHERE scope = $1::bytea AND key = $2::bytea
), refusing AS MATERIALIZED (
	SELECT * FROM found AS f WHERE (expires_at IS NULL OR expires_at > read_at)
		AND (fingerprint <> $3::bytea OR state <> 1 OR lease_until > read_at OR NOT {sound f})
), turn AS MATERIALIZED (
	SELECT CASE
		WHEN EXISTS (SELECT FROM refusing) THEN NULL
		WHEN pg_try_advisory_xact_lock($4::bigint) THEN true
		WHEN NOT pg_try_advisory_xact_lock_shared($9::bigint) THEN false
		WHEN set_config('lock_timeout', '1s', true) IS NOT NULL THEN pg_advisory_xact_lock($4::bigint) IS NOT NULL
	END AS had
)`

// beginSQL takes both locks of an ID for a transaction, and draws a fence if it has them. It returns the fence, the
// start of the transaction, the time, and whether beginFindSQL reads. It fails on a standby: see primarySQL.
const beginSQL = `
SELECT CASE WHEN pg_try_advisory_xact_lock($1::bigint) THEN
		CASE WHEN pg_try_advisory_xact_lock($2::bigint) THEN {fence} END END,
	now(), clock_timestamp(),
	CASE WHEN pg_is_in_recovery() THEN txid_current() IS NULL ELSE ` + readCommittedSQL + ` END`

// beginFindSQL reads the record that is present. A statement after the locks sees everything that was committed under
// them only if the isolation is read committed. Under serializable isolation it would also lock a page of the index,
// and transactions of different IDs would fail to serialize. With another isolation it reads nothing.
const (
	beginFindSQL     = ` AND ` + readCommittedSQL
	readCommittedSQL = `current_setting('transaction_isolation') = 'read committed'`
)

// fenceSQL draws a fence: a number of the sequence and 16 random bits. A standby that was behind when it was promoted
// draws numbers again. The random bits keep a lost owner's lease from fitting the record.
const fenceSQL = `nextval({'fence}::regclass) * 65536 + floor(random() * 65536)::bigint`

// writeSQL draws a fence and writes the record.
const writeSQL = `, drawn AS MATERIALIZED (
	SELECT clock_timestamp() AS instant, {fence} AS fence FROM turn WHERE had
), written AS (
	INSERT INTO {table} AS r
		(scope, key, fingerprint, state, meta, owner, fence, born, lease_until, created_at, expires_at)
	SELECT $1::bytea, $2::bytea, $3::bytea, 1, $5::bytea, $8::bytea, fence, fence,
		CASE WHEN $6::bigint > 0 THEN instant + $6::bigint * interval '1 microsecond' END,
		instant,
		CASE WHEN $7::bigint > 0 THEN instant + greatest($6::bigint, $7::bigint) * interval '1 microsecond' END
	FROM drawn
	ON CONFLICT (scope, key) DO UPDATE SET`

// overSQL overwrites an expired record, or takes a pending one over. The row is judged again, as it is now. born
// distinguishes the two: it is the fence under which the record was made.
const overSQL = `
		fingerprint = excluded.fingerprint, state = 1, result = NULL, owner = excluded.owner, format = excluded.format,
		meta = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.meta ELSE r.meta END,
		fence = excluded.fence,
		born = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.born ELSE r.born END,
		lease_until = excluded.lease_until,
		created_at = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.created_at ELSE r.created_at END,
		expires_at = excluded.expires_at
	WHERE r.expires_at <= excluded.created_at
		OR r.fingerprint = excluded.fingerprint AND r.state = 1
			AND (r.lease_until IS NULL OR r.lease_until <= excluded.created_at) AND {sound r}
	RETURNING {columns}
)`

// grantSQL returns whether the claim owns the record, and the record that refuses the claim or was written. There is no
// row if a transaction holds the ID, or if another session wrote the record meanwhile: heldSQL distinguishes them.
const grantSQL = `
SELECT false, {none}* FROM refusing UNION ALL SELECT true, {freed}{columns}, clock_timestamp() FROM written`

func granting(none, freed string) string {
	return strings.NewReplacer("{none}", none, "{freed}", freed).Replace(grantSQL)
}

// heldSQL reports whether an open transaction holds the ID with the lock.
const heldSQL = `SELECT NOT pg_try_advisory_xact_lock_shared($1::bigint)`

// beginWriteSQL is for a transaction that has the locks: it gets them again.
const beginWriteSQL = `
WITH turn AS MATERIALIZED (
	SELECT pg_try_advisory_xact_lock($4::bigint) AND pg_try_advisory_xact_lock($9::bigint) AS had
)`

// writtenSQL returns whether the claim has written the record, and the record that was written or is present.
const writtenSQL = `
SELECT true, {columns}, clock_timestamp() FROM written UNION ALL
SELECT false, {columns}, clock_timestamp() FROM {table}
WHERE scope = $1::bytea AND key = $2::bytea AND NOT EXISTS (SELECT FROM written)`

// freeSQL deletes up to two expired records after a write, whose rows {after} names. It waits for no lock, and comes
// after the statement's own locks, so that it can't be part of a deadlock. {where} is for a user's transaction, which
// it must not make fail to serialize. It begins at the instant {from}: under a snapshot that another session holds, a
// scan from the beginning would pass all index entries that were deleted since.
const freeSQL = `, expired AS MATERIALIZED (
	SELECT scope, key, expires_at FROM {table}
	WHERE EXISTS (SELECT FROM {after}) AND expires_at BETWEEN {from}::timestamptz AND (SELECT clock_timestamp())
		AND (lease_until IS NULL OR lease_until <= clock_timestamp()) AND (scope, key) <> ($1::bytea, $2::bytea){where}
	ORDER BY expires_at LIMIT 2 FOR UPDATE SKIP LOCKED
), freed AS (
	DELETE FROM {table} AS r USING expired AS e WHERE r.scope = e.scope AND r.key = e.key
)`

func freeing(after, from string, where ...string) string {
	return strings.NewReplacer("{after}", after, "{from}", from, "{where}", strings.Join(where, "")).Replace(freeSQL)
}

const freedSQL = `(SELECT count(*) FROM expired), (SELECT max(expires_at) FROM expired)`

// ownedSQL holds for the pending record of a lease's owner, whether the lease has ended or not.
const ownedSQL = `r.scope = $1::bytea AND r.key = $2::bytea AND r.fence = $3::bigint AND r.state = 1
	AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())`

// extendSQL: greatest() ignores NULL, which here means never.
const extendSQL = `
UPDATE {table} AS r SET
	lease_until = CASE WHEN $4::bigint > 0 THEN clock.instant + $4::bigint * interval '1 microsecond' END,
	meta = coalesce($5::bytea, r.meta),
	expires_at = CASE WHEN r.expires_at IS NOT NULL AND $4::bigint > 0
		THEN greatest(r.expires_at, clock.instant + $4::bigint * interval '1 microsecond') ELSE r.expires_at END
FROM (SELECT clock_timestamp() AS instant OFFSET 0) AS clock
WHERE ` + ownedSQL

// completeSQL changes no column of an index unless the outcome has a retention, so that it is a HOT update.
const completeSQL = `
UPDATE {table} AS r SET state = $4::smallint, result = $5::bytea, owner = NULL, lease_until = NULL,
	expires_at = CASE $6::bigint WHEN 0 THEN r.expires_at WHEN -1 THEN NULL
		ELSE clock_timestamp() + $6::bigint * interval '1 microsecond' END
WHERE `

// settleSQL writes the record of a transaction when it ends, so that a new record is written once. The start of the
// transaction distinguishes it from one that its user has begun. If a rule is broken, a division by zero fails, and so
// does the COMMIT behind it.
const settleSQL = `
WITH settled AS (INSERT INTO {table} AS r (scope, key, fingerprint, state, result, fence, born, created_at, expires_at)
VALUES ($1::bytea, $2::bytea, $7::bytea,
	$4::smallint / (now() = $10::timestamptz AND coalesce($9::timestamptz > clock_timestamp(), true))::int,
	$5::bytea, $3::bigint, $3::bigint, $8::timestamptz,
	CASE $6::bigint WHEN 0 THEN $9::timestamptz WHEN -1 THEN NULL
		ELSE clock_timestamp() + $6::bigint * interval '1 microsecond' END)`

// settleOverSQL settles a record that Begin has written. It is present under the same fence.
const settleOverSQL = `
ON CONFLICT (scope, key) DO UPDATE SET
	state = excluded.state / (r.fence = excluded.fence)::int, result = excluded.result,
	owner = NULL, lease_until = NULL, expires_at = excluded.expires_at`

// settled ends the statement, which returns the result of a search for expired records, and changedSQL. It divides by
// the number of records that were written: a trigger can drop one without an error.
func settled(freeing, freed string) string {
	return " RETURNING 1)" + freeing + " SELECT " + freed + "1 / (SELECT count(*) FROM settled), " + changedSQL
}

// changedSQL reports whether a user's SET would make later calls of the session lose their records in a crash, or be
// refused. A SET LOCAL looks the same.
const changedSQL = `current_setting('synchronous_commit') = 'off'
	OR current_setting('default_transaction_read_only') = 'on'`

// lazySQL makes the commit of the statement's transaction asynchronous.
const lazySQL = `WITH lazy AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))`

const releaseSQL = `DELETE FROM {table} AS r WHERE ` + ownedSQL

const forgetSQL = `
DELETE FROM {table} WHERE scope = $1::bytea AND key = $2::bytea AND fence = $3::bigint AND state <> 1
	AND (expires_at IS NULL OR expires_at > clock_timestamp())`

const dropSQL = `
DELETE FROM {table} AS r WHERE scope = $1::bytea AND key = $2::bytea AND format <= 1 AND NOT {sound r}
	AND (expires_at IS NULL OR expires_at > clock_timestamp())`

// primarySQL makes a read fail on a standby, whose records may be out of date: txid_current() is refused there, and is
// not called on a primary. As a subquery it is evaluated once, and also if no row is found.
const primarySQL = ` AND (SELECT CASE WHEN pg_is_in_recovery() THEN txid_current() IS NULL ELSE true END)`

const findSQL = `
SELECT {columns}, clock_timestamp() FROM {table} WHERE scope = $1::bytea AND key = $2::bytea`

// pendingSQL reads the IDs of a page after a position, of records that were made before the list began: a loop that
// makes records would not end otherwise. It reads the table, or the records of one scope. There is no index of pending
// records, because every completion would then change it.
const (
	pendingSQL = `
SELECT created_at, born, scope, key, clock_timestamp() FROM {table}
WHERE state = 1 AND (created_at, born) > ($1::timestamptz, $2::bigint) AND created_at <= $3::timestamptz` + primarySQL
	pendingOrderSQL = ` ORDER BY created_at, born LIMIT 10000`
)

// purgeSQL reads the clock in a subquery, because a volatile expression can't bound an index scan. It deletes the rows
// by their places, which are unique within a partition. The constant limit is that of a batch of sqltx.Purge.
// Behind a parameter the planner would expect a share of the table, and read the whole table for the join. The rows
// are locked, so that they stay in their places.
const purgeSQL = `
WITH expired AS MATERIALIZED (
	SELECT tableoid AS part, ctid AS place FROM {table}
	WHERE expires_at <= (SELECT clock_timestamp()) AND (lease_until IS NULL OR lease_until <= clock_timestamp())
	ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
)
DELETE FROM {table} AS r USING (SELECT part, place FROM expired LIMIT $1::bigint) AS e
WHERE r.ctid = e.place AND r.tableoid = e.part`

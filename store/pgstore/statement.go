package pgstore

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements holds the text of every transition for one table. Each is complete in itself, so that it can run on a
// connection, in a transaction of its own, or inside somebody else's.
type statements struct {
	table                                  string // qualified
	reserve, reserveNext, reserveHeld      string
	extend, release, forget                string
	complete, completeHeld, completeLazy   string
	completeNobodys                        string
	find, watch, pending, pendingIn, purge string
	drop                                   string
}

// newStatements writes the names into the texts, which hold no other braces.
func newStatements(schema, table string) statements {
	names := replacer(schema, table)
	return statements{
		table:           names.Replace("{table}"),
		reserve:         names.Replace(strings.Replace(reserveSQL, "{turn}", tryTurnSQL, 1)),
		reserveNext:     names.Replace(strings.Replace(reserveSQL, "{turn}", waitTurnSQL, 1)),
		reserveHeld:     names.Replace(reserveHeldSQL),
		extend:          names.Replace(extendSQL),
		complete:        names.Replace(completeSQL + ownedSQL),
		completeHeld:    names.Replace(completeSQL + heldSQL),
		completeNobodys: names.Replace(strings.Replace(completeSQL, "SET ", "SET fence = "+drawSQL+", ", 1) + ownedSQL),
		completeLazy:    names.Replace(lazySQL + completeSQL + ownedSQL + " AND EXISTS (SELECT FROM lazy)"),
		release:         names.Replace(releaseSQL),
		forget:          names.Replace(forgetSQL),
		find:            names.Replace(findSQL),
		watch:           names.Replace(watchSQL),
		pending:         names.Replace(pendingSQL + pendingOrderSQL),
		pendingIn:       names.Replace(pendingSQL + " AND scope = $4::bytea" + pendingOrderSQL),
		purge:           names.Replace(purgeSQL),
		drop:            names.Replace(dropSQL),
	}
}

func replacer(schema, table string) *strings.Replacer {
	qualified := func(suffix string) string { return pgx.Identifier{schema, table + suffix}.Sanitize() }
	return strings.NewReplacer(
		"{table}", qualified(""),
		"{pkey}", pgx.Identifier{table + "_pkey"}.Sanitize(),
		"{pending}", pgx.Identifier{table + "_pending"}.Sanitize(),
		"{expiry}", pgx.Identifier{table + "_expiry"}.Sanitize(),
		"{fence}", qualified("_fence"),
		"{fence text}", literal(qualified("_fence")),
		"{marker}", literal(marker),
		"{sound}", soundSQL(""),
		"{sound r}", soundSQL("r."),
	)
}

// soundSQL is the condition that a row can be read, by the rules of row.record. of qualifies the columns: it is empty,
// or an alias and a dot.
func soundSQL(of string) string {
	return strings.ReplaceAll(`coalesce(octet_length(.fingerprint) = 33 AND .state BETWEEN 1 AND 3 AND .fence > 0
		AND isfinite(.created_at) AND isfinite(coalesce(.lease_until, .created_at))
		AND isfinite(coalesce(.expires_at, .created_at)), false)`,
		".", of)
}

// literal quotes a string. A backslash is read in one way only with the E, whatever standard_conforming_strings is.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// Instants come from clock_timestamp(): now() stands still within a transaction. It is taken once where two
// expressions have to agree on it.
//
// Durations come as microseconds: zero and -1 are the cases that a duration has beside its length.

// reserveSQL looks first: where a record stands in the way nothing is written, locked or drawn, so that no
// transaction id is assigned. Only otherwise may it be the claim's turn. Zero rows mean that somebody else wrote
// between the look and the write; the next look sees it.
//
// The turn is a lock on the ID, told of at [lock]. The clock and the fence are read when it is had. Zero rows also mean
// that it was not.
//
// On conflict the row is judged again, as it is now. An expired one is overwritten whole, and is told from a
// take-over by its birth: born is the fence that the record was made under.
const reserveSQL = `
WITH look AS MATERIALIZED (
	SELECT fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at, clock_timestamp() AS read_at
	FROM {table} WHERE scope = $1::bytea AND key = $2::bytea
), standing AS MATERIALIZED (
	SELECT * FROM look
	WHERE (expires_at IS NULL OR expires_at > read_at)
		AND (fingerprint <> $3::bytea OR state <> 1 OR lease_until > read_at OR NOT {sound})
), turn AS MATERIALIZED (
	SELECT CASE WHEN NOT EXISTS (SELECT FROM standing) THEN {turn} END AS had
` + writeSQL + `
SELECT false, fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at, read_at FROM standing
UNION ALL
SELECT true, fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at, clock_timestamp() FROM written`

// The turn is tried, and waited for only behind another Reserve, which has it for a statement. Should a transaction that
// stays open come in between, the wait is given up.
const (
	tryTurnSQL  = `pg_try_advisory_xact_lock($4::bigint)`
	waitTurnSQL = `CASE WHEN set_config('lock_timeout', '1s', true) IS NOT NULL THEN pg_advisory_xact_lock($4::bigint) IS NOT NULL END`
)

// reserveHeldSQL is reserveSQL for a transaction that stays open, whose caller has looked already. A look in it would
// lock the index's page under serializable isolation, and transactions of different IDs would fail for each other's sake;
// so would a search for the row when it is settled, which is why its place is returned. The label is taken once the row is
// written, and is had by everybody who tries. The transaction's own number tells what became of it, see fateSQL.
const reserveHeldSQL = `
WITH turn AS MATERIALIZED (
	SELECT pg_try_advisory_xact_lock($4::bigint) AS had
` + writeSQL + `
SELECT place::text, pg_current_xact_id()::text, fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at,
	CASE WHEN pg_try_advisory_xact_lock_shared($8::integer, $9::integer) IS NOT NULL THEN clock_timestamp() END FROM written`

// drawSQL draws a fence: a place in the sequence and 16 bits of chance. A standby that was behind when it was promoted draws
// places again that the lost primary gave out: the lease of an owner who is lost must not fit the record of another.
const drawSQL = `nextval({fence text}::regclass) * 65536 + floor(random() * 65536)::bigint`

const writeSQL = `), drawn AS MATERIALIZED (
	SELECT clock_timestamp() AS instant, ` + drawSQL + ` AS fence
	FROM turn WHERE had
), written AS (
	INSERT INTO {table} AS r (scope, key, fingerprint, state, meta, fence, born, lease_until, created_at, expires_at)
	SELECT $1::bytea, $2::bytea, $3::bytea, 1, $5::bytea, fence, fence,
		CASE WHEN $6::bigint > 0 THEN instant + $6::bigint * interval '1 microsecond' END,
		instant,
		CASE WHEN $7::bigint > 0 THEN instant + greatest($6::bigint, $7::bigint) * interval '1 microsecond' END
	FROM drawn
	ON CONFLICT (scope, key) DO UPDATE SET
		fingerprint = excluded.fingerprint, state = 1, result = NULL,
		meta = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.meta ELSE r.meta END,
		fence = excluded.fence,
		born = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.born ELSE r.born END,
		lease_until = excluded.lease_until,
		created_at = CASE WHEN r.expires_at <= excluded.created_at THEN excluded.created_at ELSE r.created_at END,
		expires_at = excluded.expires_at
	WHERE r.expires_at <= excluded.created_at
		OR r.fingerprint = excluded.fingerprint AND r.state = 1
			AND (r.lease_until IS NULL OR r.lease_until <= excluded.created_at) AND {sound r}
	RETURNING ctid AS place, fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at
)`

// ownedSQL holds for the pending record of a lease's owner, lease ended or not.
const ownedSQL = `r.scope = $1::bytea AND r.key = $2::bytea AND r.fence = $3::bigint AND r.state = 1
	AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())`

// extendSQL: greatest() passes over NULL, which here means never.
const extendSQL = `
UPDATE {table} AS r SET
	lease_until = CASE WHEN $4::bigint > 0 THEN clock.instant + $4::bigint * interval '1 microsecond' END,
	meta = coalesce($5::bytea, r.meta),
	expires_at = CASE WHEN r.expires_at IS NOT NULL AND $4::bigint > 0
		THEN greatest(r.expires_at, clock.instant + $4::bigint * interval '1 microsecond') ELSE r.expires_at END
FROM (SELECT clock_timestamp() AS instant OFFSET 0) AS clock
WHERE ` + ownedSQL

const completeSQL = `
UPDATE {table} AS r SET state = $4::smallint, result = $5::bytea, lease_until = NULL,
	expires_at = CASE $6::bigint WHEN 0 THEN r.expires_at WHEN -1 THEN NULL
		ELSE clock_timestamp() + $6::bigint * interval '1 microsecond' END
WHERE `

// heldSQL is ownedSQL in the transaction that has written the row, where nobody else can have moved it.
const heldSQL = `r.ctid = $7::text::tid AND pg_current_xact_id_if_assigned() = $8::text::xid8 AND ` + ownedSQL

// fateSQL asks for the fate of a transaction. It is NULL of one that is older than the server remembers.
const fateSQL = `SELECT coalesce(pg_xact_status($1::text::xid8), '')`

// lazySQL, before an update that refers to it, makes the transaction's commit asynchronous. It must not run in
// somebody else's.
const lazySQL = `WITH lazy AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))`

const releaseSQL = `DELETE FROM {table} AS r WHERE ` + ownedSQL

const forgetSQL = `
DELETE FROM {table} WHERE scope = $1::bytea AND key = $2::bytea AND fence = $3::bigint AND state <> 1
	AND (expires_at IS NULL OR expires_at > clock_timestamp())`

// dropSQL deletes a damaged row. It returns whether it did, and whether the row was sound before, NULL if there was
// none. Both are false if another session deleted the damaged row first.
const dropSQL = `
WITH dropped AS (
	DELETE FROM {table} WHERE scope = $1::bytea AND key = $2::bytea AND NOT {sound}
		AND (expires_at IS NULL OR expires_at > clock_timestamp()) RETURNING true
)
SELECT EXISTS (SELECT FROM dropped), (SELECT {sound} FROM {table} WHERE scope = $1::bytea AND key = $2::bytea
	AND (expires_at IS NULL OR expires_at > clock_timestamp()))`

// primarySQL makes a read fail on a standby as a write does, whose answer may have been overtaken: txid_current() is refused
// there, and not called on the primary. In a subquery it is looked at once, and where no row is found as well.
const primarySQL = ` AND (SELECT CASE WHEN pg_is_in_recovery() THEN txid_current() IS NULL ELSE true END)`

// Whether what a read finds has expired is judged by the instant that it returns.
const findSQL = `
SELECT fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at, clock_timestamp()
FROM {table} WHERE scope = $1::bytea AND key = $2::bytea` + primarySQL

const watchSQL = `
SELECT state = 1, fence, expires_at, clock_timestamp()
FROM {table} WHERE scope = $1::bytea AND key = $2::bytea` + primarySQL

// pendingSQL reads a page after a position, of what was made before the list began: a loop that makes records
// would else never end.
const pendingSQL = `
SELECT scope, key, fingerprint, state, result, meta, fence, born, lease_until, created_at, expires_at, clock_timestamp()
FROM {table} WHERE state = 1 AND (created_at, born) > ($1::timestamptz, $2::bigint) AND created_at <= $3::timestamptz` + primarySQL

const pendingOrderSQL = ` ORDER BY created_at, born LIMIT 64`

// purgeSQL takes the clock in a subquery, since a volatile expression can't bound an index scan. A record never
// expires before its lease ends; the lease is looked at all the same, as the last thing before a deletion.
const purgeSQL = `
DELETE FROM {table} WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM {table}
	WHERE expires_at <= (SELECT clock_timestamp()) AND (lease_until IS NULL OR lease_until <= clock_timestamp())
	ORDER BY expires_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED))`

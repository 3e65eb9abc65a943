package mysqlstore

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/redo-go/redo/store"
)

const (
	columns = `fingerprint, NULLIF(state,0), result, meta, owner, ` + fenceOf + `, lease_until, created_at, expires_at`
	// fenceOf has random bits, because a server that is restored, or promoted too early, gives numbers out again.
	fenceOf = `GREATEST(fence, id * 65536 + MOD(fence, 65536))`
	// readOnly is true for each value but OFF: MariaDB 12 has more than two.
	readOnly = `(CONCAT(@@read_only) NOT IN ('OFF', '0') OR @@innodb_read_only)`
	// nowSQL is the server's clock in microseconds. No time zone plays a part.
	nowSQL  = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	commits = ` AND @@autocommit AND @@completion_type = 'NO_CHAIN'`
	// isolation reads a variable whose name differs. MariaDB and MySQL each take the name of the other for a comment.
	isolation = `/*!50720 @@transaction_isolation */ /*M! @@tx_isolation */`
	// fits is false if the session has another clock, takes '' for NULL, reads uncommitted rows, or does not autocommit.
	fits = `ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())) < 60 AND @@sql_mode NOT LIKE '%EMPTY_STRING%'
	AND ` + isolation + ` <> 'READ-UNCOMMITTED'` + commits
	// lockSQL names the lock of an open transaction. Names are common to all databases of a server.
	lockSQL = `SHA2(CONCAT(DATABASE(), '.', ?), 256)`
	ofID    = ` WHERE scope = ? AND id_key = ?`
	ofLease = ofID + ` AND ` + fenceOf + ` = ? AND (expires_at IS NULL OR expires_at > {now})`
	ofOwner = ofLease + ` AND state = 1`
	// removed leaves the row for an hour: an INSERT whose number is older finds it, and draws another.
	removed = `UPDATE {t} SET state = 0, fingerprint = '', result = NULL, meta = NULL, owner = '', lease_until = NULL,
	expires_at = {now} + 3600000000, revision = revision + 1` + ofLease
)

// statements are the texts for one table.
type statements struct {
	find, insert, lockRow, draw, own, hold, unhold                  string
	complete, extend, release, forget, drop, free, expired, pending string
}

func newStatements(table string) statements {
	on := strings.NewReplacer("{t}", quoted(table), "{now}", nowSQL, "{lock}", lockSQL, "{cols}", columns).Replace
	return statements{
		find: on(`SELECT IF(` + fits + `, {now}, NULL), @@max_allowed_packet,
	IS_USED_LOCK({lock}) IS NOT NULL, EXISTS (SELECT 1 FROM {t} WHERE expires_at <= {now}),
	r.id IS NOT NULL, {cols} FROM (SELECT 1 AS one) AS o LEFT JOIN {t} AS r ON r.scope = ? AND r.id_key = ?`),
		insert: on(`INSERT INTO {t} (scope, id_key, fingerprint, meta, owner, lease_until, created_at, expires_at,
	state, fence, revision) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, 0)`),
		lockRow: on(`SELECT {now}, @@max_allowed_packet, {lock} IS NULL, 0, 1, {cols}
	FROM {t}` + ofID + ` FOR UPDATE`), // find's columns
		draw: on(`INSERT INTO {t} (scope, id_key, fingerprint, state, owner, fence, revision, created_at)
	VALUES (?, '', '', 0, '', 0, 0, 0)`),
		own: on(`UPDATE {t} SET revision = revision + 1, owner = ?, fence = ?, lease_until = ?, expires_at = ?,
	state = 1, fingerprint = ?, result = NULL, meta = ?, created_at = ?` + ofID),
		hold:   on(`SELECT COALESCE(GET_LOCK({lock}, 0), 0) <> 1`),
		unhold: on(`SELECT RELEASE_LOCK({lock}) IS NOT NULL AND ` + fits),
		complete: on(`UPDATE {t} SET state = ?, result = ?, owner = '', lease_until = NULL, revision = revision + 1,
	expires_at = CASE ? WHEN 0 THEN expires_at WHEN -1 THEN NULL ELSE {now} + ? END` + ofOwner),
		extend: on(`UPDATE {t} SET revision = revision + 1, meta = COALESCE(?, meta),
	lease_until = IF(? = 0, NULL, {now} + ?), expires_at = GREATEST(expires_at, {now} + ?)` + ofOwner + commits),
		release: on(removed + ` AND state = 1` + commits),
		forget:  on(removed + ` AND state IN (2, 3)` + commits),
		drop:    on(`DELETE FROM {t}` + ofID),
		free:    on(`DELETE FROM {t} WHERE id IN (?`),
		expired: on(`SELECT id FROM {t} WHERE expires_at <= {now} ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED`),
		pending: on(`SELECT {now}, (SELECT MAX(created_at) FROM {t} WHERE state = 1), id, scope, id_key, {cols} FROM {t}
	WHERE state = 1 AND (created_at > ? OR created_at = ? AND id > ?) AND created_at <= ?
	AND (expires_at IS NULL OR expires_at > {now}) AND (? = '' OR scope = ?) ORDER BY created_at, id LIMIT ?`),
	}
}

// lockOf returns the last part of the name of an ID's lock.
func (s *Store) lockOf(id store.ID) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %q %q", s.table, id.Scope, id.Key)))
}

package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
)

// Reasons for which a table or a record can't be used. Each is found with errors.Is beside [store.ErrUnavailable].
var (
	// ErrNoTable: the table, or its schema, does not exist.
	ErrNoTable = pgtable.ErrNoTable
	// ErrForeign: the table is not one of this package's, or was changed by another program. It is left alone.
	ErrForeign = pgtable.ErrForeign
	// ErrVersion: this release does not work with the version of the table, or a later release wrote the record.
	ErrVersion = pgtable.ErrVersion
	// ErrStandby: the server is a standby, or its transactions are read-only by default. Records must be read and
	// written on the primary.
	ErrStandby = pgtable.ErrStandby
)

// steps are the migrations. Each must leave a table that the release before can read and write: see [Migration].
//
// The primary key holds the longest ID: 2 KiB of the 2.6 that fit an index page. A record is updated once or twice, so
// that vacuum must come before a fifth of a large table has changed.
//
// Version 2 drops the index of pending records: its predicate named the state, so that no completion was a HOT update.
// The fill factor leaves room for that update on the record's own page.
var steps = []string{`CREATE TABLE {table} (
	scope       bytea       NOT NULL,
	key         bytea       NOT NULL,
	fingerprint bytea       NOT NULL CHECK (octet_length(fingerprint) = 33),
	state       smallint    NOT NULL CHECK (state BETWEEN 1 AND 3), -- pending, complete, failed
	result      bytea,
	meta        bytea,
	fence       bigint      NOT NULL, -- of the owner, from the sequence
	born        bigint      NOT NULL, -- the fence that the record was made under
	lease_until timestamptz, -- NULL: no lease
	created_at  timestamptz NOT NULL,
	expires_at  timestamptz, -- NULL: never
	CONSTRAINT {_pkey} PRIMARY KEY (scope, key)
);
ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX {_pending} ON {table} (created_at, born) WHERE state = 1;
CREATE INDEX {_expiry} ON {table} (expires_at) WHERE expires_at IS NOT NULL;
CREATE SEQUENCE {.fence} AS bigint CACHE 1 NO CYCLE OWNED BY {table}.fence;
`, `ALTER TABLE {table}
	ADD COLUMN owner bytea, -- of the claim, while the record is pending
	ADD COLUMN format smallint NOT NULL DEFAULT 1; -- a release refuses a record of a later format
ALTER TABLE {table} SET (fillfactor = 80);
DROP INDEX {.pending};
`}

// Migration returns the SQL that makes the table, its indexes and its sequence, for the program's own migration tool.
// Apply it in one transaction. It fails if the table exists. The schema must exist. The role that uses the store needs
// SELECT, INSERT, UPDATE and DELETE on the table and USAGE on the sequence, whose name is the table's and "_fence".
func Migration(opts ...Option) (string, error) { return MigrationFrom(0, opts...) }

// MigrationFrom returns the SQL that makes this release's table out of that of an earlier version, which is the number
// at the end of the table's comment. The SQL is "" if nothing is to be done.
//
// A release works with its own version and with the next one. So migrate first, and replace the processes afterwards:
// the old ones go on with the new table.
func MigrationFrom(version int, opts ...Option) (string, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return "", err
	}
	return cfg.records().Migration(version)
}

// records returns the table of records.
func (c config) records() pgtable.Table {
	return pgtable.Table{
		Package: "pgstore", Schema: c.schema, Name: c.table, Steps: steps,
		Privileges: []string{"SELECT", "INSERT", "UPDATE", "DELETE"},
	}
}

// Migrate makes the table if there is none, brings one of an earlier version to this release's, and checks it as Check
// does. Each version is one transaction, which waits for a lock on the table no longer than 100 ms at a time:
// statements of other processes go on. Any number of processes may call Migrate at a time. It returns an error that
// wraps [ErrForeign], and changes nothing, if the table is not one of this package's.
func (s *records) Migrate(ctx context.Context) error {
	if err := s.table.Migrate(ctx, s.with); err != nil {
		return err
	}
	return s.Check(ctx)
}

// noUniqueIndex is the SQLSTATE of an ON CONFLICT clause without a unique index.
const noUniqueIndex = "42P10"

// sequenceSQL returns no row if the fences could go back.
const sequenceSQL = `
SELECT has_sequence_privilege(q.seqrelid, 'USAGE')
FROM pg_catalog.pg_sequence AS q JOIN pg_catalog.pg_class AS c ON c.oid = q.seqrelid
WHERE c.oid = to_regclass($1::text) AND c.relpersistence = 'p'
	AND q.seqincrement = 1 AND q.seqcache = 1 AND NOT q.seqcycle`

// Check implements [store.Checker]. It returns nil if the server is a primary whose transactions may write, and the
// table fits. The table, its partitions and its sequence must be logged, and synchronous_commit must not be off. The
// table must be open to the role, without row security for it, and of this release's version or the next. Its errors
// wrap store.ErrUnavailable, and one of [ErrNoTable], [ErrForeign], [ErrVersion] and [ErrStandby] if that is the
// reason.
func (s *records) Check(ctx context.Context) error {
	if err := s.table.Check(ctx, s.with); err != nil {
		return err
	}
	var usable *bool
	var asynchronous bool
	err := s.run(ctx, false, func(on *pgx.Conn) error {
		// This plans a Reserve, and fails unless the columns and the primary key exist.
		if _, err := on.Exec(ctx, "EXPLAIN "+s.sql.reserve, s.sql.claimArgs(store.Claim{})...); err != nil {
			return err
		}
		return on.QueryRow(ctx, "SELECT current_setting('synchronous_commit') = 'off', ("+sequenceSQL+")",
			s.table.Fill("{.fence}")).Scan(&asynchronous, &usable)
	})
	switch {
	case pgtable.Code(err) == noUniqueIndex:
		return s.table.Unfit(ErrForeign, "its primary key (scope, key) is missing or was changed: %w", err)
	case err != nil:
		return err
	case usable == nil:
		return s.table.Unfit(ErrForeign, "its sequence %q is missing or was changed: it must be logged and count by 1, "+
			"without a cache or a cycle", s.table.Name+"_fence")
	case asynchronous:
		return s.table.Unfit(store.ErrUnavailable, "synchronous_commit is off, so that a crash would lose acknowledged "+
			"records: set it for the role, or in the connection string")
	case !*usable:
		return s.table.Unfit(store.ErrUnavailable, "USAGE on the sequence %q is needed", s.table.Name+"_fence")
	}
	return nil
}

package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
)

// marker is the table's comment. It tells this package's tables, and their versions, from others.
const (
	markerOf = "redo pgstore "
	version  = "1"
	marker   = markerOf + version
)

// migrationSQL makes everything or, in a transaction, nothing. The primary key holds the longest ID: 2 KiB of a
// page's 2.6. Rows are updated twice in their life, so that vacuum has to come sooner than after a fifth of a
// large table.
const migrationSQL = `CREATE TABLE {table} (
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
	CONSTRAINT {pkey} PRIMARY KEY (scope, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX {pending} ON {table} (created_at, born) WHERE state = 1;
CREATE INDEX {expiry} ON {table} (expires_at) WHERE expires_at IS NOT NULL;
CREATE SEQUENCE {fence} AS bigint CACHE 1 NO CYCLE OWNED BY {table}.fence;
COMMENT ON TABLE {table} IS {marker};
`

// Migration returns the SQL that makes the table, its indexes and its sequence, to be read or applied by the program's
// own migration tool, in one transaction. It fails where a table of that name exists. The schema must exist. Who
// uses the store needs SELECT, INSERT, UPDATE and DELETE on the table and USAGE on the sequence, whose name is the
// table's and "_fence".
func Migration(opts ...Option) (string, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return "", err
	}
	return replacer(cfg.schema, cfg.table).Replace(migrationSQL), nil
}

// Migrate makes the table where there is none, and otherwise checks it as Check does. Any number of processes may
// call it at a time. It returns an error that wraps [ErrForeign] or [ErrVersion], and changes nothing, where
// the table is not one of this version's.
func (s *records) Migrate(ctx context.Context) error {
	err := s.Check(ctx)
	if !errors.Is(err, ErrNoTable) {
		return err
	}
	// Commands sent as one text are one transaction. The lock makes processes that start together wait for the first.
	name := digest("migration", s.name())
	turn := fmt.Sprintf("SELECT pg_advisory_xact_lock(%d);\n", int64(binary.BigEndian.Uint64(name[:])))
	text := turn + replacer(s.schema, s.table).Replace(migrationSQL)
	err = s.run(ctx, true, func(on session) error {
		_, err := on.exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == duplicateTable {
			return nil // another process was first
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.Check(ctx)
}

// checkSQL finds the table whatever its kind, and says what can be said without reading it.
const checkSQL = `
SELECT pg_is_in_recovery(),
	EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text),
	c.oid IS NOT NULL,
	coalesce(c.relkind::text, ''),
	coalesce(c.relpersistence::text, ''),
	coalesce(obj_description(c.oid, 'pg_class'), ''),
	coalesce(has_schema_privilege(c.relnamespace, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
		AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE')
		AND has_table_privilege(c.oid, 'DELETE'), false),
	coalesce(q.seqincrement = 1 AND q.seqcache = 1 AND NOT q.seqcycle, false),
	coalesce(has_sequence_privilege(q.seqrelid, 'USAGE'), false)
FROM (VALUES (1)) AS one
LEFT JOIN pg_catalog.pg_class AS c ON c.relname = $2::text
	AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1::text)
LEFT JOIN pg_catalog.pg_sequence AS q ON q.seqrelid = (
	SELECT oid FROM pg_catalog.pg_class WHERE relname = $3::text AND relkind = 'S' AND relnamespace = c.relnamespace)`

// A finding is what checkSQL returns.
type finding struct {
	standby, schema, table    bool
	kind, persistence, marker string
	granted, sequence, drawn  bool
}

// Check implements [store.Checker]: it returns nil when a primary answers, and the table and its sequence are those
// of this version, logged, and open to the role that asks. Its errors wrap store.ErrUnavailable, and one of
// [ErrNoTable], [ErrForeign], [ErrVersion] and [ErrStandby] where that is why.
func (s *records) Check(ctx context.Context) error {
	var f finding
	err := s.run(ctx, false, func(on session) error {
		return on.queryRow(ctx, checkSQL, s.schema, s.table, s.table+"_fence").Scan(&f.standby, &f.schema, &f.table,
			&f.kind, &f.persistence, &f.marker, &f.granted, &f.sequence, &f.drawn)
	})
	if err != nil {
		return err
	}
	if err := s.judge(f); err != nil {
		return err
	}
	// Reads no row, and fails unless the columns are there.
	err = s.run(ctx, false, func(on session) error {
		_, err := s.sql.findOn(ctx, on, store.ID{})
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// judge turns a finding into the first thing that is wrong.
func (s *records) judge(f finding) error {
	unfit := func(kind error, format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s: %w", kind, s.name(), fmt.Sprintf(format, args...), store.ErrUnavailable)
	}
	switch {
	case f.standby:
		return unfit(ErrStandby, "connect to the primary, with target_session_attrs=read-write for instance")
	case !f.schema:
		return unfit(ErrNoTable, "there is no such schema: create it first")
	case !f.table:
		return unfit(ErrNoTable, "create it with Migrate, or apply the text of Migration")
	case f.kind != "r" || !strings.HasPrefix(f.marker, markerOf):
		return unfit(ErrForeign, "it lacks the comment %q: choose another name with WithTable", marker)
	case f.marker != marker:
		return unfit(ErrVersion, "its comment is %.60q, this release wants %q", f.marker, marker)
	case f.persistence != "p":
		return unfit(ErrForeign, "it is not logged, so that a crash would empty it")
	case !f.sequence:
		return unfit(ErrForeign, "its sequence %q is missing or was changed: it must count by 1, without a cache or a cycle", s.table+"_fence")
	case !f.granted:
		return unfit(errNotGranted, "SELECT, INSERT, UPDATE and DELETE on the table and USAGE on its schema are needed")
	case !f.drawn:
		return unfit(errNotGranted, "USAGE on the sequence %q is needed", s.table+"_fence")
	}
	return nil
}

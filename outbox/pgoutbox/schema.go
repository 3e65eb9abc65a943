package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/store"
)

// marker is the table's comment. It tells this package's tables, and their versions, from others.
const (
	markerOf = "redo pgoutbox "
	version  = "1"
	marker   = markerOf + version
)

// migrationSQL makes everything or, in a transaction, nothing. Rows change a few times in their life and are then deleted,
// so that vacuum has to come sooner than after a fifth of a large table.
const migrationSQL = `CREATE TABLE {table} (
	seq          bigint      GENERATED ALWAYS AS IDENTITY,
	id           text        COLLATE "C" NOT NULL,
	type         text        NOT NULL,
	destination  text        NOT NULL,
	ordering_key text        COLLATE "C", -- NULL: in no order
	header       jsonb       NOT NULL,
	payload      bytea       NOT NULL,
	state        smallint    NOT NULL DEFAULT 1 CHECK (state BETWEEN 1 AND 3), -- waiting, sent, dead
	leased       boolean     NOT NULL DEFAULT false CHECK (NOT leased OR state = 1), -- due_at is the lease's end
	fence        bigint      NOT NULL DEFAULT 0,
	attempts     integer     NOT NULL DEFAULT 0,
	enqueued_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
	due_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
	first_at     timestamptz, -- when the first of the attempts was claimed
	done_at      timestamptz, -- when it was sent or given up
	code         text,
	reason       text,
	CONSTRAINT {pkey} PRIMARY KEY (seq),
	CONSTRAINT {id} UNIQUE (id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX {due} ON {table} (due_at, seq) WHERE state = 1;
CREATE INDEX {line} ON {table} (ordering_key, seq) WHERE state = 1 AND ordering_key IS NOT NULL;
CREATE UNIQUE INDEX {busy} ON {table} (ordering_key) WHERE leased AND ordering_key IS NOT NULL;
CREATE INDEX {held} ON {table} (ordering_key, seq) WHERE state = 3 AND ordering_key IS NOT NULL;
CREATE INDEX {dead} ON {table} (done_at, seq) WHERE state = 3;
CREATE INDEX {sent} ON {table} (done_at) WHERE state = 2;
COMMENT ON TABLE {table} IS {marker};
`

// Migration returns the SQL that makes the table and its indexes, to be read or applied by the program's own migration tool,
// in one transaction. It fails where a table of that name exists. The schema must exist. Who enqueues needs SELECT and
// INSERT on the table, who relays SELECT, UPDATE and DELETE.
func Migration(opts ...Option) (string, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return "", err
	}
	return cfg.replacer().Replace(migrationSQL), nil
}

// Migrate makes the table where there is none, and otherwise checks it as Check does. Any number of processes may call it
// at a time. It returns an error that wraps [ErrForeign] or [ErrVersion], and changes nothing, where the table is not one
// of this version's.
func (q *Queue) Migrate(ctx context.Context) error {
	err := q.Check(ctx)
	if !errors.Is(err, ErrNoTable) {
		return err
	}
	// Commands sent as one text are one transaction. The lock makes processes that start together wait for the first.
	text := fmt.Sprintf("SELECT pg_advisory_xact_lock(%d);\n", int64(q.hash())) + q.replacer().Replace(migrationSQL)
	err = q.run(ctx, true, func(on *pgxpool.Conn) error {
		_, err := on.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == duplicateTable {
			return nil // another process was first
		}
		return err
	})
	if err != nil {
		return err
	}
	return q.Check(ctx)
}

// checkSQL finds the table whatever its kind, and says what can be said without reading it.
const checkSQL = `
SELECT pg_is_in_recovery(),
	EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text),
	c.oid IS NOT NULL,
	coalesce(c.relkind::text, ''),
	coalesce(c.relpersistence::text, ''),
	coalesce(obj_description(c.oid, 'pg_class'), '')
FROM (VALUES (1)) AS one
LEFT JOIN pg_catalog.pg_class AS c ON c.relname = $2::text
	AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1::text)`

// A finding is what checkSQL returns.
type finding struct {
	standby, schema, table    bool
	kind, persistence, marker string
}

// Check returns nil when a primary answers, and the table is one of this version, logged. Its errors wrap
// store.ErrUnavailable, and one of [ErrNoTable], [ErrForeign], [ErrVersion] and [ErrStandby] where that is why.
func (q *Queue) Check(ctx context.Context) error {
	var f finding
	err := q.run(ctx, false, func(on *pgxpool.Conn) error {
		return on.QueryRow(ctx, checkSQL, q.schema, q.table).Scan(&f.standby, &f.schema, &f.table, &f.kind, &f.persistence, &f.marker)
	})
	if err != nil {
		return err
	}
	return q.judge(f)
}

// judge turns a finding into the first thing that is wrong.
func (q *Queue) judge(f finding) error {
	unfit := func(kind error, format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s: %w", kind, q.name(), fmt.Sprintf(format, args...), store.ErrUnavailable)
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
	}
	return nil
}

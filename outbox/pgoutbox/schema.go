package pgoutbox

import (
	"context"

	"github.com/redo-go/redo/store/pgstore/pgtable"
)

// Reasons for which a table can't be used. Each is found with errors.Is beside store.ErrUnavailable, and each error
// names the table.
var (
	// ErrNoTable: the table, or its schema, does not exist.
	ErrNoTable = pgtable.ErrNoTable
	// ErrForeign: the table is not one of this package's, or was changed by another program. It is left alone.
	ErrForeign = pgtable.ErrForeign
	// ErrVersion: this release does not work with the table's version.
	ErrVersion = pgtable.ErrVersion
	// ErrStandby: the server is a standby. The queue must be on the primary.
	ErrStandby = pgtable.ErrStandby
)

// steps are the migrations. Each must leave a table that the release before can read and write. Rows change a few times
// and are then deleted, so that vacuum must come before a fifth of a large table has changed.
var steps = []string{`CREATE TABLE {table} (
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
	CONSTRAINT {_pkey} PRIMARY KEY (seq),
	CONSTRAINT {_id} UNIQUE (id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX {_due} ON {table} (due_at, seq) WHERE state = 1;
CREATE INDEX {_line} ON {table} (ordering_key, seq) WHERE state = 1 AND ordering_key IS NOT NULL;
CREATE UNIQUE INDEX {_busy} ON {table} (ordering_key) WHERE leased AND ordering_key IS NOT NULL;
CREATE INDEX {_held} ON {table} (ordering_key, seq) WHERE state = 3 AND ordering_key IS NOT NULL;
CREATE INDEX {_dead} ON {table} (done_at, seq) WHERE state = 3;
CREATE INDEX {_sent} ON {table} (done_at) WHERE state = 2;
`}

// Migration returns the SQL that makes the table and its indexes, for the program's own migration tool. Apply it in one
// transaction. It fails if the table exists. The schema must exist. A producer needs SELECT and INSERT on the table, a
// relay SELECT, UPDATE and DELETE.
func Migration(opts ...Option) (string, error) { return MigrationFrom(0, opts...) }

// MigrationFrom returns the SQL that makes this release's table out of that of an earlier version, which is the number
// at the end of the table's comment. The SQL is "" if nothing is to be done. Migrate first, and replace the processes
// afterwards: a release works with its own version and with the next one.
func MigrationFrom(version int, opts ...Option) (string, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return "", err
	}
	return cfg.events().Migration(version)
}

// events returns the table of events.
func (c config) events() pgtable.Table {
	return pgtable.Table{Package: "pgoutbox", Schema: c.schema, Name: c.table, Steps: steps}
}

// Migrate makes the table if there is none, brings one of an earlier version to this release's, and checks it as Check
// does. Any number of processes may call it at a time, while others use the table. It returns an error that wraps
// [ErrForeign], and changes nothing, if the table is not one of this package's.
func (q *Queue) Migrate(ctx context.Context) error { return q.table.Migrate(ctx, pgtable.Pool(q.pool)) }

// Check returns nil if the server is a primary, and the table is logged and of this release's version or the next. Its
// errors wrap store.ErrUnavailable, and one of [ErrNoTable], [ErrForeign], [ErrVersion] and [ErrStandby] if that is the
// reason.
func (q *Queue) Check(ctx context.Context) error { return q.table.Check(ctx, pgtable.Pool(q.pool)) }

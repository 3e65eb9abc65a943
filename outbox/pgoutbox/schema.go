package pgoutbox

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store/pgstore/pgtable"
)

// Reasons for which a table can't be used. Each is found with errors.Is beside store.ErrUnavailable, and each error
// names the table.
var (
	// ErrNoTable: the table, or its schema, does not exist.
	ErrNoTable = pgtable.ErrNoTable
	// ErrForeign: the table is not one of this package's, or was changed by another program. Migrate does not change
	// it.
	ErrForeign = pgtable.ErrForeign
	// ErrVersion: this release does not work with the table's version.
	ErrVersion = pgtable.ErrVersion
	// ErrStandby: the server is a standby, or its transactions are read-only by default. The queue must be on the primary.
	ErrStandby = pgtable.ErrStandby
)

// steps are the migrations. Each must leave tables that the release before can read and write.
//
// The column xid must come before seq: Postgres evaluates defaults in the order of the columns. See logSQL.
var steps = []string{`CREATE TABLE {table} (
	xid          bigint      NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
	seq          bigint      GENERATED ALWAYS AS IDENTITY,
	id           text        COLLATE "C" NOT NULL,
	destination  text        COLLATE "C" NOT NULL,
	type         text        NOT NULL,
	ordering_key text        COLLATE "C", -- NULL: in no order
	header       jsonb       NOT NULL,
	payload      bytea       NOT NULL,
	enqueued_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
	CONSTRAINT {_pkey} PRIMARY KEY (seq),
	CONSTRAINT {_id} UNIQUE (id, destination)
);
CREATE INDEX {_xid} ON {table} (xid, seq);

CREATE TABLE {.cursor} ( -- how far the log has been claimed: the row with the highest n
	n       bigint      PRIMARY KEY,
	head    bigint      NOT NULL, -- every row up to head was claimed, or is of a pending transaction
	pending bigint[]    NOT NULL, -- transactions that were open when the log was read
	reading bigint[]    NOT NULL, -- pending transactions that have ended and are being read, up to place
	place   bigint      NOT NULL,
	swept   timestamptz NOT NULL -- leases that expired before were found
);
INSERT INTO {.cursor} VALUES (0, 0, '{}', '{}', 0, '-infinity');

CREATE TABLE {.claim} ( -- events under way: of one line, or without an ordering key
	fence        bigint      NOT NULL,
	part         bigint      NOT NULL,
	open         bigint[]    NOT NULL,
	lease_end    timestamptz NOT NULL,
	claimed_at   timestamptz NOT NULL,
	destination  text        COLLATE "C",
	ordering_key text        COLLATE "C",
	PRIMARY KEY (fence, part)
) WITH (fillfactor = 70);
CREATE INDEX {_lease} ON {.claim} (lease_end);
CREATE SEQUENCE {.fence};

CREATE TABLE {.late} ( -- events that were not sent by their first claim
	seq          bigint      PRIMARY KEY,
	destination  text        COLLATE "C" NOT NULL,
	ordering_key text        COLLATE "C",
	state        smallint    NOT NULL DEFAULT 1 CHECK (state BETWEEN 1 AND 3), -- waiting, under way, dead
	due_at       timestamptz NOT NULL,
	attempts     integer     NOT NULL DEFAULT 0,
	first_at     timestamptz, -- when the first of the attempts was claimed
	died_at      timestamptz,
	fence        bigint, -- of an expired lease that may settle the event until it is claimed
	history      jsonb       NOT NULL DEFAULT '[]'
) WITH (fillfactor = 70);
CREATE INDEX {_due} ON {.late} (due_at) WHERE state = 1 AND ordering_key IS NULL;
CREATE INDEX {_room} ON {.late} (destination, due_at, seq) WHERE state = 1 AND ordering_key IS NULL;
CREATE INDEX {_behind} ON {.late} (destination, ordering_key, seq) WHERE state = 1 AND ordering_key IS NOT NULL;
CREATE INDEX {_buried} ON {.late} (destination, ordering_key, seq) WHERE state = 3 AND ordering_key IS NOT NULL;
CREATE INDEX {_dead} ON {.late} (died_at, seq) WHERE state = 3;

CREATE TABLE {.line} ( -- lines that a claim holds, or that have late events
	destination  text        COLLATE "C" NOT NULL,
	ordering_key text        COLLATE "C" NOT NULL,
	fence        bigint      NOT NULL DEFAULT 0, -- of the claim that holds it
	queued       boolean     NOT NULL, -- it has late events
	held         boolean     NOT NULL DEFAULT false, -- its first waiting event comes after a dead letter
	due_at       timestamptz NOT NULL, -- while no claim holds it
	PRIMARY KEY (destination, ordering_key)
) WITH (fillfactor = 70);
CREATE INDEX {_ready} ON {.line} (held, due_at) WHERE fence = 0;
CREATE INDEX {_front} ON {.line} (held, destination, due_at) WHERE fence = 0;

CREATE TABLE {.disabled} (
	destination text        COLLATE "C" PRIMARY KEY,
	since       timestamptz NOT NULL DEFAULT clock_timestamp(),
	failure     jsonb       NOT NULL
);
`}

// Migration returns the SQL that makes the tables and their indexes, for the program's own migration tool. Apply it in
// one transaction. It fails if a table exists. The schema must exist.
//
// The names of all tables begin with that of the log. A producer needs SELECT and INSERT on the log, and DELETE for
// EnqueueBatch. A relay needs SELECT, INSERT, UPDATE and DELETE on all tables, and USAGE on the sequence. With SELECT
// on the sequence of the log's column seq, it also reports that this sequence was set back.
func Migration(opts ...Option) (string, error) { return MigrationFrom(0, opts...) }

// MigrationFrom returns the SQL that makes this release's tables out of those of an earlier version. The version is the
// number at the end of the log's comment. The SQL is "" if nothing is to be done. Migrate first, and replace the
// processes afterwards: a release works with its own version and with the next one.
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

// Migrate makes the tables if they do not exist, brings those of an earlier version to this release's, and checks them
// as Check does. Any number of processes may call it at a time, while others use the tables. It returns an error that
// wraps [ErrForeign], and changes nothing, if the log is not one of this package's.
func (q *Queue) Migrate(ctx context.Context) error {
	if err := q.table.Migrate(ctx, pgtable.Pool(q.pool)); err != nil {
		return err
	}
	return q.checkCursor(ctx)
}

// Check returns nil if the server is a primary whose transactions may write, and the log is of this release's version
// or the next. All tables and sequences must be logged. The log must have no row security for the role. If the role may
// read the cursor and the log's sequence, Check also finds whether another program has emptied the one or set the
// other back. Its errors wrap store.ErrUnavailable, and one of [ErrNoTable], [ErrForeign], [ErrVersion] and
// [ErrStandby] if that is the reason.
func (q *Queue) Check(ctx context.Context) error {
	if err := q.table.Check(ctx, pgtable.Pool(q.pool)); err != nil {
		return err
	}
	return q.checkCursor(ctx)
}

var (
	errUnreleased = errors.New("it was made before the first release: send its events, drop it, and run Migrate")
	errNoCursor   = errors.New("its cursor has no row, so that no event is found: another program has emptied it: " +
		"drop the tables and run Migrate, or empty all of them and insert the row of Migration")
)

// tablesSQL returns whether there is a cursor, whether the role may read it, and the log's sequence if the role may
// read that. It also returns the name of an unlogged table or sequence. Producers may read neither cursor nor sequence.
// Pgpool-II sends a statement with a volatile function to the primary. A standby may lack the tables still.
const tablesSQL = `
SELECT c.oid IS NOT NULL, coalesce(has_table_privilege(c.oid, 'SELECT'), false),
	coalesce(CASE WHEN has_sequence_privilege(s.name, 'SELECT') THEN s.name END, ''),
	coalesce((SELECT min(relname) FROM pg_catalog.pg_class WHERE relpersistence <> 'p' AND oid IN (c.oid,
		to_regclass({'claim}), to_regclass({'late}), to_regclass({'line}), to_regclass({'disabled}),
		to_regclass({'fence}), to_regclass(s.name))), '')
FROM clock_timestamp(), to_regclass({'cursor}) AS c (oid), pg_get_serial_sequence({log}, 'seq') AS s (name)`

// placesSQL returns the cursor's place, or -1 if it has none, and the place of the next event.
const placesSQL = `
SELECT coalesce((SELECT head FROM {.cursor} ORDER BY n DESC LIMIT 1), -1),
	(SELECT last_value + is_called::integer FROM {sequence})
FROM clock_timestamp()`

// checkCursor refuses a table that this package made before its first release, and one whose new events no claim would
// find. Each method that changes the cursor keeps it behind the sequence. A copy without the sequence, or TRUNCATE with
// RESTART IDENTITY, does not.
func (q *Queue) checkCursor(ctx context.Context) error {
	var found, readable bool
	var sequence, unlogged string
	text := strings.ReplaceAll(q.table.Fill(tablesSQL), "{log}", pgtable.Literal(q.table.String()))
	err := q.run(ctx, false, func(on *pgx.Conn) error {
		return on.QueryRow(ctx, text).Scan(&found, &readable, &sequence, &unlogged)
	})
	switch {
	case err != nil:
		return err
	case !found:
		return q.table.Unfit(ErrVersion, "%w", errUnreleased)
	case unlogged != "":
		return q.table.Unfit(ErrForeign, "its %q is not logged, so that a crash would empty it", unlogged)
	case !readable || sequence == "":
		return nil
	}
	var head, next int64
	text = strings.ReplaceAll(q.table.Fill(placesSQL), "{sequence}", sequence)
	err = q.run(ctx, false, func(on *pgx.Conn) error { return on.QueryRow(ctx, text).Scan(&head, &next) })
	switch {
	case err != nil:
		return err
	case head < 0:
		return q.table.Unfit(ErrForeign, "%w", errNoCursor)
	case next <= head:
		return q.table.Unfit(ErrForeign, "new events have places before the cursor and are not found: "+
			"its sequence was set back: SELECT setval(%s, %d)", pgtable.Literal(sequence), head)
	}
	return nil
}

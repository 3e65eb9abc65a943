package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/redo-go/redo/store"
)

const markerOf = "redo mysqlstore "
const marker = markerOf + "1" // the table's comment

const migrationSQL = `CREATE TABLE {t} (
	id          BIGINT NOT NULL AUTO_INCREMENT, -- no number is given out twice
	scope       VARBINARY(1024) NOT NULL,
	id_key      VARBINARY(1024) NOT NULL,
	fingerprint VARBINARY(64) NOT NULL,
	state       TINYINT NOT NULL, -- 0 removed, 1 pending, 2 complete, 3 failed
	result      LONGBLOB,
	meta        LONGBLOB,
	owner       VARBINARY(64) NOT NULL,
	fence       BIGINT NOT NULL, -- 16 random bits, below a number that id has skipped, or below 0: the id is the number
	revision    BIGINT NOT NULL, -- counts the changes
	lease_until BIGINT, -- microseconds since 1970, UTC, as are the next two; NULL: no lease
	created_at  BIGINT NOT NULL,
	expires_at  BIGINT, -- NULL: never
	PRIMARY KEY (scope, id_key), -- InnoDB locks the gap beside a row that is found by another key
	UNIQUE KEY number (id),
	KEY pending (state, created_at, id),
	KEY expiry (expires_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='` + marker + `'`

// Migration returns the SQL that makes the table, for the program's own migration tool. It fails if the table exists.
// The store needs SELECT, INSERT, UPDATE and DELETE on it.
func Migration(opts ...Option) (string, error) {
	cfg, err := newConfig(opts)
	return strings.ReplaceAll(migrationSQL, "{t}", quoted(cfg.table)) + ";\n", err
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Migrate makes the table if it does not exist, and checks it as Check does. Any number of processes may call it. It
// leaves a table that is not this version's alone, and returns an error that wraps [ErrForeign] or [ErrVersion].
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.Check(ctx); !errors.Is(err, ErrNoTable) {
		return err
	}
	err := s.run(ctx, true, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, strings.ReplaceAll(migrationSQL, "{t}", "IF NOT EXISTS "+quoted(s.table)))
		return err
	})
	if err != nil {
		return err
	}
	return s.Check(ctx)
}

const checkSQL = `SELECT ` + readOnly + `, @@max_allowed_packet, @@sql_mode, ` + isolation + `, t.engine, table_comment
FROM (SELECT 1 AS n) AS o LEFT JOIN information_schema.tables AS t ON t.table_schema = DATABASE() AND t.table_name = ?
	AND (@@lower_case_table_names OR CAST(CONCAT(t.table_schema, t.table_name) AS BINARY)
	= CONVERT(CONCAT(DATABASE(), ?) USING utf8mb4))`

// Check implements [store.Checker]: the server can be written to, keeps values whole, and has this version's table. Its
// errors wrap store.ErrUnavailable, and [ErrNoTable], [ErrForeign], [ErrVersion], [ErrReadOnly] or [ErrServer].
func (s *Store) Check(ctx context.Context) error {
	return s.run(ctx, false, func(conn *sql.Conn) error {
		var readOnly, packet int64
		var mode, level string
		var engine, comment sql.NullString
		err := conn.QueryRowContext(ctx, checkSQL, s.table, s.table).
			Scan(&readOnly, &packet, &mode, &level, &engine, &comment)
		if err != nil {
			return err
		}
		const minPacket = 4 << 20 // bytes: the longest meta, and room for its escapes
		unfit := func(kind error, format string, args ...any) error {
			return fmt.Errorf("%w: table %q: %s: %w", kind, s.table, fmt.Sprintf(format, args...), store.ErrUnavailable)
		}
		switch {
		case readOnly != 0:
			return unfit(ErrReadOnly, "connect to the primary")
		case packet < minPacket:
			return unfit(ErrServer, "max_allowed_packet is %d, it must be at least %d", packet, minPacket)
		case !strings.Contains(mode, "STRICT_TRANS_TABLES") && !strings.Contains(mode, "STRICT_ALL_TABLES"):
			return unfit(ErrServer, "the sql_mode %q is not strict, so that values may be cut", mode)
		case level == "READ-UNCOMMITTED":
			return unfit(ErrServer, "the isolation is %s, so that a record may be read that is never committed", level)
		case !engine.Valid && !comment.Valid:
			return unfit(ErrNoTable, "create it with Migrate, or apply the text of Migration")
		case !strings.HasPrefix(comment.String, markerOf):
			return unfit(ErrForeign, "it lacks the comment %q: choose another name with WithTable", marker)
		case comment.String != marker:
			return unfit(ErrVersion, "its comment is %.60q, this release needs %q", comment.String, marker)
		case engine.String != "InnoDB":
			return unfit(ErrForeign, "its engine is %s, not InnoDB", engine.String)
		}
		if _, err = s.find(ctx, conn, s.text.find, store.ID{}); err == nil { // it fails unless the columns exist
			_, err = s.find(ctx, conn, s.text.lockRow+" SKIP LOCKED", store.ID{})
		}
		switch {
		case number(err) == syntaxError:
			return unfit(ErrServer, "it must be MySQL 8.0.3, MariaDB 10.6, or later: %v", err)
		case errors.Is(err, sql.ErrNoRows):
			return nil
		}
		return err
	})
}

// Why a table or a server can't be used. Each error wraps [store.ErrUnavailable] too, and names the table.
var (
	// ErrNoTable: the table does not exist.
	ErrNoTable = errors.New("mysqlstore: table missing")
	// ErrForeign: the table was not made by this package, or was changed. It is left alone.
	ErrForeign = errors.New("mysqlstore: not a table of this package")
	// ErrVersion: another version of this package made the table.
	ErrVersion = errors.New("mysqlstore: table of another version")
	// ErrReadOnly: the server is read-only, as a replica is. Its records may be out of date.
	ErrReadOnly = errors.New("mysqlstore: server is read-only")
	// ErrServer: the server's version or settings don't fit.
	ErrServer = errors.New("mysqlstore: server does not fit")
)

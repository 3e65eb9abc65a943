package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// marker begins each table's text, which SQLite keeps as it was written. The version follows.
const (
	markerOf = "/* redo sqlitestore "
	marker   = markerOf + "1 */"
)

const (
	recordsSQL = `CREATE TABLE redo_records (` + marker + `
	scope       BLOB NOT NULL,
	id_key      BLOB NOT NULL,
	fingerprint BLOB NOT NULL,
	state       INTEGER NOT NULL, -- 1 pending, 2 complete, 3 failed
	result      BLOB,
	meta        BLOB,
	owner       BLOB NOT NULL,
	fence       INTEGER NOT NULL,
	lease_until INTEGER, -- microseconds since 1970, UTC, as are the next two; NULL: no lease
	created_at  INTEGER NOT NULL,
	expires_at  INTEGER, -- NULL: never
	PRIMARY KEY (scope, id_key)
) STRICT`
	// The one row has the last fence that was drawn for any ID, and the ID that the last transaction has held.
	fenceSQL = `CREATE TABLE redo_fence (` + marker + `
	last   INTEGER NOT NULL,
	scope  BLOB,
	id_key BLOB
) STRICT`
	indexSQL = `CREATE INDEX redo_records_pending ON redo_records (created_at) WHERE state = 1;
CREATE INDEX redo_records_expiry ON redo_records (expires_at) WHERE expires_at IS NOT NULL;
INSERT INTO redo_fence (last) VALUES (0)`
)

// Migration returns the SQL that makes the tables, for the program's own migration tool. It is for one transaction,
// and fails if a table of these names exists. The file must be in WAL mode: PRAGMA journal_mode=WAL.
func Migration() string { return recordsSQL + ";\n" + fenceSQL + ";\n" + indexSQL + ";\n" }

// Migrate makes the tables if they do not exist, and checks them as Check does. Any number of processes may call it at
// a time. It changes nothing and returns an error that wraps [ErrForeign] or [ErrVersion] if the tables are not this
// version's.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.Check(ctx); !errors.Is(err, ErrNoTable) {
		return err
	}
	err := s.change(ctx, func(tx *sql.Tx) error {
		if err := tables(ctx, tx); !errors.Is(err, ErrNoTable) {
			return err // another process was first
		}
		_, err := tx.ExecContext(ctx, Migration())
		return err
	})
	if err != nil {
		return err
	}
	return s.Check(ctx)
}

// Check implements [store.Checker]. It returns nil if the file is the one that Open has found, is not read-only, is in
// WAL mode, and has the tables of this version. Its errors wrap store.ErrUnavailable, and [ErrNoTable], [ErrForeign] or
// [ErrVersion] if that is the reason.
func (s *Store) Check(ctx context.Context) error {
	if err := s.repeat(ctx, func() error { return tables(ctx, s.reads) }); err != nil {
		return err
	}
	file, err := os.Stat(s.path)
	if err == nil && !os.SameFile(file, s.file) {
		err = fmt.Errorf("%q was replaced", s.path)
	}
	if err != nil {
		return unavailable(err) // what is written now is lost
	}
	_, err = s.draws.ExecContext(ctx, "UPDATE redo_fence SET last = last WHERE 0") // it fails if the file is read-only
	if busy(err) {
		return nil
	}
	return s.failure(ctx, err)
}

// tables checks the journal mode, and compares the tables' texts with this version's. SQLite keeps a text with its
// comments, and rewrites it if the table is altered. One statement reads all, because another process may be making the
// tables.
func tables(ctx context.Context, on sqltx.Queryer) error {
	var mode string
	var records, fence sql.NullString
	if err := on.QueryRowContext(ctx, `SELECT journal_mode,
		(SELECT sql FROM sqlite_schema WHERE name = 'redo_records'),
		(SELECT sql FROM sqlite_schema WHERE name = 'redo_fence') FROM pragma_journal_mode`,
	).Scan(&mode, &records, &fence); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the journal mode is %q, set it with PRAGMA journal_mode=WAL", ErrForeign, mode)
	}
	for _, t := range []struct {
		name, want string
		is         sql.NullString
	}{{"redo_records", recordsSQL, records}, {"redo_fence", fenceSQL, fence}} {
		switch {
		case !t.is.Valid, t.is.String == t.want:
		case strings.Contains(t.is.String, markerOf) && !strings.Contains(t.is.String, marker):
			return fmt.Errorf("%w: %s lacks the comment %q", ErrVersion, t.name, marker)
		default:
			return fmt.Errorf("%w: %s is another program's, or was altered", ErrForeign, t.name)
		}
	}
	switch {
	case records.Valid && fence.Valid:
		return nil
	case records.Valid:
		return fmt.Errorf("%w: redo_fence is missing", ErrForeign)
	case fence.Valid:
		return fmt.Errorf("%w: redo_records is missing", ErrForeign)
	}
	return fmt.Errorf("%w: create the tables with Migrate, or apply the text of Migration", ErrNoTable)
}

// Why a file can't be used. Each error wraps [store.ErrUnavailable] too.
var (
	// ErrNoTable: the file, or a table in it, does not exist.
	ErrNoTable = errors.New("sqlitestore: table missing")
	// ErrForeign: the file is no SQLite database, or a table in it was not made by this package or was changed. It is
	// left alone.
	ErrForeign = errors.New("sqlitestore: not a file of this package")
	// ErrVersion: another version of this package made the table.
	ErrVersion = errors.New("sqlitestore: table of another version")
)

// unavailable adds store.ErrUnavailable to an error that has no meaning of the contract yet.
func unavailable(err error) error {
	return fmt.Errorf("sqlitestore: %w: %w", store.ErrUnavailable, err)
}

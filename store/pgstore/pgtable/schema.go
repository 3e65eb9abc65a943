package pgtable

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store"
)

// Version is the version that Migrate makes, and the oldest one that Check accepts.
func (t Table) Version() int { return len(t.Steps) }

// Step returns the SQL that makes the version out of the one before. Its last statement sets the table's comment, which
// holds the version.
func (t Table) Step(version int) string {
	return t.Fill(t.Steps[version-1]) + fmt.Sprintf("COMMENT ON TABLE %s IS %s;\n", t, Literal(t.comment(version)))
}

func (t Table) comment(version int) string { return fmt.Sprintf("redo %s %d", t.Package, version) }

// Migration returns the SQL that makes this release's version out of an earlier one; 0 means that there is no table.
func (t Table) Migration(from int) (string, error) {
	if from < 0 || from > t.Version() {
		return "", fmt.Errorf("%s: %w: there is no version %d, the last one is %d",
			t.Package, store.ErrInvalid, from, t.Version())
	}
	var all strings.Builder
	for v := from + 1; v <= t.Version(); v++ {
		all.WriteString(t.Step(v))
	}
	return all.String(), nil
}

// While Migrate waits for a lock, every other statement on the table waits behind it. So it waits for a short time
// only, and pauses.
const (
	lockWait  = "100ms"
	lockPause = time.Second
)

// Migrate applies the steps that the table lacks, each in a separate transaction, and checks the table as Check
// does. Any number of processes may call it at a time, while others use the table. It leaves a newer version as it
// is.
func (t Table) Migrate(ctx context.Context, conns Conns) error {
	for {
		err := t.Run(ctx, conns, true, func(conn *pgx.Conn) error { return t.migrate(ctx, conn) })
		switch {
		case err == nil:
			return t.Check(ctx, conns)
		case Code(err) != lockNotAvailable:
			return err
		}
		if err := Pause(ctx, lockPause); err != nil {
			return err
		}
	}
}

func (t Table) migrate(ctx context.Context, conn *pgx.Conn) error {
	version, err := t.version(ctx, conn)
	for err == nil && version < t.Version() {
		// At any other level the transaction would not see what the process before it has done.
		err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			// One process at a time applies a step. Another one may have applied it before the lock was granted.
			_, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = '%s'; SELECT pg_advisory_xact_lock(%d)",
				lockWait, int64(t.Hash())))
			if err != nil {
				return err
			}
			if version, err = t.version(ctx, conn); err != nil || version >= t.Version() {
				return err
			}
			version++
			_, err = tx.Exec(ctx, t.Step(version))
			return err
		})
	}
	return err
}

// checkSQL finds the table, of any kind, without reading its rows.
const checkSQL = `
SELECT pg_is_in_recovery(),
	EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text),
	c.oid IS NOT NULL,
	coalesce(c.relkind::text, ''),
	coalesce(c.relpersistence::text, ''),
	coalesce(obj_description(c.oid, 'pg_class'), ''),
	coalesce(has_schema_privilege(c.relnamespace, 'USAGE')
		AND (SELECT coalesce(bool_and(has_table_privilege(c.oid, p)), true) FROM unnest($3::text[]) AS p), false),
	coalesce(row_security_active(c.oid), false),
	current_setting('transaction_read_only') = 'on',
	(SELECT ARRAY[n.nspname, p.relname]::text[] FROM pg_partition_tree(c.oid)
		JOIN pg_catalog.pg_class AS p ON p.oid = relid JOIN pg_catalog.pg_namespace AS n ON n.oid = p.relnamespace
		WHERE p.oid <> c.oid AND p.relpersistence <> 'p' ORDER BY 1 LIMIT 1)
FROM (VALUES (1)) AS one
LEFT JOIN pg_catalog.pg_class AS c ON c.relname = $2::text
	AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1::text)`

// A finding is the result of checkSQL.
type finding struct {
	standby, schema, table     bool
	kind, persistence, comment string
	granted, hides, readOnly   bool
	unlogged                   pgx.Identifier // a partition; nil if there is none
}

func (t Table) find(ctx context.Context, conn *pgx.Conn) (f finding, err error) {
	privileges := append([]string{}, t.Privileges...)
	err = conn.QueryRow(ctx, checkSQL, t.Schema, t.Name, privileges).Scan(&f.standby, &f.schema, &f.table,
		&f.kind, &f.persistence, &f.comment, &f.granted, &f.hides, &f.readOnly, &f.unlogged)
	return f, err
}

// version returns the table's version, 0 if there is none.
func (t Table) version(ctx context.Context, conn *pgx.Conn) (int, error) {
	f, err := t.find(ctx, conn)
	if err != nil {
		return 0, err
	}
	version, err := t.versionOf(f)
	if errors.Is(err, ErrNoTable) && f.schema {
		return 0, nil
	}
	return version, err
}

// Check returns nil if the server is a primary whose transactions may write, and the table is logged and has the
// privileges. The table must have no row security for the role, and this release's version or the next. A release works
// with both, so that a deployment can migrate first and replace its processes afterwards. Its errors wrap
// store.ErrUnavailable, and one of ErrNoTable, ErrForeign, ErrVersion and ErrStandby if that is the reason. A
// partitioned table is accepted if all its partitions are logged.
func (t Table) Check(ctx context.Context, conns Conns) error {
	var f finding
	var unreadable pgx.ScanArgError
	err := t.Run(ctx, conns, false, func(conn *pgx.Conn) (err error) {
		if f, err = t.find(ctx, conn); err != nil {
			return err
		}
		var at time.Time
		var b []byte
		// In the modes exec and simple_protocol the driver reads values as the session writes them.
		err = conn.QueryRow(ctx, "SELECT clock_timestamp(), decode('00ff', 'hex')").Scan(&at, &b)
		if unreadable, _ = errors.AsType[pgx.ScanArgError](err); unreadable.Err != nil {
			return nil //nolint:nilerr // no failure of the server: it is reported below
		}
		return err
	})
	if err != nil {
		return err
	}
	if unreadable.Err != nil {
		return t.unavailable(fmt.Errorf("%s: the driver can't read the session's values: it needs a DateStyle of ISO and "+
			"a bytea_output of hex, or the query exec mode cache_statement: %w", t, unreadable))
	}
	version, err := t.versionOf(f)
	switch next := t.Version() + 1; {
	case err != nil:
		return err
	case version < t.Version():
		return t.Unfit(ErrVersion, "it has version %d, and this release works with %d and %d: "+
			"run Migrate before you deploy it", version, t.Version(), next)
	case version > next:
		return t.Unfit(ErrVersion, "it has version %d, and this release works with %d and %d: deploy a later release",
			version, t.Version(), next)
	case f.persistence != "p":
		return t.Unfit(ErrForeign, "it is not logged, so that a crash would empty it")
	case f.unlogged != nil:
		return t.Unfit(ErrForeign, "its partition %s is not logged, so that a crash would empty it", f.unlogged.Sanitize())
	case !f.granted:
		return t.unavailable(fmt.Errorf("%s: privileges are missing: USAGE on its schema, and %s on the table",
			t, strings.Join(t.Privileges, ", ")))
	case f.hides:
		return t.unavailable(fmt.Errorf("%s: its row security applies to the role, and may hide rows: "+
			"disable it, or use the table's owner or a role with BYPASSRLS", t))
	}
	return nil
}

// versionOf returns the version that the table's comment holds.
func (t Table) versionOf(f finding) (int, error) {
	number, ours := strings.CutPrefix(f.comment, fmt.Sprintf("redo %s ", t.Package))
	version, err := strconv.Atoi(number)
	switch {
	case f.standby:
		return 0, t.Unfit(ErrStandby, "connect to the primary, for instance with target_session_attrs=read-write")
	case f.readOnly:
		return 0, t.Unfit(ErrStandby, "default_transaction_read_only is on: set it to off, or connect to the primary")
	case !f.schema:
		return 0, t.Unfit(ErrNoTable, "there is no such schema: create it first")
	case !f.table:
		return 0, t.Unfit(ErrNoTable, "create it with Migrate, or apply the text of Migration")
	case f.kind != "r" && f.kind != "p", !ours, err != nil:
		return 0, t.Unfit(ErrForeign, "its comment is not %q: choose another name with WithTable",
			t.comment(t.Version()))
	}
	return version, nil
}

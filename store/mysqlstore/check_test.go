package mysqlstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
)

func TestCheckRefusesWhatDoesNotFit(t *testing.T) {
	migration, err := mysqlstore.Migration()
	require.NoError(t, err)
	replace := func(text, by string) string { return strings.Replace(migration, text, by, 1) }
	for name, c := range map[string]struct {
		table  string
		change func(*mysql.Config)
		want   error
	}{
		"no table":                {"", nil, mysqlstore.ErrNoTable},
		"another program's table": {"CREATE TABLE redo_records (id INT)", nil, mysqlstore.ErrForeign},
		"another version":         {replace("mysqlstore 1", "mysqlstore 2"), nil, mysqlstore.ErrVersion},
		"another engine":          {replace("InnoDB ROW_FORMAT=DYNAMIC", "Aria"), nil, mysqlstore.ErrForeign},
		"a column that is gone": {
			migration + "ALTER TABLE redo_records DROP COLUMN meta", nil, mysqlstore.ErrForeign,
		},
		"a view": {"CREATE VIEW redo_records AS SELECT 1 AS id", nil, mysqlstore.ErrForeign},
		"a mode that cuts values": {migration, func(cfg *mysql.Config) {
			cfg.Params = map[string]string{"sql_mode": "''"}
		}, mysqlstore.ErrServer},
		"connections that commit nothing": {migration, func(cfg *mysql.Config) {
			cfg.Params = map[string]string{"autocommit": "0"}
		}, mysqlstore.ErrServer},
		"connections that commit nothing after a COMMIT": {migration, func(cfg *mysql.Config) {
			cfg.Params = map[string]string{"completion_type": "'CHAIN'"}
		}, mysqlstore.ErrServer},
		"connections that read what is not committed": {migration, func(cfg *mysql.Config) {
			cfg.Params = map[string]string{isolationVariable(t): "'READ-UNCOMMITTED'"}
		}, mysqlstore.ErrServer},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another engine" && os.Getenv("REDO_TEST_MYSQL_SERVER") != "" {
				t.Skip("no other engine of MySQL has keys of this length; MariaDB's Aria has")
			}
			p := newPlace(t, mysqltest.DSN(t))
			for _, text := range strings.SplitAfter(c.table, ";\n") {
				if text != "" {
					p.exec(t, text)
				}
			}
			change := c.change
			if change == nil {
				change = func(*mysql.Config) {}
			}
			st, err := mysqlstore.New(p.pool(t, p.dsn, change))
			require.NoError(t, err)
			err = st.Check(t.Context())
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, err, store.ErrUnavailable)
			if c.table != "" {
				require.ErrorIs(t, st.Migrate(t.Context()), c.want, "it must be left alone")
			}
		})
	}
}

// variable returns the one of a session variable's names that the server has.
func variable(t *testing.T, names string) (name string) {
	t.Helper()
	p := newPlace(t, mysqltest.DSN(t))
	var value string
	require.NoError(t, p.admin.QueryRow("SHOW SESSION VARIABLES WHERE Variable_name IN ("+names+")").Scan(&name, &value))
	return name
}

func isolationVariable(t *testing.T) string {
	return variable(t, "'transaction_isolation', 'tx_isolation'")
}

// A program that calls no Check would get grants for records that are lost with the connection.
func TestNothingIsGrantedWithoutACommit(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	p.open(t) // it makes the table
	for name, value := range map[string]string{"autocommit": "0", "completion_type": "'CHAIN'"} {
		st, err := mysqlstore.New(p.pool(t, p.dsn, func(cfg *mysql.Config) {
			cfg.Params = map[string]string{name: value}
		}))
		require.NoError(t, err)
		_, err = st.Reserve(t.Context(), claim("k"))
		require.ErrorIs(t, err, mysqlstore.ErrServer)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, name)
		_, _, err = st.Begin(t.Context(), unleased("k"))
		require.ErrorIs(t, err, mysqlstore.ErrServer)
	}
}

// The other levels keep the promises.
func TestOtherIsolationLevelsAreTaken(t *testing.T) {
	for _, level := range []string{"READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"} {
		p := newPlace(t, mysqltest.DSN(t))
		p.open(t)
		st, err := mysqlstore.New(p.pool(t, p.dsn, func(cfg *mysql.Config) {
			cfg.Params = map[string]string{isolationVariable(t): "'" + level + "'"}
		}))
		require.NoError(t, err)
		require.NoError(t, st.Check(t.Context()), level)
		reserve(t, st, claim("k"), store.Acquired)
		reserve(t, st, claim("k"), store.InFlight)
	}
}

// With rejectReadOnly the driver calls each refusal of a read-only server a bad connection.
func TestAReadOnlyServerIsNotAskedForEver(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	p.open(t)
	st, err := mysqlstore.New(p.pool(t, p.dsn, func(cfg *mysql.Config) {
		cfg.RejectReadOnly = true
		cfg.Params = map[string]string{variable(t, "'transaction_read_only', 'tx_read_only'"): "1"}
	}))
	require.NoError(t, err)
	_, err = st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, err, mysqlstore.ErrReadOnly)
	require.NotErrorIs(t, err, store.ErrUnknown)
}

func TestCheckTakesWhatTheProgramsOwnToolHasMade(t *testing.T) {
	const name = "a `table` 'of' \"ours\""
	p := newPlace(t, mysqltest.DSN(t))
	migration, err := mysqlstore.Migration(mysqlstore.WithTable(name))
	require.NoError(t, err)
	p.exec(t, migration)
	p.exec(t, "CREATE TABLE accounts (id INT)")
	st, err := mysqlstore.Open(t.Context(), p.dsn, mysqlstore.WithTable(name))
	require.NoError(t, err)
	defer st.Close()
	reserve(t, st, claim("k"), store.Acquired)
}

// Such names are other tables, unless the server keeps all names in lower case.
func TestCheckIgnoresTablesWhoseNamesDifferInTheirCase(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	p.exec(t, "CREATE TABLE REDO_RECORDS (id INT)")
	var other string
	require.NoError(t, p.admin.QueryRow("SELECT CONCAT('`', UPPER(REPLACE(DATABASE(), '`', '``')), '`')").Scan(&other))
	p.exec(t, "CREATE DATABASE "+other)
	defer p.exec(t, "DROP DATABASE "+other)
	p.exec(t, "CREATE TABLE "+other+".redo_records (id INT)")
	st, err := mysqlstore.New(p.pool(t, p.dsn))
	require.NoError(t, err)
	require.ErrorIs(t, st.Check(t.Context()), mysqlstore.ErrNoTable)
	require.NoError(t, st.Migrate(t.Context()))
	reserve(t, st, claim("k"), store.Acquired)

	p = newPlace(t, mysqltest.Private(t, "--lower-case-table-names=1").DSN)
	st = p.open(t, mysqlstore.WithTable("Payments_Keys"))
	require.NoError(t, st.Check(t.Context()))
	reserve(t, st, claim("k"), store.Acquired)
	reserve(t, p.open(t, mysqlstore.WithTable("payments_keys")), claim("k"), store.InFlight)
}

func TestOpenMakesNoTableUnasked(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	_, err := mysqlstore.Open(t.Context(), p.dsn)
	require.ErrorIs(t, err, mysqlstore.ErrNoTable)
	require.Zero(t, p.count(t, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"))
}

func TestTwoTablesAreTwoStores(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	one, two := p.open(t), p.open(t, mysqlstore.WithTable("another"))
	tx, _, err := one.Begin(t.Context(), unleased("k"))
	require.NoError(t, err)
	reserve(t, two, claim("k"), store.Acquired)
	reserve(t, newPlace(t, mysqltest.DSN(t)).open(t), claim("k"), store.Acquired) // the same name in another database
	require.NoError(t, tx.Rollback(t.Context()))
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("t", 65), "nul\x00", "\xff", "blank "} {
		_, err := mysqlstore.Migration(mysqlstore.WithTable(name))
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	_, err := mysqlstore.Migration(mysqlstore.WithTable(strings.Repeat("t", 64)))
	require.NoError(t, err, "the longest name")
	_, err = mysqlstore.Migration(nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = mysqlstore.New(nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = mysqlstore.Open(t.Context(), "root:secret@nowhere")
	require.ErrorIs(t, err, store.ErrInvalid)
	require.NotContains(t, err.Error(), "secret")
	_, err = mysqlstore.Open(t.Context(), "root@tcp(127.0.0.1:1)/redo", nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	// The driver can't quote values in such a collation: a byte of a character may be a backslash.
	_, err = mysqlstore.Open(t.Context(), "root@tcp(127.0.0.1:1)/redo?collation=gbk_chinese_ci")
	require.ErrorIs(t, err, store.ErrInvalid)
}

func TestReadOnlyServerIsRefused(t *testing.T) {
	s := mysqltest.Private(t)
	p := newPlace(t, s.DSN)
	st := p.open(t)
	reserve(t, st, claim("k"), store.Acquired)
	for _, user := range []string{"app@localhost", "app@'127.0.0.1'"} { // the server may resolve the address
		p.exec(t, "CREATE USER "+user)
		p.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO "+user)
	}
	p.exec(t, "SET GLOBAL read_only = 1")
	defer p.exec(t, "SET GLOBAL read_only = 0")
	require.ErrorIs(t, st.Check(t.Context()), mysqlstore.ErrReadOnly)
	app, err := mysqlstore.New(p.pool(t, p.dsn, func(cfg *mysql.Config) { cfg.User = "app" }))
	require.NoError(t, err)
	_, err = app.Reserve(t.Context(), claim("new"))
	require.ErrorIs(t, err, mysqlstore.ErrReadOnly)
	require.ErrorIs(t, err, store.ErrUnavailable)
	reserve(t, app, claim("k"), store.InFlight)
	// A replica may not have applied the record of an owner that looks for it, and "not found" would be a lost lease.
	_, err = app.Find(t.Context(), claim("k").ID)
	require.ErrorIs(t, err, mysqlstore.ErrReadOnly)
	require.ErrorIs(t, err, store.ErrUnavailable)
}

// A replica on shared storage is not read_only, but its InnoDB is. What it reads may be out of date.
func TestServerWhoseInnoDBIsReadOnlyIsRefused(t *testing.T) {
	srv := mysqltest.Private(t)
	p := newPlace(t, srv.DSN)
	st := p.open(t)
	t.Cleanup(func() { require.NoError(t, srv.Restart()) }) // the place must be removed
	require.NoError(t, srv.Restart("--innodb-read-only"))
	_, err := st.Reserve(t.Context(), claim("k"))
	for _, err := range []error{err, st.Check(t.Context()), st.Migrate(t.Context())} {
		require.ErrorIs(t, err, mysqlstore.ErrReadOnly)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknown)
	}
}

package sqlitestore_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqlitestore"
)

func TestOpenRefusesWhatIsNotItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  error
	}{
		"no file": {func(*testing.T, string) {}, sqlitestore.ErrNoTable},
		"a file without tables": {func(t *testing.T, path string) {
			sqlExec(t, path, "PRAGMA journal_mode=WAL; CREATE TABLE accounts (id INTEGER)")
		}, sqlitestore.ErrNoTable},
		"no database": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("a text, and not a database\n", 100)), 0o600))
		}, sqlitestore.ErrForeign},
		"a directory": {func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o700))
		}, store.ErrUnavailable},
		"another program's table": {func(t *testing.T, path string) {
			sqlExec(t, path, "PRAGMA journal_mode=WAL; CREATE TABLE redo_records (id INTEGER)")
		}, sqlitestore.ErrForeign},
		"a table that was altered": {func(t *testing.T, path string) {
			require.NoError(t, open(t, path).Close())
			sqlExec(t, path, "ALTER TABLE redo_records ADD COLUMN note TEXT")
		}, sqlitestore.ErrForeign},
		"another version": {func(t *testing.T, path string) {
			later := strings.ReplaceAll(sqlitestore.Migration(), "sqlitestore 1", "sqlitestore 2")
			sqlExec(t, path, "PRAGMA journal_mode=WAL; "+later)
		}, sqlitestore.ErrVersion},
		"a journal that is not WAL": {func(t *testing.T, path string) {
			sqlExec(t, path, sqlitestore.Migration())
		}, sqlitestore.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			path := newFile(t)
			c.spoil(t, path)
			before, _ := os.ReadFile(path)
			_, err := sqlitestore.Open(t.Context(), path)
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, err, store.ErrUnavailable)
			after, _ := os.ReadFile(path)
			require.Equal(t, before, after, "the file must be left alone")
		})
	}
}

func TestMigrateLeavesForeignTablesAlone(t *testing.T) {
	path := newFile(t)
	sqlExec(t, path, "CREATE TABLE redo_fence (id INTEGER)")
	_, err := sqlitestore.Open(t.Context(), path, sqlitestore.WithMigrate())
	require.ErrorIs(t, err, sqlitestore.ErrForeign)
	sqlExec(t, path, "INSERT INTO redo_fence VALUES (1)")
}

func TestOpenTakesAFileThatOtherTablesShare(t *testing.T) {
	path := newFile(t)
	sqlExec(t, path, "CREATE TABLE accounts (id INTEGER)")
	require.NoError(t, open(t, path).Close())
	st, err := sqlitestore.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	sqlExec(t, path, "INSERT INTO accounts VALUES (1)")
}

func TestOpenTakesWhatTheProgramsOwnToolHasMade(t *testing.T) {
	path := newFile(t)
	sqlExec(t, path, "PRAGMA journal_mode=WAL; "+sqlitestore.Migration())
	st, err := sqlitestore.Open(t.Context(), path)
	require.NoError(t, err)
	defer st.Close()
	reserve(t, st, claim("k"), store.Acquired)
}

// VACUUM INTO leaves WAL mode. docs/operations.md sets it again, because a service without WithMigrate does not.
func TestACopyByVacuumIntoNeedsWALMode(t *testing.T) {
	path := newFile(t)
	st := open(t, path)
	reserve(t, st, claim("k"), store.Acquired)
	dest := path + ".copy"
	sqlExec(t, path, "VACUUM INTO ?", dest)
	_, err := sqlitestore.Open(t.Context(), dest)
	require.ErrorContains(t, err, "set it with PRAGMA journal_mode=WAL")
	sqlExec(t, dest, "PRAGMA journal_mode=WAL")
	restored, err := sqlitestore.Open(t.Context(), dest)
	require.NoError(t, err)
	defer restored.Close()
	reserve(t, restored, claim("k"), store.InFlight)
}

func TestOpenRefusesPathsThatNameNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, rule := range map[string]string{
		"": "must name a file", ":memory:": "must name a file", ":memory:?cache=shared": "must name a file",
		"file:store.db": "must not be a URI", "file:store.db?_pragma=synchronous(OFF)": "must not be a URI",
		"store.db?_pragma=busy_timeout(5000)": "or have parameters", "store.db?_journal_mode=WAL": "or have parameters",
		"store.db?cache=shared&_pragma=busy_timeout(5000)": "or have parameters",
	} {
		_, err := sqlitestore.Open(t.Context(), path, sqlitestore.WithMigrate())
		require.ErrorIs(t, err, store.ErrInvalid, path)
		require.ErrorContains(t, err, rule, path)
	}
	made, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, made)
}

// The name of a file may have any character of a URI.
func TestOpenTakesAnyNameOfAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, name := range map[string]string{
		"./file:store.db": "file:store.db", "%41.db": "%41.db", "100%.db": "100%.db", "#": "#", "what?": "what?",
		"what?_now.db": "what?_now.db", "q?mode=ro": "q?mode=ro", "a&b=c;d'e\".db": "a&b=c;d'e\".db", "x/../y z.db": "y z.db",
	} {
		if runtime.GOOS == "windows" && strings.ContainsAny(name, `?:"`) {
			continue
		}
		open(t, path)
		require.FileExists(t, name)
	}
	if runtime.GOOS == "windows" {
		return // a link needs a right
	}
	require.NoError(t, os.Symlink("#", "link"))
	reserve(t, open(t, "link"), claim("k"), store.Acquired)
	reserve(t, open(t, "#"), claim("k"), store.InFlight)
	require.NoFileExists(t, "link-wal", "all paths of a file share its log")
}

func TestOpenRefusesWhatIsNotARegularFile(t *testing.T) {
	for _, path := range []string{t.TempDir(), os.DevNull} {
		for _, opts := range [][]sqlitestore.Option{nil, {sqlitestore.WithMigrate()}} {
			_, err := sqlitestore.Open(t.Context(), path, opts...)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, "is not a regular file")
		}
	}
}

// The process goes on in the file that has no name any more. Another process, or the next start, does not see its records.
func TestCheckRefusesAFileThatIsGoneOrReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows keeps the name of an open file")
	}
	path := newFile(t)
	st := open(t, path)
	require.NoError(t, st.Check(t.Context()))
	require.NoError(t, os.Rename(path, path+".old"))
	require.ErrorIs(t, st.Check(t.Context()), store.ErrUnavailable)
	require.ErrorIs(t, st.Check(t.Context()), fs.ErrNotExist)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	err := st.Check(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "was replaced")
	require.NoError(t, os.Rename(path+".old", path))
	require.NoError(t, st.Check(t.Context()))
}

// A relative path has no meaning in a directory that is gone. Without this error another file could be opened.
func TestOpenRefusesARelativePathInADirectoryThatIsGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows removes no directory that a process is in")
	}
	gone := t.TempDir()
	t.Chdir(gone)
	require.NoError(t, os.Remove(gone))
	_, err := sqlitestore.Open(t.Context(), "store.db", sqlitestore.WithMigrate())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "getwd")
}

// The operating system's error says more than SQLite's.
func TestOpenNamesTheReasonWhyAFileCanNotBeMade(t *testing.T) {
	_, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "no", "store.db"), sqlitestore.WithMigrate())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestANewFileIsItsOwnersAlone(t *testing.T) {
	path := newFile(t)
	open(t, path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestManyMigrateAtATime(t *testing.T) {
	path := newFile(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			st, err := sqlitestore.Open(context.Background(), path, sqlitestore.WithMigrate())
			if err == nil {
				err = st.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	reserve(t, open(t, path), claim("k"), store.Acquired)
}

func TestClosedStoreIsUnavailable(t *testing.T) {
	path := newFile(t)
	st := open(t, path)
	l := reserve(t, st, claim("k"), store.Acquired).Lease
	require.FileExists(t, path+"-wal")
	require.NoError(t, st.Close())
	require.NoFileExists(t, path+"-wal", "SQLite removes it with the last connection")
	_, err := st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	_, err = st.Find(t.Context(), l.ID)
	require.ErrorIs(t, err, store.ErrUnavailable)
	_, _, err = st.Begin(t.Context(), claim("other"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, st.Complete(t.Context(), l, store.Outcome{}), store.ErrUnavailable)
	require.ErrorIs(t, st.Wait(t.Context(), l.ID, l.Fence), store.ErrUnavailable)
	require.ErrorIs(t, st.Check(t.Context()), store.ErrUnavailable)
}

func TestWritesThatFailReturnAnErrorAndNoGrant(t *testing.T) {
	path := newFile(t)
	st := open(t, path)
	sqlExec(t, path, `CREATE TRIGGER refuse BEFORE INSERT ON redo_records BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	g, err := st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Zero(t, g)
	sqlExec(t, path, `CREATE TRIGGER fence BEFORE UPDATE ON redo_fence BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	g, err = st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Zero(t, g)
	sqlExec(t, path, "DROP TABLE redo_records")
	_, err = st.Purge(t.Context(), 1)
	require.ErrorIs(t, err, store.ErrUnavailable)
}

// The clock is an argument, so that nothing here waits.
func TestLeasesAndRetentionGoByTheClock(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	st := open(t, newFile(t), sqlitestore.WithClock(func() time.Time { return now }))
	c := claim("k")
	reserve(t, st, c, store.Acquired)
	now = now.Add(c.Lease - time.Microsecond)
	reserve(t, st, c, store.InFlight)
	now = now.Add(time.Microsecond)
	g := reserve(t, st, c, store.TakenOver)
	require.Equal(t, now.Add(c.Lease), g.Record.LeaseUntil)
	now = now.Add(c.Retention - time.Microsecond)
	l := reserve(t, st, c, store.TakenOver).Lease
	now = now.Add(c.Retention)
	require.ErrorIs(t, st.Complete(t.Context(), l, store.Outcome{}), store.ErrLost)
	listed := func() (n int) {
		for _, err := range st.Pending(t.Context(), "") {
			require.NoError(t, err)
			n++
		}
		return n
	}
	require.Zero(t, listed(), "the record has expired")
	reserve(t, st, c, store.Acquired)
	require.Equal(t, 1, listed(), "the record is of the list's instant")
}

func TestANewRecordFreesTwoExpiredOnes(t *testing.T) {
	now := time.Now()
	path := newFile(t)
	st := open(t, path, sqlitestore.WithClock(func() time.Time { return now }))
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		c := claim(key)
		c.Lease, c.Retention = 0, time.Minute
		reserve(t, st, c, store.Acquired)
	}
	count := func() (n int) {
		db := connect(t, path)
		defer db.Close()
		require.NoError(t, db.QueryRow("SELECT count(*) FROM redo_records").Scan(&n))
		return n
	}
	reserve(t, st, claim("live"), store.Acquired)
	require.Equal(t, 6, count(), "nothing has expired")
	now = now.Add(time.Minute)
	reserve(t, st, claim("live"), store.InFlight)
	require.Equal(t, 6, count(), "no record was made")
	reserve(t, st, claim("next"), store.Acquired)
	require.Equal(t, 5, count())
	tx, _, err := st.Begin(t.Context(), claim("in a transaction"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	require.Equal(t, 4, count())
}

// Another program's transaction is in the way of writes, and of nothing else.
func TestWritesWaitForOtherProgramsAsLongAsTheirContext(t *testing.T) {
	path := newFile(t)
	st := open(t, path)
	done := reserve(t, st, claim("done"), store.Acquired).Lease
	require.NoError(t, st.Complete(t.Context(), done, store.Outcome{}))
	db := connect(t, path)
	defer db.Close()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)

	reserve(t, st, claim("done"), store.Complete)
	require.NoError(t, st.Check(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = st.Reserve(ctx, claim("new"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, st.Forget(ctx, done), context.DeadlineExceeded)

	got := make(chan error)
	go func() {
		_, err := st.Reserve(t.Context(), claim("new"))
		got <- err
	}()
	_, err = conn.ExecContext(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, <-got)
}

func reserve(t testing.TB, st store.Store, c store.Claim, want store.Verdict) store.Grant {
	t.Helper()
	g, err := st.Reserve(context.Background(), c)
	require.NoError(t, err)
	require.Equal(t, want, g.Verdict)
	return g
}

func TestNilOptionsAreRefused(t *testing.T) {
	for _, o := range []sqlitestore.Option{nil, sqlitestore.WithClock(nil)} {
		_, err := sqlitestore.Open(t.Context(), newFile(t), o)
		require.ErrorIs(t, err, store.ErrInvalid)
	}
}

// No claim is lost on the way: neither as a grant without a verdict, nor as no transaction without an error.
func TestAContextThatEndsWithinAClaimIsItsError(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, st *sqlitestore.Store) error{
		"Reserve": func(ctx context.Context, st *sqlitestore.Store) error {
			_, err := st.Reserve(ctx, claim("k"))
			return err
		},
		"Begin": func(ctx context.Context, st *sqlitestore.Store) error {
			_, _, err := st.Begin(ctx, claim("k"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var reads atomic.Int32
			st := open(t, newFile(t), sqlitestore.WithClock(func() time.Time {
				if reads.Add(1) == 2 { // the one in the transaction
					cancel()
				}
				return time.Now()
			}))
			reads.Store(0)
			require.ErrorIs(t, call(ctx, st), context.Canceled)
			reserve(t, st, claim("k"), store.Acquired)
		})
	}
}

// The tables are missing then too, but that is not the reason.
func TestMigrateNamesTheReasonWhyItMakesNoTables(t *testing.T) {
	path := newFile(t)
	sqlExec(t, path, "PRAGMA journal_mode=WAL")
	sqlExec(t, path, "CREATE TABLE others (id INTEGER)")
	sqlExec(t, path, "CREATE INDEX redo_records_pending ON others (id)")
	_, err := sqlitestore.Open(t.Context(), path, sqlitestore.WithMigrate())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "redo_records_pending already exists")
}

func TestMigrateWaitsForALockAsLongAsItsContext(t *testing.T) {
	path := newFile(t)
	other := connect(t, path)
	defer other.Close()
	other.SetMaxOpenConns(1)
	_, err := other.Exec("PRAGMA journal_mode=WAL; CREATE TABLE others (id INTEGER); BEGIN IMMEDIATE")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = sqlitestore.Open(ctx, path, sqlitestore.WithMigrate())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = other.Exec("COMMIT")
	require.NoError(t, err)
	open(t, path)
}

// Another program may keep the file's lock, for one long transaction or for good (locking_mode=EXCLUSIVE). The error of
// the call names the lock, and not the end of its context alone.
func TestALockOfAnotherProgramIsNamed(t *testing.T) {
	path := newFile(t)
	st := open(t, path)
	other := connect(t, path)
	defer other.Close()
	other.SetMaxOpenConns(1)
	_, err := other.Exec("BEGIN IMMEDIATE")
	require.NoError(t, err)
	named := func(call func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err := call(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "database is locked")
	}
	named(func(ctx context.Context) error { _, err := st.Reserve(ctx, claim("k")); return err })
	named(func(ctx context.Context) error { _, _, err := st.Begin(ctx, claim("k")); return err })
	named(func(ctx context.Context) error { _, err := st.Purge(ctx, 1); return err })
	require.NoError(t, st.Close())
	_, err = other.Exec("COMMIT; PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT")
	require.NoError(t, err)
	named(func(ctx context.Context) error { _, err := sqlitestore.Open(ctx, path); return err })
	named(func(ctx context.Context) error {
		_, err := sqlitestore.Open(ctx, path, sqlitestore.WithMigrate())
		return err
	})
}

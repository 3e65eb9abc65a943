package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
)

// privateStandby is a streaming standby of the server, to be promoted.
func privateStandby(t *testing.T, primary *server) *server {
	t.Helper()
	if _, err := os.Stat(filepath.Join(primary.bin, "pg_basebackup")); err != nil {
		skip(t, err)
	}
	dir, err := newDir()
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Geteuid() == 0 {
		require.NoError(t, give(dir, "postgres"))
	}
	s := &server{bin: primary.bin, dir: dir}
	require.NoError(t, s.run("pg_basebackup", "-d", primary.url, "-D", s.cluster(), "-R", "-X", "stream", "-c", "fast", "--no-sync"))
	require.NoError(t, s.startSomewhere())
	t.Cleanup(func() { require.NoError(t, s.stop()) })
	return s
}

func (s *server) promote(t *testing.T) {
	t.Helper()
	require.NoError(t, s.run("pg_ctl", "-D", s.cluster(), "-w", "-t", "60", "promote"))
}

// configure changes a setting of the running server.
func (s *server) configure(t *testing.T, setting, value string) {
	t.Helper()
	conn := admin(t, s.url)
	sqlExec(t, conn, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", setting, value))
	sqlExec(t, conn, "SELECT pg_reload_conf()")
}

// holds asks the server a question.
func (s *server) holds(question string) bool {
	conn, err := pgx.Connect(context.Background(), s.url)
	if err != nil {
		return false
	}
	defer conn.Close(context.Background())
	var yes bool
	return conn.QueryRow(context.Background(), question).Scan(&yes) == nil && yes
}

// inStepWith polls until the standby shows all that the primary has written.
func (s *server) inStepWith(t *testing.T, primary *server) {
	t.Helper()
	var written string
	require.NoError(t, admin(t, primary.url).QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&written))
	until(t, "the standby is in step", func() bool {
		return s.holds("SELECT pg_last_wal_replay_lsn() >= '" + written + "'")
	})
}

// cutOff keeps the standby from what is written from now on.
func (s *server) cutOff(t *testing.T) {
	t.Helper()
	s.configure(t, "primary_conninfo", "")
	until(t, "the standby is cut off", func() bool { return s.holds("SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)") })
}

// both is a connection string with which whichever of the two is the primary is found.
func both(one, two *server) string {
	hosts := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", one.port, two.port)
	return strings.Replace(one.url, fmt.Sprintf("127.0.0.1:%d", one.port), hosts, 1) + "&target_session_attrs=read-write"
}

func TestStandby(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers of its own")
	}
	t.Parallel()
	primary := privateServer(t)
	p := place{url: primary.url, schema: "public", conns: 2}
	st := p.open(t)
	sqlExec(t, admin(t, p.url), "CREATE TABLE effects (key text NOT NULL)")
	standby := privateStandby(t, primary)
	t.Run("is refused", func(t *testing.T) { refusesAsStandby(t, st, primary, standby) })
	t.Run("is promoted and was behind", func(t *testing.T) { wasBehind(t, p, st, primary, standby) })
}

// A standby answers nothing: what it says may have been overtaken, and who asks after a lost answer has to be told the truth.
func refusesAsStandby(t *testing.T, on *pgstore.Store, primary, standby *server) {
	pending := reserve(t, on, claim("pending"), store.Acquired)
	standby.inStepWith(t, primary)
	_, err := pgstore.Open(t.Context(), standby.url)
	require.ErrorIs(t, err, pgstore.ErrStandby)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "target_session_attrs=read-write")
	_, err = pgstore.Open(t.Context(), standby.url, pgstore.WithMigrate())
	require.ErrorIs(t, err, pgstore.ErrStandby)
	st, err := pgstore.New(newPool(t, standby.url, 2))
	require.NoError(t, err)
	for name, call := range map[string]func() error{
		"Check":    func() error { return st.Check(t.Context()) },
		"Migrate":  func() error { return st.Migrate(t.Context()) },
		"Reserve":  func() error { _, err := st.Reserve(t.Context(), claim("new")); return err },
		"Replay":   func() error { _, err := st.Reserve(t.Context(), claim("pending")); return err },
		"Begin":    func() error { _, _, err := st.Begin(t.Context(), claim("new")); return err },
		"Look":     func() error { _, _, err := st.Begin(t.Context(), claim("pending")); return err },
		"Extend":   func() error { return st.Extend(t.Context(), pending.Lease, long, nil) },
		"Complete": func() error { return st.Complete(t.Context(), pending.Lease, store.Outcome{}) },
		"Lazy":     func() error { return st.Complete(t.Context(), pending.Lease, store.Outcome{Lazy: true}) },
		"Release":  func() error { return st.Release(t.Context(), pending.Lease) },
		"Forget":   func() error { return st.Forget(t.Context(), pending.Lease) },
		"Find":     func() error { _, err := st.Find(t.Context(), pending.Lease.ID); return err },
		"Absent":   func() error { _, err := st.Find(t.Context(), claim("new").ID); return err },
		"Wait":     func() error { return st.Wait(t.Context(), claim("new").ID, 1) },
		"Pending": func() error {
			for _, err := range st.Pending(t.Context(), "scope") {
				return err
			}
			return nil
		},
		"Purge": func() error { _, err := st.Purge(t.Context(), 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := call()
			require.ErrorIs(t, err, pgstore.ErrStandby)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrUnknown)
		})
	}

	// Where the connection string names both, in whatever order, the primary is found.
	st, err = pgstore.Open(t.Context(), both(standby, primary))
	require.NoError(t, err)
	require.Equal(t, pending.Record.Fence, find(t, st, "pending").Fence)
	require.NoError(t, st.Close())
}

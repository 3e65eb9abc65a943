package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A full disk changes nothing, and nothing is unknown.
func TestFullDiskChangesNothing(t *testing.T) {
	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "full.db"), WithMigrate())
	require.NoError(t, err)
	defer st.Close()
	c := store.Claim{ID: store.ID{Key: "k"}, Retention: time.Hour}
	first, err := st.Reserve(t.Context(), c)
	require.NoError(t, err)
	_, err = st.writes.Exec("PRAGMA max_page_count = 12")
	require.NoError(t, err)
	big := bytes.Repeat([]byte("result"), 1<<16)

	err = st.Complete(t.Context(), first.Lease, store.Outcome{Result: big})
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
	rec, err := st.Find(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, store.StatePending, rec.State)

	c.ID.Key = "transaction"
	tx, _, err := st.Begin(t.Context(), c)
	require.NoError(t, err)
	err = tx.Commit(t.Context(), store.Outcome{Result: big})
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
	_, err = st.Find(t.Context(), c.ID)
	require.ErrorIs(t, err, store.ErrNotFound)

	_, err = st.writes.Exec("PRAGMA max_page_count = 10000")
	require.NoError(t, err)
	require.NoError(t, st.Complete(t.Context(), first.Lease, store.Outcome{Result: big}))
}

// orphans makes the commit of each new record fail.
const orphans = `PRAGMA foreign_keys = ON; CREATE TABLE parents (id INTEGER PRIMARY KEY);
	CREATE TABLE children (id INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
	CREATE TRIGGER orphan AFTER INSERT ON redo_records BEGIN INSERT INTO children VALUES (1); END`

// The error of a commit that may have been made is unknown.
func TestCommitThatFailsForAnotherReasonIsUnknown(t *testing.T) {
	require.NoError(t, committed(nil))
	require.Equal(t, errOvertaken, committed(errOvertaken), "and nothing was committed")
	require.ErrorIs(t, committed(fmt.Errorf("disk I/O error")), store.ErrUnknown)

	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "constraint.db"), WithMigrate())
	require.NoError(t, err)
	defer st.Close()
	_, err = st.writes.Exec(orphans)
	require.NoError(t, err)
	g, err := st.Reserve(t.Context(), store.Claim{ID: store.ID{Key: "k"}, Retention: time.Hour})
	require.ErrorIs(t, err, store.ErrUnknown)
	require.Zero(t, g)
}

// SQLite opens a file that the process may not write to, and reads it.
func TestCheckRefusesAReadOnlyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "readonly.db")
	st, err := Open(t.Context(), path, WithMigrate())
	require.NoError(t, err)
	defer st.Close()
	require.NoError(t, st.draws.Close())
	st.draws, err = sql.Open("sqlite", "file:"+escape.Replace(path)+"?mode=ro&_txlock=immediate")
	require.NoError(t, err)
	err = st.Check(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "readonly")
}

// An owner that died leaves its announcement. The next write of the file removes it.
func TestAnnouncementOfADeadOwnerIsRemoved(t *testing.T) {
	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "dead.db"), WithMigrate())
	require.NoError(t, err)
	defer st.Close()
	id := store.ID{Scope: "scope", Key: "k"}
	_, err = st.draw(t.Context(), id)
	require.NoError(t, err)
	held := func(id store.ID) bool {
		now, err := st.read(context.Background(), st.reads, id)
		require.NoError(t, err)
		return now.began
	}
	require.True(t, held(id))
	require.False(t, held(store.ID{Scope: "scope", Key: "another"}))
	g, err := st.Reserve(t.Context(), store.Claim{ID: id, Retention: time.Hour})
	require.NoError(t, err)
	require.Equal(t, store.Acquired, g.Verdict)
	require.False(t, held(id))
}

func TestCallIsRepeatedWhileTheFileIsBusy(t *testing.T) {
	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "busy.db"), WithMigrate())
	require.NoError(t, err)
	defer st.Close()
	for name, run := range map[string]func(ctx context.Context, f func() error) error{
		"repeat": st.repeat,
		"change": func(ctx context.Context, f func() error) error {
			return st.change(ctx, func(*sql.Tx) error { return f() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			require.NoError(t, run(ctx, func() error {
				if calls++; calls < 3 {
					return errOvertaken
				}
				return nil
			}))
			require.Equal(t, 3, calls)
			require.ErrorIs(t, run(ctx, func() error {
				cancel()
				return errOvertaken
			}), context.Canceled)
		})
	}
}

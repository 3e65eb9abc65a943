package boltstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// refused opens a file that must be refused, by name, and left alone.
func refused(t *testing.T, path string, kind error, opts ...Option) {
	t.Helper()
	open := func() error {
		s, err := Open(path, opts...)
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	before, readErr := os.ReadFile(path)
	err := hangtest.Within(t, open)
	require.ErrorIs(t, err, kind)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, strconv.Quote(path))
	require.ErrorIs(t, hangtest.Within(t, open), kind, "the second time")
	if readErr == nil {
		requireUnchanged(t, before, path)
	}
}

// requireUnchanged fails if Open has changed a file that it refused.
func requireUnchanged(t testing.TB, before []byte, path string) {
	t.Helper()
	after := readAll(t, path)
	if more := len(after) - len(before); runtime.GOOS == "windows" && more > 0 {
		before = append(slices.Clone(before), make([]byte, more)...) // there bbolt lengthens each file that it opens
	}
	require.True(t, bytes.Equal(before, after), "the file was changed")
}

// edit changes a file with bare bbolt.
func edit(t testing.TB, path string, f func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(f))
	require.NoError(t, db.Close())
}

func TestOpenRefuses(t *testing.T) {
	closed := func(t *testing.T) string {
		path := tempFile(t)
		s := mustOpen(t, path)
		mustSettle(t, s, "k", store.Outcome{})
		require.NoError(t, s.Close())
		return path
	}
	for name, c := range map[string]struct {
		content string
		kind    error
	}{
		"a short text":       {"hello", ErrFormat},
		"a long text":        {strings.Repeat("hello", 20_000), ErrFormat},
		"a text of one page": {strings.Repeat("x", 4096), errOpen},
	} {
		t.Run(name, func(t *testing.T) {
			path := tempFile(t)
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
			refused(t, path, c.kind)
		})
	}
	t.Run("a directory", func(t *testing.T) {
		refused(t, t.TempDir(), errOpen)
	})
	t.Run("a file in a missing directory", func(t *testing.T) {
		refused(t, filepath.Join(t.TempDir(), "missing", "test.redo"), os.ErrNotExist)
	})
	t.Run("below a file", func(t *testing.T) {
		path := filepath.Join(writeFile(t, nil), "test.redo")
		_, err := os.Stat(path)
		require.Error(t, err)
		refused(t, path, errOpen)
	})
	t.Run("a file that may not be written", func(t *testing.T) {
		if os.Geteuid() <= 0 {
			t.Skip("the superuser may write any file, and Windows has other permissions")
		}
		path := closed(t)
		require.NoError(t, os.Chmod(path, 0o400))
		refused(t, path, os.ErrPermission)
	})
	t.Run("a directory that may not be written", func(t *testing.T) {
		if os.Geteuid() <= 0 {
			t.Skip("the superuser may write any directory, and Windows has other permissions")
		}
		path := tempFile(t)
		require.NoError(t, os.Chmod(filepath.Dir(path), 0o500))
		refused(t, path, os.ErrPermission)
	})
	t.Run("another application's file", func(t *testing.T) {
		path := tempFile(t)
		edit(t, path, func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket([]byte("theirs"))
			return err
		})
		refused(t, path, ErrFormat)
	})
	t.Run("another application's bucket of our name", func(t *testing.T) {
		path := tempFile(t)
		edit(t, path, func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket(rootName)
			return err
		})
		refused(t, path, ErrFormat)
	})
	t.Run("a file of a later release", func(t *testing.T) {
		path := closed(t)
		edit(t, path, func(tx *bbolt.Tx) error {
			return tx.Bucket(rootName).Put(formatKey, append([]byte(magic), formatVersion+1))
		})
		refused(t, path, ErrFormat)
	})
	t.Run("a file without its buckets", func(t *testing.T) {
		path := closed(t)
		edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(rootName).DeleteBucket(expiryName) })
		refused(t, path, ErrCorrupt)
	})
	t.Run("a file whose state is damaged", func(t *testing.T) {
		path := closed(t)
		edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(rootName).Put(stateKey, make([]byte, 20)) })
		refused(t, path, ErrCorrupt)
	})
	t.Run("a file that is open", func(t *testing.T) {
		path := tempFile(t)
		s := mustOpen(t, path)
		refused(t, path, ErrInUse)
		require.NoError(t, s.Close())
		mustOpen(t, path)
	})
	t.Run("a bad option", func(t *testing.T) {
		for _, o := range []Option{WithLazyDelay(-1), WithMaxSize(-1)} {
			_, err := Open(tempFile(t), o)
			require.ErrorIs(t, err, store.ErrInvalid)
		}
	})
}

func TestOpenAccepts(t *testing.T) {
	t.Run("a new path, for its owner alone", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("there the directory decides who may read its files")
		}
		path := tempFile(t)
		mustOpen(t, path)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	})
	t.Run("an empty file", func(t *testing.T) {
		path := tempFile(t)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		s := mustOpen(t, path)
		mustReserve(t, s, claim("k"), store.Acquired)
	})
	t.Run("a file of bbolt's without a bucket", func(t *testing.T) {
		path := tempFile(t)
		edit(t, path, func(*bbolt.Tx) error { return nil })
		mustReserve(t, mustOpen(t, path), claim("k"), store.Acquired)
	})
	t.Run("a file of bbolt's without a free list", func(t *testing.T) {
		path := tempFile(t)
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
		require.NoError(t, err)
		require.NoError(t, db.Update(create))
		require.NoError(t, db.Close())
		mustReserve(t, mustOpen(t, path), claim("k"), store.Acquired)
	})
	t.Run("our file with the application's buckets, and leaves those alone", func(t *testing.T) {
		path := tempFile(t)
		s := mustOpen(t, path)
		mustSettle(t, s, "k", store.Outcome{})
		require.NoError(t, s.Close())
		edit(t, path, func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte("accounts"))
			if err != nil {
				return err
			}
			return b.Put([]byte("alice"), []byte("100"))
		})
		s = mustOpen(t, path)
		mustReserve(t, s, claim("k"), store.Complete)
		mustReserve(t, s, claim("other"), store.Acquired)
		require.NoError(t, s.Close())
		edit(t, path, func(tx *bbolt.Tx) error {
			require.Equal(t, "100", string(tx.Bucket([]byte("accounts")).Get([]byte("alice"))))
			return nil
		})
	})
	t.Run("our file, and writes nothing by that alone", func(t *testing.T) {
		path := tempFile(t)
		s := mustOpen(t, path)
		mustReserve(t, s, claim("k"), store.Acquired)
		require.NoError(t, s.Close())
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		s = mustOpen(t, path)
		mustReserve(t, s, claim("k"), store.TakenOver)
		require.NoError(t, s.Close())
		require.NotEqual(t, before, readAll(t, path))

		before = readAll(t, path)
		s = mustOpen(t, path)
		_ = find(t, s, "k")
		require.Zero(t, s.Stats().Commits)
		require.NoError(t, s.Close())
		require.True(t, string(before) == string(readAll(t, path)))
	})
}

func readAll(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

func TestReopen(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	pending := mustReserve(t, s, claim("pending"), store.Acquired)
	complete := mustSettle(t, s, "complete", store.Outcome{Result: []byte("result"), Retention: store.Forever})
	released := mustReserve(t, s, claim("released"), store.Acquired)
	require.NoError(t, s.Release(t.Context(), released.Lease))
	fence := released.Lease.Fence
	for round := range 3 {
		require.NoError(t, s.Close())
		s = mustOpen(t, path)
		t.Run(fmt.Sprintf("restart %d voids the lease and keeps the record", round), func(t *testing.T) {
			r := find(t, s, "pending")
			require.Equal(t, store.StatePending, r.State)
			require.Zero(t, r.LeaseLeft())
			require.True(t, r.LeaseUntil.IsZero())
			require.Equal(t, pending.Record.Meta, r.Meta)
			require.True(t, pending.Record.CreatedAt.Equal(r.CreatedAt))
			require.Equal(t, []string{"pending"}, pendingKeys(t, s, "scope"))
		})
		t.Run(fmt.Sprintf("restart %d keeps what is settled and what is gone", round), func(t *testing.T) {
			r := find(t, s, "complete")
			require.Equal(t, "result", string(r.Result))
			require.Equal(t, complete.Fence, r.Fence)
			require.True(t, r.ExpiresAt.IsZero())
			_, err := s.Find(t.Context(), released.Lease.ID)
			require.ErrorIs(t, err, store.ErrNotFound)
		})
		t.Run(fmt.Sprintf("restart %d lets the record be taken over under a larger fence", round), func(t *testing.T) {
			g := mustReserve(t, s, claim("pending"), store.TakenOver)
			require.Greater(t, g.Lease.Fence, fence)
			fence = g.Lease.Fence
			mustReserve(t, s, claim("pending"), store.InFlight)
			require.ErrorIs(t, s.Extend(t.Context(), pending.Lease, time.Hour, nil), store.ErrLost)
		})
	}
}

func TestCheck(t *testing.T) {
	stays := func(t *testing.T) {
		t.Helper()
		if runtime.GOOS == "windows" {
			t.Skip("there an open file stays in its place")
		}
	}
	t.Run("passes while the file is in its place", func(t *testing.T) {
		require.NoError(t, mustOpen(t, tempFile(t)).Check(t.Context()))
	})
	t.Run("fails when the file was removed", func(t *testing.T) {
		stays(t)
		path := tempFile(t)
		s := mustOpen(t, path)
		require.NoError(t, os.Remove(path))
		require.ErrorIs(t, s.Check(t.Context()), store.ErrUnavailable)
	})
	t.Run("fails when the file was replaced", func(t *testing.T) {
		stays(t)
		path := tempFile(t)
		s := mustOpen(t, path)
		require.NoError(t, os.Rename(path, path+".old"))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.ErrorIs(t, s.Check(t.Context()), store.ErrUnavailable)
	})
}

package pebblestore

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// refused opens a directory that must be refused, by name, and left alone.
func refused(t *testing.T, path string, kind error) {
	t.Helper()
	before := listing(t, path)
	s, err := Open(path)
	if err == nil {
		_ = s.Close()
	}
	require.ErrorIs(t, err, kind)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, path)
	require.Equal(t, before, listing(t, path), "the directory was changed")
}

func listing(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

// closed returns the path of a store that has the settled record k.
func closed(t *testing.T) string {
	t.Helper()
	path := tempDir(t)
	s := mustOpen(t, path)
	mustSettle(t, s, "k", store.Outcome{Result: []byte("result")})
	require.NoError(t, s.Close())
	return path
}

func TestOpenRefuses(t *testing.T) {
	t.Run("a file", func(t *testing.T) {
		path := tempDir(t)
		require.NoError(t, os.WriteFile(path, []byte("hello"), 0o600))
		refused(t, path, errOpen)
	})
	t.Run("a directory in a missing one", func(t *testing.T) {
		refused(t, filepath.Join(t.TempDir(), "missing", "test.redo"), os.ErrNotExist)
	})
	t.Run("another application's directory", func(t *testing.T) {
		path := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(path, "theirs"), nil, 0o600))
		refused(t, path, ErrFormat)
		require.NoFileExists(t, filepath.Join(path, lockName))
	})
	t.Run("another application's Pebble", func(t *testing.T) {
		path := t.TempDir()
		db, err := pebble.Open(path, &pebble.Options{})
		require.NoError(t, err)
		require.NoError(t, db.Close())
		refused(t, path, ErrFormat)
	})
	t.Run("another application's files beside a store whose making was interrupted", func(t *testing.T) {
		for _, name := range []string{"theirs", "2026.log", "marker", "OPTIONS"} {
			path := t.TempDir()
			require.NoError(t, writeFormat(vfs.Default, path, newName))
			require.NoError(t, os.Mkdir(filepath.Join(path, name), 0o700))
			refused(t, path, ErrFormat)
		}
	})
	t.Run("a directory of a later release", func(t *testing.T) {
		path := closed(t)
		require.NoError(t, os.WriteFile(filepath.Join(path, formatName), []byte("redo pebblestore 2\n"), 0o600))
		refused(t, path, ErrFormat)
	})
	t.Run("a directory that lost its database", func(t *testing.T) {
		path := closed(t)
		for _, name := range listing(t, path) {
			if name != formatName {
				require.NoError(t, os.RemoveAll(filepath.Join(path, name)))
			}
		}
		refused(t, path, ErrCorrupt)
	})
	t.Run("a directory that is open", func(t *testing.T) {
		path := closed(t)
		s := mustOpen(t, path)
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(path, link))
		for _, name := range []string{path, link} {
			_, err := Open(name)
			require.ErrorIs(t, err, ErrInUse)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, path)
		}
		mustReserve(t, s, claim("k"), store.Complete)
		require.NoError(t, s.Close())
		mustOpen(t, path)
	})
	t.Run("a directory whose lock can't be made", func(t *testing.T) {
		for _, cause := range []error{
			&fs.PathError{Op: "open", Path: lockName, Err: syscall.EMFILE}, fs.ErrPermission,
			syscall.ENOLCK, syscall.ENOSYS, // a file system without locks
			syscall.EPIPE, // on Windows, its number means that another process has the lock
		} {
			disk := newFaultyDisk(t)
			disk.set(func(op errorfs.Op) error {
				if strings.HasSuffix(op.Path, lockName) {
					return cause
				}
				return nil
			})
			_, err := Open("/data/x", withFS(disk))
			require.ErrorIs(t, err, cause)
			require.ErrorIs(t, err, errOpen)
			require.NotErrorIs(t, err, ErrInUse)
		}
	})
	t.Run("a directory that another process has locked", func(t *testing.T) {
		disk := newFaultyDisk(t)
		disk.set(func(op errorfs.Op) error {
			if strings.HasSuffix(op.Path, lockName) {
				return syscall.EAGAIN
			}
			return nil
		})
		_, err := Open("/data/x", withFS(disk))
		require.ErrorIs(t, err, ErrInUse)
	})
	t.Run("a negative delay", func(t *testing.T) {
		_, err := Open(tempDir(t), WithLazyDelay(-1))
		require.ErrorIs(t, err, store.ErrInvalid)
	})
}

// The twins of the directories that are refused.
func TestOpenTakes(t *testing.T) {
	for name, prepared := range map[string]func(t *testing.T) string{
		"a missing directory": func(t *testing.T) string { return tempDir(t) },
		"an empty directory":  func(t *testing.T) string { return t.TempDir() },
		"a directory whose making was interrupted": func(t *testing.T) string {
			path := t.TempDir()
			require.NoError(t, mustOpen(t, path).Close()) // it made all files of a new directory
			require.NoError(t, os.WriteFile(filepath.Join(path, "000002.log"), []byte("half"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(path, "temporary.000003.dbtmp"), nil, 0o600))
			require.NoError(t, os.Rename(filepath.Join(path, formatName), filepath.Join(path, newName)))
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := prepared(t)
			s := mustOpen(t, path, nil, WithLazyDelay(0))
			require.FileExists(t, filepath.Join(path, lockName), "without it, another process can open the directory")
			mustSettle(t, s, "k", store.Outcome{Lazy: true})
			require.NoError(t, s.Close())
			s = mustOpen(t, path)
			mustReserve(t, s, claim("k"), store.Complete)
			require.NoError(t, s.Check(t.Context()))
			require.NoError(t, os.Rename(path, path+".moved"))
			require.ErrorIs(t, s.Check(t.Context()), store.ErrUnavailable)
			require.NoError(t, os.Rename(path+".moved", path))
		})
	}
}

// Another process can open the new directory, and both would own the same keys.
func TestCheckSeesThatTheDirectoryWasReplaced(t *testing.T) {
	path := closed(t)
	s := mustOpen(t, path)
	require.NoError(t, os.Rename(path, path+".moved"))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, writeFormat(vfs.Default, path, formatName))
	require.ErrorIs(t, s.Check(t.Context()), store.ErrUnavailable)
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.Rename(path+".moved", path))
	require.NoError(t, s.Check(t.Context()))
}

// A umask may take permissions away, and adds none.
func TestANewDirectoryIsItsOwnersAlone(t *testing.T) {
	path := tempDir(t)
	mustOpen(t, path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// Inside a process a lock goes by the directory's name. Two Stores of one directory would damage it.
func TestANewDirectoryIsLockedUnderEachOfItsNames(t *testing.T) {
	parent := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(parent, link))
	mustOpen(t, filepath.Join(link, "test.redo"))
	for _, name := range []string{parent, link} {
		_, err := Open(filepath.Join(name, "test.redo"))
		require.ErrorIs(t, err, ErrInUse)
	}
}

func TestFenceIsNeverGivenOutAgain(t *testing.T) {
	path, last := tempDir(t), uint64(0)
	for range 4 {
		s := mustOpen(t, path)
		for range 3 {
			g := mustReserve(t, s, claim("k"), store.Acquired)
			require.Greater(t, g.Lease.Fence, last)
			last = g.Lease.Fence
			require.NoError(t, s.Release(t.Context(), g.Lease))
		}
		s.mu.Lock()
		s.fence = s.fences // the next fence needs another block
		last = s.fence
		s.mu.Unlock()
		g := mustReserve(t, s, claim("k"), store.Acquired)
		require.Greater(t, g.Lease.Fence, last)
		last = g.Lease.Fence
		require.NoError(t, s.Release(t.Context(), g.Lease))
		require.NoError(t, s.Close())
	}
}

func TestFlippedByteIsNeverAWrongResult(t *testing.T) {
	sample := closed(t)
	flipped, refusals := 0, 0
	for _, name := range listing(t, sample) {
		content, err := os.ReadFile(filepath.Join(sample, name))
		require.NoError(t, err)
		for at := 0; at < len(content); at += 1 + len(content)/64 {
			path := t.TempDir()
			require.NoError(t, os.CopyFS(filepath.Join(path, "x"), os.DirFS(sample)))
			bad := append([]byte(nil), content...)
			bad[at] ^= 0x10
			require.NoError(t, os.WriteFile(filepath.Join(path, "x", name), bad, 0o600))
			flipped++
			s, err := Open(filepath.Join(path, "x"))
			if err != nil {
				refusals++
				continue
			}
			r, err := s.Find(t.Context(), claim("k").ID)
			if err == nil {
				require.Equal(t, "result", string(r.Result), "%s at %d", name, at)
			} else {
				require.ErrorIs(t, err, ErrCorrupt, "%s at %d", name, at)
				refusals++
			}
			_ = s.Close()
		}
	}
	require.Positive(t, refusals)
	require.Greater(t, flipped, refusals)
}

// A crash leaves changes in the log. Pebble finds damage before its last synced block, of 32 KiB.
func TestFlippedByteInTheLogOfACrashIsNeverAWrongResult(t *testing.T) {
	path, sample := tempDir(t), filepath.Join(t.TempDir(), "crashed")
	s := mustOpen(t, path)
	const n = 400
	for i := range n {
		c := claim(fmt.Sprint(i))
		c.Meta = make([]byte, 1024)
		mustReserve(t, s, c, store.Acquired)
	}
	require.NoError(t, os.CopyFS(sample, os.DirFS(path)))
	name, content := largestLog(t, sample)
	refusals := 0
	for at := 100; at < len(content)-(64<<10); at += 21_000 {
		bad := append([]byte(nil), content...)
		bad[at] ^= 0x10
		copied := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.CopyFS(copied, os.DirFS(sample)))
		require.NoError(t, os.WriteFile(filepath.Join(copied, name), bad, 0o600))
		s, err := Open(copied)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			refusals++
			continue
		}
		for i := range n {
			_, err := s.Find(t.Context(), claim(fmt.Sprint(i)).ID)
			require.NoError(t, err, "a byte at %d of %d", at, len(content))
		}
		require.NoError(t, s.Close())
	}
	require.Positive(t, refusals)
	undamaged := mustOpen(t, sample)
	for i := range n {
		mustReserve(t, undamaged, claim(fmt.Sprint(i)), store.TakenOver)
	}
}

// largestLog returns the log with the most changes, without the zeros after them.
func largestLog(t *testing.T, path string) (name string, content []byte) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(path, "*.log"))
	require.NoError(t, err)
	for _, log := range logs {
		b, err := os.ReadFile(log)
		require.NoError(t, err)
		if b = bytes.TrimRight(b, "\x00"); len(b) > len(content) {
			name, content = filepath.Base(log), b
		}
	}
	require.Greater(t, len(content), 128<<10)
	return name, content
}

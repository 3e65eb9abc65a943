package boltstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// A later commit that succeeds proves nothing about the pages whose sync failed.
func TestFailedSyncEndsTheStore(t *testing.T) {
	path := tempFile(t)
	var f fails
	s := mustOpen(t, path, f.option(), WithLazyDelay(time.Hour))
	l := mustReserve(t, s, claim("before"), store.Acquired).Lease
	lazy := mustReserve(t, s, claim("lazy"), store.Acquired).Lease
	waiting := make(chan error, 1)
	go func() { waiting <- s.Wait(t.Context(), l.ID, l.Fence) }()
	f.how = func(tx *bbolt.Tx) error { return errors.Join(syscall.EIO, tx.Commit()) }
	err := hangtest.Received(t, reserving(t, s, "during"))
	require.ErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, err, syscall.EIO)
	f.how = nil
	require.ErrorIs(t, hangtest.Received(t, waiting), store.ErrUnavailable)
	for name, call := range map[string]func() error{
		"Reserve":  func() error { _, err := s.Reserve(t.Context(), claim("new")); return err },
		"Complete": func() error { return s.Complete(t.Context(), l, store.Outcome{}) },
		"lazily":   func() error { return s.Complete(t.Context(), lazy, store.Outcome{Lazy: true}) },
		"Begin":    func() error { _, _, err := s.Begin(t.Context(), claim("new")); return err },
		"Find":     func() error { _, err := s.Find(t.Context(), l.ID); return err },
		"Check":    func() error { return s.Check(t.Context()) },
	} {
		err := hangtest.Within(t, call)
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		require.ErrorIs(t, err, syscall.EIO, name)
		require.ErrorContains(t, err, strconv.Quote(path), name)
	}
	require.NoError(t, s.Close())
	s = mustOpen(t, path)
	mustReserve(t, s, claim("before"), store.TakenOver)
	mustReserve(t, s, claim("new"), store.Acquired)
}

// A commit on top of one that may not be on disk would overwrite pages that the disk still needs.
func TestAStoreThatCannotMakeItsLastCommitDurableEnds(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	sound := s.file
	readOnly, err := os.Open(path)
	require.NoError(t, err)
	defer readOnly.Close()
	s.writing <- struct{}{} // the writer must not commit meanwhile
	s.mu.Lock()
	s.suspect = true
	s.mu.Unlock()
	s.file = readOnly
	<-s.writing
	before := s.Stats().Commits
	_, err = s.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
	require.Equal(t, before, s.Stats().Commits)
	require.ErrorIs(t, s.Check(t.Context()), store.ErrUnavailable)
	s.file = sound
	require.NoError(t, s.Close())
	mustReserve(t, mustOpen(t, path), claim("k"), store.Acquired)
}

// The twin: a write that failed has changed nothing, and the disk may have room again.
func TestFailedWriteDoesNotEndTheStore(t *testing.T) {
	var f fails
	s := mustOpen(t, tempFile(t), f.option())
	full := &fs.PathError{Op: "write", Path: "file", Err: syscall.ENOSPC}
	f.how = func(tx *bbolt.Tx) error { return errors.Join(full, tx.Rollback()) }
	_, err := s.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
	f.how = nil
	mustReserve(t, s, claim("k"), store.Acquired)
}

func TestSyncFailed(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		grown bool
		want  bool
	}{
		{"the sync of the pages", syscall.EIO, false, true},
		{"the sync of the pages, where it is a method of the file", &fs.PathError{Op: "sync", Err: syscall.EIO}, false, true},
		{"the sync of a longer file", errors.New("file sync error: input/output error"), true, true},
		{"a file that can't grow", errors.New("file resize error: file too large"), false, false},
		{"a write on a full disk", &fs.PathError{Op: "write", Err: syscall.ENOSPC}, true, false},
		{"another error", errDisk, false, false},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, syncFailed(c.err, c.grown)) })
	}
}

// A process that died before a sync, or whose sync failed, has left a commit that is not on disk. verify/disk shows the
// damage without this write.
func TestOpenWritesTheLastCommitAgain(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	mustReserve(t, s, claim("k"), store.Acquired)
	require.NoError(t, s.Close())
	before := readAll(t, path)
	old := time.Unix(1, 0)
	require.NoError(t, os.Chtimes(path, old, old))
	require.NoError(t, mustOpen(t, path).Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, info.ModTime().After(old), "Open has written nothing")
	require.True(t, string(before) == string(readAll(t, path)), "Open has changed the content")
}

// A symbolic link in another directory names the file.
func TestOpenFollowsALinkToTheDirectoryThatItSyncs(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target.redo")
	link := filepath.Join(t.TempDir(), "link.redo")
	require.NoError(t, os.Symlink(target, link))
	require.NoError(t, mustOpen(t, link).Close())
	require.FileExists(t, target)
}

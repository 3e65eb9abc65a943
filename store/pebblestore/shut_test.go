package pebblestore

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// Close makes a new log, and Pebble does not survive it if that fails.
func TestCloseReportsADirectoryThatTakesNoNewFile(t *testing.T) {
	for name, cause := range map[string]error{
		"the directory was removed": os.ErrNotExist,
		"the disk is full":          errDisk,
	} {
		t.Run(name, func(t *testing.T) {
			disk := newFaultyDisk(t)
			s := mustOpen(t, "/data/x", withFS(disk))
			mustSettle(t, s, "k", store.Outcome{})
			disk.makesNoLog(cause)
			closed := make(chan error, 2)
			for range 2 {
				go func() { closed <- s.Close() }()
			}
			first, second := <-closed, <-closed
			require.ErrorIs(t, first, cause)
			require.ErrorContains(t, first, "closing")
			require.Equal(t, first, second)
			_, err := s.Find(t.Context(), claim("k").ID)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorIs(t, s.view(nil), store.ErrUnavailable)

			disk.on.Store(nil)
			again := mustOpen(t, "/data/x", withFS(disk.mem.CrashClone(vfs.CrashCloneCfg{})))
			mustReserve(t, again, claim("k"), store.Complete)
		})
	}
}

// makesNoLog makes the creation of a new log fail.
func (d *faultyDisk) makesNoLog(err error) {
	d.set(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite) && strings.HasSuffix(op.Path, ".log") {
			return err
		}
		return nil
	})
}

// A process that can open no more files would otherwise be ended by Pebble.
func TestALogThatCannotBeMadeEndsTheStore(t *testing.T) {
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	l := mustReserve(t, s, claim("k"), store.Acquired).Lease
	disk.makesNoLog(errDisk)
	large := store.Outcome{Result: make([]byte, memTableSize)} // Pebble begins a new log for it
	err := s.Complete(t.Context(), l, large)
	require.ErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, err, errDisk)
	_, err = s.Find(t.Context(), l.ID)
	broken(t, err)
	require.NoError(t, s.Close(), "no lazy outcome is lost")
}

func TestCloseOfAMovedDirectoryReturns(t *testing.T) {
	path := tempDir(t)
	s := mustOpen(t, path)
	mustSettle(t, s, "k", store.Outcome{})
	require.NoError(t, os.Rename(path, path+".moved"))
	err := s.Close()
	require.ErrorIs(t, err, ErrBroken)
	require.True(t, errors.Is(s.Close(), ErrBroken))
}

// Pebble moves the log's changes into a table in Open. It would try again for good, on a disk that is full.
func TestOpenOnAFullDiskIsAnError(t *testing.T) {
	disk := newFaultyDisk(t)
	mustSettle(t, mustOpen(t, "/data/x", withFS(disk)), "k", store.Outcome{})
	full := faulty(disk.mem.CrashClone(vfs.CrashCloneCfg{}))
	full.fails(".sst")
	_, err := Open("/data/x", withFS(full))
	require.ErrorIs(t, err, errDisk)
	require.ErrorIs(t, err, errOpen)
	require.ErrorIs(t, err, store.ErrUnavailable)
	after := full.mem.CrashClone(vfs.CrashCloneCfg{}) // the directory is in use until the process ends
	mustReserve(t, mustOpen(t, "/data/x", withFS(after)), claim("k"), store.Complete)
}

// Pebble reads its tables in the background: in a compaction during its Open, and for their statistics after it.
func TestOpenWithATableThatCannotBeReadReturns(t *testing.T) {
	disk := newFaultyDisk(t)
	require.NoError(t, mustOpen(t, "/data/x", withFS(disk)).Close())
	for range 200 {
		disk.set(func(op errorfs.Op) error {
			if readsTable(op) {
				return errDisk
			}
			return nil
		})
		ended := make(chan error, 1)
		go func() {
			_, err := Open("/data/x", withFS(disk))
			ended <- err
		}()
		select {
		case err := <-ended:
			require.ErrorIs(t, err, errDisk)
		case <-time.After(10 * time.Second):
			require.Fail(t, "Open does not end")
		}
		disk.on.Store(nil)
		require.NoError(t, mustOpen(t, "/data/x", withFS(disk)).Close())
	}
}

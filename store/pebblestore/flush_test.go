package pebblestore

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
)

// A disk without space takes writes to logs that Pebble uses again, and no table. Pebble then holds each write until a
// table can be made.
func TestAFlushThatFailsWhileWritesWaitForItEndsTheStore(t *testing.T) {
	racetest.Repeats(t)
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	disk.fails(".sst")
	var err error
	acknowledged := 0
	for ; err == nil; acknowledged++ {
		require.Less(t, acknowledged, 20, "Pebble holds no write")
		g := mustReserve(t, s, claim(fmt.Sprint(acknowledged)), store.Acquired)
		err = hangtest.Within(t, func() error {
			return s.Complete(t.Context(), g.Lease, store.Outcome{Result: make([]byte, memTableSize/2)})
		})
	}
	require.ErrorIs(t, err, ErrBroken)
	require.ErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, err, errDisk)
	broken(t, s.Check(t.Context()))
	require.NoError(t, hangtest.Within(t, s.Close), "no lazy outcome is lost")

	again := mustOpen(t, "/data/x", withFS(disk.mem.CrashClone(vfs.CrashCloneCfg{})))
	for i := range acknowledged - 1 {
		mustReserve(t, again, claim(fmt.Sprint(i)), store.Complete)
	}
}

// A flush that fails later would end the store, although no write waits for it.
func TestWritesThatWaitedForATableWaitNoLonger(t *testing.T) {
	racetest.Repeats(t)
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	pass := make(chan struct{})
	disk.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && isKind(op, []string{".sst"}) {
			<-pass
		}
		return nil
	})
	wrote := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			g, err := s.Reserve(t.Context(), claim(fmt.Sprint(i)))
			if err == nil {
				err = s.Complete(t.Context(), g.Lease, store.Outcome{Result: make([]byte, memTableSize/2)})
			}
			if err != nil || s.stalled.Load() || i == 20 {
				wrote <- err
				return
			}
		}
	}()
	require.Eventually(t, s.stalled.Load, time.Minute, time.Millisecond)
	close(pass)
	require.NoError(t, <-wrote)
	require.Eventually(t, func() bool { return !s.stalled.Load() }, time.Minute, time.Millisecond)
}

// Pebble's Open returns the errors of its first log, and Pebble those of other files.
func TestTheErrorOfAFileIsPebbles(t *testing.T) {
	disk := newFaultyDisk(t)
	disk.set(func(errorfs.Op) error { return errDisk })
	l := &logFS{FS: disk}
	for _, name := range []string{"/data/1.sst", "/data/1.log", "/data/2.sst"} {
		_, err := l.Create(name, vfs.WriteCategoryUnspecified)
		if name != "/data/1.log" {
			require.ErrorIs(t, err, errDisk)
			_, err = l.ReuseForWrite("/data/0.sst", name, vfs.WriteCategoryUnspecified)
		}
		require.ErrorIs(t, err, errDisk)
	}
}

func TestACompactionThatSucceedsMendsTheStore(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	for range 2 { // tables that overlap
		require.NoError(t, s.Release(t.Context(), mustReserve(t, s, claim("k"), store.Acquired).Lease))
		require.NoError(t, s.db.Flush())
	}
	s.failedFlush(errDisk)
	require.ErrorIs(t, s.Check(t.Context()), errDisk)
	require.NoError(t, s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	require.Eventually(t, func() bool { return s.Check(t.Context()) == nil }, time.Minute, time.Millisecond)
}

// Pebble does not survive the error of a later log, whether that is new or used again.
func TestTheErrorOfALaterLogEndsTheStore(t *testing.T) {
	cfg, err := newConfig(nil)
	require.NoError(t, err)
	disk := newFaultyDisk(t)
	disk.set(func(errorfs.Op) error { return errDisk })
	for _, makes := range []func(*logFS) (vfs.File, error){
		func(l *logFS) (vfs.File, error) { return l.Create("/data/2.log", vfs.WriteCategoryUnspecified) },
		func(l *logFS) (vfs.File, error) {
			return l.ReuseForWrite("/data/1.log", "/data/2.log", vfs.WriteCategoryUnspecified)
		},
	} {
		s := newStore("x", nil, cfg)
		l := &logFS{FS: disk, s: s}
		l.begun.Store(true)
		go func() { _, _ = makes(l) }() // it never returns
		require.NoError(t, hangtest.Within(t, func() error {
			<-s.stopped
			return nil
		}))
		broken(t, s.ready())
	}
}

package pebblestore

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
)

var errDisk = errors.New("disk on fire")

// A faultyDisk is a disk in memory, whose operations pass through a function that a test sets.
type faultyDisk struct {
	vfs.FS
	mem *vfs.MemFS
	on  atomic.Pointer[func(errorfs.Op) error]
}

func newFaultyDisk(t *testing.T) *faultyDisk { return faulty(newDisk(t)) }

func faulty(mem *vfs.MemFS) *faultyDisk {
	d := &faultyDisk{mem: mem}
	d.FS = errorfs.Wrap(d.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on := d.on.Load(); on != nil {
			return (*on)(op)
		}
		return nil
	}))
	return d
}

func (d *faultyDisk) set(f func(errorfs.Op) error) { d.on.Store(&f) }

// fails makes writes and syncs of files of the kind fail.
func (d *faultyDisk) fails(kinds ...string) {
	d.set(func(op errorfs.Op) error {
		if writes(op) && isKind(op, kinds) {
			return errDisk
		}
		return nil
	})
}

func writes(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpCreate:
		return true
	}
	return false
}

func isKind(op errorfs.Op, kinds []string) bool {
	for _, kind := range kinds {
		if strings.Contains(op.Path, kind) {
			return true
		}
	}
	return false
}

func TestFailedWriteEndsTheStore(t *testing.T) {
	for name, kind := range map[string]string{"of the log": ".log", "of Pebble's own file": "MANIFEST"} {
		t.Run(name, func(t *testing.T) {
			disk := newFaultyDisk(t)
			s := mustOpen(t, "/data/x", withFS(disk))
			mustSettle(t, s, "before", store.Outcome{Result: []byte("result")})
			disk.fails(kind)
			if kind == "MANIFEST" {
				_, _ = s.db.AsyncFlush()
				<-s.stopped
			} else {
				_, err := s.Reserve(t.Context(), claim("during"))
				require.ErrorIs(t, err, store.ErrUnknown)
				require.ErrorIs(t, err, ErrBroken)
				require.ErrorIs(t, err, errDisk)
			}
			_, err := s.Reserve(t.Context(), claim("after"))
			broken(t, err)
			_, err = s.Find(t.Context(), claim("before").ID)
			broken(t, err)
			broken(t, s.Check(t.Context()))
			require.NoError(t, s.Close(), "no lazy outcome is lost")

			disk.on.Store(nil)
			again := mustOpen(t, "/data/x", withFS(disk.mem.CrashClone(vfs.CrashCloneCfg{})))
			require.NoError(t, again.Verify(t.Context()))
			mustReserve(t, again, claim("before"), store.Complete)
			mustReserve(t, again, claim("after"), store.Acquired)
		})
	}
}

func broken(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, ErrBroken)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
}

// While a sync hangs, one group waits for its own, the writer hands over another, and further changes join a fourth.
func TestFailedSyncEndsEachChangeThatWaits(t *testing.T) {
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	fail := make(chan struct{})
	disk.set(func(op errorfs.Op) error {
		if strings.Contains(op.Path, ".log") && writes(op) && op.Kind != errorfs.OpFileWrite {
			<-fail
			return errDisk
		}
		return nil
	})
	errs := make(chan error, 4)
	for i, arrived := range []func() bool{
		func() bool { return len(s.unsettled) == 1 },
		func() bool { return len(s.unsettled) == 2 },
		func() bool { return len(s.unsettled) == 3 },
		func() bool { return len(s.current.rows) == 1 },
	} {
		go func() {
			_, err := s.Reserve(t.Context(), claim(fmt.Sprint(i)))
			errs <- err
		}()
		require.Eventually(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return arrived()
		}, 10*time.Second, time.Millisecond)
	}
	close(fail)
	unknown := 0
	for range 4 {
		err := <-errs
		require.ErrorIs(t, err, ErrBroken)
		if errors.Is(err, store.ErrUnknown) {
			unknown++
		}
	}
	require.Equal(t, 3, unknown, "Pebble does not have the last one")
	require.NoError(t, s.Close())
}

// The goroutines of a store that is broken end without Close.
func TestAFailedSyncEndsTheGoroutines(t *testing.T) {
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	disk.set(func(op errorfs.Op) error {
		if strings.Contains(op.Path, ".log") && writes(op) && op.Kind != errorfs.OpFileWrite {
			return errDisk
		}
		return nil
	})
	_, err := s.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnknown)
	require.NoError(t, hangtest.Within(t, func() error {
		<-s.stopped
		return nil
	}))
}

// Pebble panics if it can't write its log, as a closed database does.
func TestAPanicOfPebbleIsTheErrorOfTheGroup(t *testing.T) {
	cfg, err := newConfig(nil)
	require.NoError(t, err)
	s := newStore("x", nil, cfg)
	db, err := pebble.Open("x", &pebble.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.ErrorContains(t, s.apply(db, newGroup()), "closed")
	<-s.blocked

	g := s.current
	g.due = true
	s.signal()
	s.write(db)
	<-g.done
	require.ErrorIs(t, g.err, store.ErrUnknown)
	require.ErrorIs(t, g.err, ErrBroken)
	broken(t, s.ready())
}

func TestFailedWriteOfOpenIsAnError(t *testing.T) {
	for _, kind := range []string{".log", "MANIFEST", "dbtmp", newName} {
		disk := newFaultyDisk(t)
		disk.fails(kind)
		_, err := Open("/data/x", withFS(disk))
		require.ErrorIs(t, err, errDisk, kind)
		require.ErrorIs(t, err, store.ErrUnavailable, kind)
		mustReserve(t, mustOpen(t, "/data/x", withFS(disk.mem.CrashClone(vfs.CrashCloneCfg{}))), claim("k"), store.Acquired)
	}
}

func TestFailedSyncOfOpenIsAnError(t *testing.T) {
	disk := newFaultyDisk(t)
	disk.set(func(op errorfs.Op) error {
		if writes(op) && op.Kind != errorfs.OpCreate && isKind(op, []string{".log"}) {
			return errDisk
		}
		return nil
	})
	_, err := Open("/data/x", withFS(disk))
	require.ErrorIs(t, err, errDisk)
	require.ErrorIs(t, err, store.ErrUnavailable)
}

// The directory may not be there after a power cut, although Open has returned a Store.
func TestAnErrorOfMakingTheDirectoryIsOpens(t *testing.T) {
	var named atomic.Bool
	for name, fails := range map[string]func(op errorfs.Op) bool{
		"making it":          func(op errorfs.Op) bool { return op.Kind == errorfs.OpMkdirAll },
		"opening its parent": func(op errorfs.Op) bool { return op.Kind == errorfs.OpOpenDir && op.Path == "/data" },
		"syncing its parent": func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync && op.Path == "/data" },
		"listing it":         func(op errorfs.Op) bool { return op.Kind == errorfs.OpList },
		"opening it":         func(op errorfs.Op) bool { return op.Kind == errorfs.OpOpenDir && op.Path == "/data/x" },
		"syncing it":         func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync && op.Path == "/data/x" },
		"writing its format": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, newName)
		},
		"syncing its format": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileSync && strings.HasSuffix(op.Path, newName)
		},
		"naming its format": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpRename && strings.HasSuffix(op.Path, newName)
		},
		"syncing its format's name": func(op errorfs.Op) bool {
			if op.Kind == errorfs.OpRename && strings.HasSuffix(op.Path, newName) {
				named.Store(true)
			}
			return named.Load() && op.Kind == errorfs.OpFileSync && op.Path == "/data/x"
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newFaultyDisk(t)
			disk.set(func(op errorfs.Op) error {
				if fails(op) {
					return errDisk
				}
				return nil
			})
			_, err := Open("/data/x", withFS(disk))
			require.ErrorIs(t, err, errDisk)
			require.ErrorIs(t, err, store.ErrUnavailable)
			disk.on.Store(nil)
			mustReserve(t, mustOpen(t, "/data/x", withFS(disk)), claim("k"), store.Acquired)
		})
	}
}

// Open lists the directory twice, and again before it clears one whose making was interrupted.
func TestAListingThatFailsClearsNothing(t *testing.T) {
	failing := func(kind errorfs.OpKind, nth int32) func(errorfs.Op) error {
		var n atomic.Int32
		return func(op errorfs.Op) error {
			if op.Kind == kind && n.Add(1) == nth {
				return errDisk
			}
			return nil
		}
	}
	disk := newFaultyDisk(t)
	for nth := range int32(3) {
		disk.set(failing(errorfs.OpList, nth+1))
		_, err := Open("/data/x", withFS(disk))
		require.ErrorIs(t, err, errDisk)
		require.ErrorIs(t, err, errOpen)
	}
	disk.on.Store(nil)
	s := mustOpen(t, "/data/x", withFS(disk))
	mustSettle(t, s, "k", store.Outcome{})
	require.NoError(t, s.Close())
	for nth := range int32(2) {
		disk.set(failing(errorfs.OpList, nth+1))
		_, err := Open("/data/x", withFS(disk))
		require.ErrorIs(t, err, errDisk)
	}
	disk.on.Store(nil)
	s = mustOpen(t, "/data/x", withFS(disk))
	mustReserve(t, s, claim("k"), store.Complete)
	require.NoError(t, s.Close())

	require.NoError(t, disk.Rename("/data/x/"+formatName, "/data/x/"+newName))
	disk.set(failing(errorfs.OpRemove, 1))
	_, err := Open("/data/x", withFS(disk))
	require.ErrorIs(t, err, errDisk)
	disk.on.Store(nil)
	mustReserve(t, mustOpen(t, "/data/x", withFS(disk)), claim("k"), store.Acquired)
}

func TestAFormatThatCannotBeReadIsAnError(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpOpen, errorfs.OpFileRead} {
		disk := newFaultyDisk(t)
		require.NoError(t, mustOpen(t, "/data/x", withFS(disk)).Close())
		disk.set(func(op errorfs.Op) error {
			if op.Kind == kind && strings.HasSuffix(op.Path, formatName) {
				return errDisk
			}
			return nil
		})
		_, err := Open("/data/x", withFS(disk))
		require.ErrorIs(t, err, errDisk)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, ErrFormat)
	}
}

// Pebble repeats a flush that failed. Nothing acknowledged depends on it, because the log has it.
func TestFailedFlushIsRepeated(t *testing.T) {
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	mustSettle(t, s, "before", store.Outcome{})
	var failures atomic.Int32
	disk.set(func(op errorfs.Op) error {
		if writes(op) && isKind(op, []string{".sst"}) && failures.Add(1) <= 2 {
			return errDisk
		}
		return nil
	})
	flushed, err := s.db.AsyncFlush()
	require.NoError(t, err)
	<-flushed
	require.Greater(t, failures.Load(), int32(2))
	mustSettle(t, s, "after", store.Outcome{})
	require.NoError(t, s.Check(t.Context()))
	require.NoError(t, s.Verify(t.Context()))
}

func TestLostLazyOutcomeIsReportedByClose(t *testing.T) {
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	g := mustReserve(t, s, claim("k"), store.Acquired)
	disk.fails(".log")
	require.NoError(t, s.Complete(t.Context(), g.Lease, store.Outcome{Lazy: true}))
	err := s.Close()
	require.ErrorIs(t, err, ErrBroken)
	require.Equal(t, err, s.Close())
}

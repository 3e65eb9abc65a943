package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/wallclock"
	"github.com/redo-go/redo/store"
)

// The file formatName marks a directory as this package's, and has formatText. While a new directory is made, the file
// has the name newName. A directory that has only that one holds nothing that was acknowledged.
const (
	formatName = "REDO"
	newName    = "REDO.new"
	formatText = "redo pebblestore 1\n"
	lockName   = "LOCK" // Pebble's
)

// Open opens the directory at path. It creates one if there is none or it is empty; its parent must exist. It does not
// wait: a directory that is in use is an error wrapping [ErrInUse]. Open refuses, and does not change, a directory that
// is not a redo store or that a later release wrote ([ErrFormat]), and one that is damaged ([ErrCorrupt]). Every error
// names the path and wraps store.ErrUnavailable, except that an option's bad value is store.ErrInvalid.
//
// If the disk is full, Open returns an error, and the directory is in use until the process ends.
//
// The leases of the Store that had the directory before are void. Close the Store when done: it holds goroutines and
// the directory.
func Open(path string, opts ...Option) (*Store, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if path, err = located(cfg.fs, path); err != nil {
		return nil, refusal(path, errOpen, "%w", err)
	}
	if _, err := recognized(cfg.fs, path); err != nil { // before the lock, which makes a file
		return nil, err
	}
	dir, err := pebble.LockDirectory(path, cfg.fs)
	if err != nil {
		kind := errOpen
		if held(err) {
			kind = ErrInUse
		}
		return nil, refusal(path, kind, "%w", err)
	}
	s, err := openLocked(path, dir, cfg)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	go s.write(s.db)
	go s.sync()
	s.helpers.Add(1)
	go s.refilter(s.ctx)
	return s, nil
}

// held reports whether an error of the lock shows that it has an owner. If this process is the owner, the error has no
// number. Otherwise it is EAGAIN, or ERROR_SHARING_VIOLATION of Windows.
func held(err error) bool {
	var number syscall.Errno
	var failed *fs.PathError // the lock's file could not be opened
	switch {
	case errors.As(err, &failed), errors.Is(err, fs.ErrPermission):
		return false
	case errors.As(err, &number):
		return number == syscall.EAGAIN || number == 32 && runtime.GOOS == "windows"
	}
	return true
}

// located makes the directory if there is none. It returns one name for all paths that lead to it, because Pebble's
// lock goes by the name inside a process.
func located(fsys vfs.FS, path string) (string, error) {
	if _, err := fsys.Stat(fsys.PathDir(path)); err != nil {
		return path, err
	}
	if err := fsys.MkdirAll(path, 0o700); err != nil { // Pebble syncs its parent
		return path, err
	}
	if fsys != vfs.Default {
		return path, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	return filepath.EvalSymlinks(abs)
}

// recognized reports whether the directory is a redo store. It returns an error unless it is one, or is to become one.
func recognized(fsys vfs.FS, path string) (bool, error) {
	names, err := fsys.List(path)
	if err != nil {
		return false, refusal(path, errOpen, "%w", err)
	}
	if slices.Contains(names, formatName) {
		return true, checkFormat(fsys, path)
	}
	begun := slices.Contains(names, newName)
	for _, name := range names {
		if name != lockName && name != newName && !(begun && ofPebble.MatchString(name)) {
			return false, refusal(path, ErrFormat, "it is not a redo store: it has a file %q, but no %q", name, formatName)
		}
	}
	return false, nil
}

// ofPebble matches the names of the files that Pebble makes in a new directory.
var ofPebble = regexp.MustCompile(
	`^(\d{6}\.(log|sst)|(MANIFEST|OPTIONS)-\d{6}|marker\.[a-z-]+\.\d{6}\.[\w-]+|temporary\.\d{6}\.dbtmp)$`)

func checkFormat(fsys vfs.FS, path string) error {
	f, err := fsys.Open(fsys.PathJoin(path, formatName))
	if err != nil {
		return refusal(path, errOpen, "%w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, 100))
	if err = errors.Join(err, f.Close()); err != nil {
		return refusal(path, errOpen, "%w", err)
	}
	if string(text) != formatText {
		return refusal(path, ErrFormat, "its file %q has %q, this release reads %q", formatName, text, formatText)
	}
	return nil
}

// openLocked opens the database in a directory that this process has locked.
func openLocked(path string, dir *pebble.Lock, cfg config) (*Store, error) {
	known, err := recognized(cfg.fs, path)
	if err != nil {
		return nil, err
	}
	if !known {
		if err := begin(cfg.fs, path); err != nil {
			return nil, refusal(path, errOpen, "%w", err)
		}
	}
	s := newStore(path, dir, cfg)
	if cfg.fs == vfs.Default {
		if s.info, err = os.Stat(path); err != nil {
			return nil, refusal(path, errOpen, "%w", err)
		}
	}
	if err := s.openDB(known); err != nil {
		return nil, err
	}
	err = s.guard(func() error {
		err := s.load(known)
		if err == nil && !known {
			if err = cfg.fs.Rename(cfg.fs.PathJoin(path, newName), cfg.fs.PathJoin(path, formatName)); err == nil {
				err = syncDir(cfg.fs, path)
			}
		}
		if err != nil {
			return errors.Join(s.explain(err), s.db.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// begin begins to make a directory a redo store. It removes the database that an interrupted begin has left.
func begin(fsys vfs.FS, path string) error {
	names, err := fsys.List(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != lockName && name != newName {
			if err := fsys.Remove(fsys.PathJoin(path, name)); err != nil {
				return err
			}
		}
	}
	return writeFormat(fsys, path, newName)
}

// writeFormat writes a file with formatText durably.
func writeFormat(fsys vfs.FS, path, name string) error {
	f, err := fsys.Create(fsys.PathJoin(path, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(formatText))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return syncDir(fsys, path)
}

// syncDir makes the names in a directory durable.
func syncDir(fsys vfs.FS, path string) error {
	d, err := fsys.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func newStore(path string, dir *pebble.Lock, cfg config) *Store {
	s := &Store{
		path: path, fs: cfg.fs, dir: dir, delay: cfg.lazyDelay, maxBatch: cfg.maxBatch,
		wake:    make(chan struct{}, 1),
		applied: make(chan *group, 1),
		stopped: make(chan struct{}),
		blocked: make(chan struct{}),
		failed:  make(chan struct{}, 1),
		clock:   wallclock.New(cfg.clock),
		overlay: make(map[string]*row),
		recent:  newRecent(),
		current: newGroup(),
	}
	s.unread.Store(math.MaxInt64)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.stop = sync.OnceFunc(func() { close(s.stopped) })
	s.block = sync.OnceFunc(func() { close(s.blocked) })
	s.close = sync.OnceFunc(s.shut)
	s.Poller = store.Poll(s)
	s.Pushed(true)
	s.timer = time.AfterFunc(time.Hour, s.overdue)
	s.timer.Stop()
	return s
}

// openDB opens the database, or makes one.
func (s *Store) openDB(known bool) error {
	cache := pebble.NewCache(cacheSize)
	defer cache.Unref()
	logs := &logFS{FS: s.fs, s: s}
	var flushed atomic.Pointer[error] // the last flush's
	o := &pebble.Options{
		FS:                          logs,
		Lock:                        s.dir,
		Logger:                      logger{s},
		ErrorIfExists:               !known,
		ErrorIfNotExists:            known,
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		Cache:                       cache,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 4,
		L0StopWritesThreshold:       64,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) {
				if last := flushed.Load(); last != nil && errors.Is(err, *last) && !logs.begun.Load() {
					s.halt(err) // Pebble's Open would repeat the flush before it makes its log
				}
				s.failedFlush(err)
			},
			FlushEnd: func(i pebble.FlushInfo) {
				flushed.Store(&i.Err)
				s.worked(i.Err)
			},
			CompactionEnd:   func(i pebble.CompactionInfo) { s.worked(i.Err) },
			WriteStallBegin: func(pebble.WriteStallBeginInfo) { s.stalled.Store(true) },
			WriteStallEnd:   func() { s.stalled.Store(false) },
			// The read that meets the damage returns it. Pebble's default ends the process.
			DataCorruption: func(pebble.DataCorruptionInfo) {},
		},
	}
	o.Levels[0].FilterPolicy = bloom.FilterPolicy(10)
	db, err := s.open(o)
	switch {
	case err == nil:
		s.db = db
		return nil
	case pebble.IsCorruptionError(err), errors.Is(err, pebble.ErrDBDoesNotExist):
		return refusal(s.path, ErrCorrupt, "%w", err)
	}
	return refusal(s.path, errOpen, "%w", err)
}

func (s *Store) open(o *pebble.Options) (*pebble.DB, error) {
	opened := make(chan *pebble.DB, 1)
	err := s.guard(func() error {
		db, err := pebble.Open(s.path, o)
		opened <- db
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-opened, nil
}

// guard runs f on a goroutine of its own, which an error that Pebble does not survive blocks for good. It returns the
// error then. Pebble also panics, if it can't write its log or if its files are damaged.
func (s *Store) guard(f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("%v", p)
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-s.blocked:
		return s.ready()
	}
}

// Sizes of Pebble's memory. The table of the last changes takes up to four times its size.
const (
	cacheSize    = 64 << 20
	memTableSize = 32 << 20
)

// load reads the state that the last process left, and reserves fences for this one.
func (s *Store) load(known bool) error {
	var st envelope.State
	if known {
		v, closer, err := s.db.Get(stateKey)
		if err != nil {
			return corrupt("the state can't be read: %w", err)
		}
		st, err = envelope.ParseState(v)
		if err != nil {
			err = corrupt("%w", err)
		}
		if err = errors.Join(err, closer.Close()); err != nil {
			return err
		}
	}
	s.fence, s.fences, s.epoch = st.Fence, st.Fence+fenceBlock, st.Epoch+1
	b := s.db.NewBatch()
	_ = b.Set(stateKey, envelope.State{Fence: s.fences, Epoch: s.epoch}.Append(nil), nil) // a batch takes every key
	if err := s.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
		return err
	}
	s.reserved = s.fences
	return b.SyncWait() // its error does not end the goroutine, as that of Apply does
}

// shut closes the database. A database whose locks a goroutine holds for good can't be closed: it keeps the directory
// until the process ends.
func (s *Store) shut() {
	select {
	case <-s.blocked:
		return
	default:
	}
	s.helpers.Wait()
	s.reading.Lock()
	db := s.db
	s.db = nil
	s.reading.Unlock()
	broken := s.isBroken()
	err := s.guard(func() error {
		s.flush(db)
		return errors.Join(db.Close(), s.dir.Close())
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.closeErr == nil && !broken {
		s.closeErr = fmt.Errorf("pebblestore: %q: closing: %w", s.path, err)
	}
}

func (s *Store) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken != nil
}

// A logger drops Pebble's messages, except for an error that Pebble does not survive.
type logger struct{ *Store }

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}

// Fatalf must not return. The default would end the process.
func (l logger) Fatalf(format string, args ...any) { l.halt(fmt.Errorf(format, args...)) }

// halt ends the Store after an error that Pebble does not survive. It blocks the goroutine, which may hold Pebble's
// locks.
func (s *Store) halt(err error) {
	s.breakDown(err)
	s.block()
	s.stop()
	select {}
}

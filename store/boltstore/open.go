package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// formatVersion is the version of the layout of buckets and keys.
const formatVersion = 1

// magic begins the value that marks a file as this package's; the version byte follows.
const magic = "redo boltstore "

// Open opens the file at path, and makes one with mode 0600 when there is none or it is empty. It waits for
// nothing: a file that is in use is an error wrapping [ErrInUse]. A file that is damaged ([ErrCorrupt]), that
// is something else, or that a later release wrote ([ErrFormat]) is refused and not touched. Every error
// names the path and wraps store.ErrUnavailable, save that an option's bad value is store.ErrInvalid.
//
// The leases of the Store that had the file before are void. Close the Store when done: it holds a goroutine
// and the file.
func Open(path string, opts ...Option) (*Store, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	fresh := false
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		fresh = true
	case err != nil:
		return nil, refusal(path, errOpen, "%w", err)
	case info.IsDir():
		return nil, refusal(path, errOpen, "it is a directory")
	case !info.Mode().IsRegular():
		return nil, refusal(path, errOpen, "it is not a regular file")
	}
	s, err := openDB(path, cfg)
	if err != nil {
		return nil, err
	}
	err = s.load()
	if err == nil && fresh {
		// Without this a crash of the machine could lose the file with all that was synced into it.
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, s.closeFile())
	}
	w := &writer{Store: s}
	go w.run()
	return s, nil
}

// openDB lets bbolt open the file after it was locked and looked at: bbolt panics on some damaged files and
// writes to some that are not ours.
func openDB(path string, cfg config) (*Store, error) {
	var db *bbolt.DB
	var file *os.File
	var info fs.FileInfo
	options := &bbolt.Options{
		Timeout:      1, // no wait: bbolt tries once, and again only while more than 50 ms are left
		FreelistType: bbolt.FreelistMapType,
		// NoFreelistSync would save a page write a commit, and cost a scan of the whole file on opening, on a
		// goroutine where a damaged page can't be recovered from.
		NoStatistics: true, // they take a lock in every read
		MaxSize:      int(cfg.maxSize),
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			if err != nil {
				return nil, refusal(path, errOpen, "%w", err)
			}
			if err = examine(f, path, cfg); err == nil {
				info, err = f.Stat()
			}
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			file = f
			return f, nil
		},
	}
	err := guarded(func() (err error) {
		db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	switch {
	case err == nil:
		return newStore(path, db, file, info, cfg), nil
	case file == nil: // examine said why
		return nil, err
	case errors.Is(err, ErrCorrupt): // a panic, which left the file open and locked
		return nil, errors.Join(explain(path, err), file.Close())
	case errors.Is(err, berrors.ErrTimeout):
		return nil, refusal(path, ErrInUse, "another Store has it open")
	default:
		return nil, refusal(path, errOpen, "%w", err)
	}
}

// examine locks the file and reads it without changing it.
func examine(f *os.File, path string, cfg config) error {
	if err := lockFile(f); err != nil {
		if errors.Is(err, errLocked) {
			return refusal(path, ErrInUse, "another Store has it open")
		}
		return refusal(path, errOpen, "lock: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return refusal(path, errOpen, "%w", err)
	}
	if info.Size() == 0 {
		return nil
	}
	l, err := inspect(f, info.Size(), cfg.olderMeta)
	if err == nil && (cfg.pageCheck < 0 || info.Size() <= cfg.pageCheck) {
		err = checkPages(f, l)
	}
	if err != nil {
		return explain(path, err)
	}
	return nil
}

func newStore(path string, db *bbolt.DB, file *os.File, info fs.FileInfo, cfg config) *Store {
	s := &Store{
		path: path, info: info, db: db, file: file, delay: cfg.lazyDelay, commit: cfg.commit,
		wake:    make(chan struct{}, 1),
		turn:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		stopped: make(chan struct{}),
		clock:   newClock(cfg.clock),
		overlay: make(map[string]*cell),
		held:    make(map[string]*hold),
		current: newGroup(),
		waiters: make(map[string][]chan struct{}),
	}
	s.timer = time.AfterFunc(time.Hour, s.overdue)
	s.timer.Stop()
	return s
}

// load reads what outlived the last process, or makes a new file ours.
func (s *Store) load() error {
	var st state
	found := false
	err := guarded(func() error {
		return s.db.View(func(tx *bbolt.Tx) (err error) {
			st, found, err = readFormat(tx)
			return err
		})
	})
	fresh := err == nil && !found
	if fresh {
		err = guarded(func() error { return s.db.Update(create) })
		s.stuck = errors.Is(err, ErrCorrupt)
		s.stats.Commits = 1
	}
	if err != nil {
		return explain(s.path, err)
	}
	s.fence, s.fences, s.epoch = st.fence, st.fence, st.epoch+1
	if fresh {
		s.fences = fenceBlock
	}
	return nil
}

// closeFile closes the file. bbolt's own Close waits for locks, for ever if a panic left them held: then only
// the file is closed, which gives up the lock on it, and the mapping is leaked.
func (s *Store) closeFile() error {
	if s.stuck {
		return s.file.Close()
	}
	return guarded(s.db.Close)
}

// create makes our buckets in a file that has none.
func create(tx *bbolt.Tx) error {
	root, err := tx.CreateBucket(rootName)
	if err != nil {
		return err
	}
	for _, name := range [][]byte{recordsName, pendingName, expiryName} {
		if _, err := root.CreateBucket(name); err != nil {
			return err
		}
	}
	if err := root.Put(formatKey, append([]byte(magic), formatVersion)); err != nil {
		return err
	}
	return root.Put(stateKey, state{fence: fenceBlock}.append(nil))
}

// readFormat says whether the file is ours, found, or has no bucket at all, which makes it a new one.
func readFormat(tx *bbolt.Tx) (st state, found bool, err error) {
	root := tx.Bucket(rootName)
	if root == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return state{}, false, unknownFormat("it is another application's: it has buckets, but none named %q", rootName)
		}
		return state{}, false, nil
	}
	v := root.Get(formatKey)
	if len(v) != len(magic)+1 || string(v[:len(magic)]) != magic {
		return state{}, false, unknownFormat("its bucket %q is not this package's", rootName)
	}
	if got := v[len(magic)]; got != formatVersion {
		return state{}, false, unknownFormat("it has version %d, this release reads version %d", got, formatVersion)
	}
	if _, err := open(tx); err != nil {
		return state{}, false, err
	}
	st, err = parseState(root.Get(stateKey))
	return st, true, err
}

// isFormat reports whether the value marks the bucket as one that this release writes.
func isFormat(v []byte) bool {
	return len(v) == len(magic)+1 && string(v[:len(magic)]) == magic && v[len(magic)] == formatVersion
}

// A state is what outlives the process beside the records. Every commit writes it.
type state struct {
	fence uint64 // the last one reserved: none above it was given out
	epoch uint64 // counts the Opens that wrote
}

func (s state) append(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, s.fence)
	b = binary.BigEndian.AppendUint64(b, s.epoch)
	return binary.BigEndian.AppendUint32(b, checksum(b[start:]))
}

func parseState(v []byte) (state, error) {
	if len(v) != 20 || binary.BigEndian.Uint32(v[16:]) != checksum(v[:16]) {
		return state{}, corrupt("the state does not match its checksum")
	}
	return state{fence: binary.BigEndian.Uint64(v), epoch: binary.BigEndian.Uint64(v[8:])}, nil
}

// syncDir makes a new file's name durable. Windows has no such call.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("boltstore: sync the directory: %w: %w", err, store.ErrUnavailable)
	}
	return nil
}

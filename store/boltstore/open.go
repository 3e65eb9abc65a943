package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/wallclock"
	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// formatVersion is the version of the layout of buckets and keys.
const formatVersion = 1

// magic begins the value that marks a file as this package's; the version byte follows.
const magic = "redo boltstore "

// Open opens the file at path. It creates one with mode 0600 if there is none or it is empty. A file that a power cut
// left half made counts as empty. Open does not wait: a file that is in use is an error wrapping [ErrInUse]. Open
// refuses, and does not change, a file that is damaged ([ErrCorrupt]), that is not a redo store, or that a later
// release wrote ([ErrFormat]). "Damage" in the package's documentation lists the checks. Every error names the path and
// wraps store.ErrUnavailable, except that an option's bad value is store.ErrInvalid.
//
// The leases of the Store that had the file before are void. Close the Store when done: it holds a goroutine
// and the file.
func Open(path string, opts ...Option) (*Store, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, refusal(path, errOpen, "%w", err)
	case !info.Mode().IsRegular():
		return nil, refusal(path, errOpen, "it is not a regular file")
	default:
		if err := emptyIfTorn(path, info.Size()); err != nil {
			return nil, err
		}
	}
	s, err := openDB(path, cfg)
	if err != nil {
		return nil, err
	}
	err = s.load(cfg.pageCheck)
	if err == nil {
		// Without this a crash of the machine could lose the file, if this call made it or a process that died since.
		err = syncDir(path)
	}
	if err != nil {
		return nil, errors.Join(err, s.closeFile())
	}
	go s.commitGroups()
	return s, nil
}

// openDB has bbolt open the file, and turns its errors and panics into the package's.
func openDB(path string, cfg config) (*Store, error) {
	var db *bbolt.DB
	var file *os.File
	options := &bbolt.Options{
		Timeout: 1, // no wait: bbolt tries once, and again only while more than 50 ms are left
		// It takes the first free pages. The other type, a map, takes any: the file grew forever, because each commit
		// needs a run of pages for the list itself. The map is also sorted in each commit.
		FreelistType: bbolt.FreelistArrayType,
		// NoFreelistSync would save a page write in each commit. It would cost a scan of the whole file in Open, in a
		// goroutine where a damaged page ends the process.
		NoStatistics: true, // they take a lock in every read
		MaxSize:      int(cfg.maxSize),
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
	}
	err := guarded(func() (err error) {
		db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	switch {
	case err == nil:
	case errors.Is(err, ErrCorrupt): // a panic, which left the file open and locked
		return nil, errors.Join(explain(path, err), unlock(file), file.Close())
	case errors.Is(err, berrors.ErrTimeout):
		return nil, refusal(path, ErrInUse, "another process or Store has it open")
	case errors.Is(err, berrors.ErrChecksum):
		return nil, explain(path, corrupt("%w", err))
	case errors.Is(err, berrors.ErrInvalid):
		return nil, explain(path, unknownFormat("it is not a redo store"))
	case errors.Is(err, berrors.ErrVersionMismatch):
		return nil, explain(path, unknownFormat("it is a bbolt file of another version"))
	default:
		return nil, refusal(path, errOpen, "%w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, refusal(path, errOpen, "%w", errors.Join(err, db.Close()))
	}
	return newStore(path, db, file, info, cfg), nil
}

func newStore(path string, db *bbolt.DB, file *os.File, info fs.FileInfo, cfg config) *Store {
	s := &Store{
		path: path, info: info, db: db, file: file, delay: cfg.lazyDelay, commit: cfg.commit,
		wake:    make(chan struct{}, 1),
		writing: make(chan struct{}, 1),
		quit:    make(chan struct{}),
		stopped: make(chan struct{}),
		clock:   wallclock.New(cfg.clock),
		overlay: make(map[string]*row),
		claims:  make(map[string]*txClaim),
		current: newGroup(),
	}
	s.poller = store.Poll(s)
	s.poller.Pushed(true)
	s.timer = time.AfterFunc(time.Hour, s.overdue)
	s.timer.Stop()
	return s
}

// load checks the file and reads the state that its last process left, or makes a new file a redo store.
func (s *Store) load(pageCheck int64) error {
	var st envelope.State
	found := false
	pages := metaPages
	err := guarded(func() error {
		return s.db.View(func(tx *bbolt.Tx) (err error) {
			size := s.info.Size()
			if size < tx.Size() {
				return corrupt("it is cut short: %d bytes where %d are in use", size, tx.Size())
			}
			for i := range metaPages {
				if _, err := readMeta(s.file, s.db.Info().PageSize, i); err != nil {
					return err
				}
			}
			if pageCheck < 0 || size <= pageCheck {
				if err := s.checkPages(tx); err != nil {
					return err
				}
			}
			if st, found, err = readFormat(tx); !found { // bbolt has just made the file, or a process that died since
				pages = blankPages
			}
			return err
		})
	})
	if err == nil {
		err = s.persist(pages)
	}
	fresh := err == nil && !found
	if fresh {
		err = guarded(func() error { return s.db.Update(create) })
		s.stuck = errors.Is(err, ErrCorrupt)
		s.stats.Commits = 1
	}
	if err != nil {
		return explain(s.path, err)
	}
	s.fence, s.fences, s.epoch = st.Fence, st.Fence, st.Epoch+1
	if fresh {
		s.fences = fenceBlock
	}
	return nil
}

// closeFile closes the file. bbolt's own Close waits for locks, for ever if a panic left them held. In that case only
// the file is unlocked and closed, and the mapping is leaked.
func (s *Store) closeFile() error {
	if s.stuck {
		return errors.Join(unlock(s.file), s.file.Close())
	}
	return guarded(s.db.Close)
}

// create makes the store's buckets in a file that has none.
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
	return root.Put(stateKey, envelope.State{Fence: fenceBlock}.Append(nil))
}

// readFormat returns the state of a redo store. found is false for a file without a bucket, which is a new one.
func readFormat(tx *bbolt.Tx) (st envelope.State, found bool, err error) {
	root := tx.Bucket(rootName)
	if root == nil {
		if k, _ := tx.Cursor().First(); k != nil {
			return st, false, unknownFormat("it is another application's: it has buckets, but none named %q", rootName)
		}
		return st, false, nil
	}
	v := root.Get(formatKey)
	if len(v) != len(magic)+1 || string(v[:len(magic)]) != magic {
		return st, false, unknownFormat("its bucket %q is not this package's", rootName)
	}
	if got := v[len(magic)]; got != formatVersion {
		return st, false, unknownFormat("it has version %d, this release reads version %d", got, formatVersion)
	}
	if _, err := open(tx); err != nil {
		return st, false, err
	}
	if st, err = envelope.ParseState(root.Get(stateKey)); err != nil {
		err = corrupt("%w", err)
	}
	return st, true, err
}

// syncDir makes the name of a file durable. Windows has no such call.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	path, err := filepath.EvalSymlinks(path)
	var d *os.File
	if err == nil {
		d, err = os.Open(filepath.Dir(path))
	}
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("boltstore: sync the directory: %w: %w", err, store.ErrUnavailable)
	}
	return nil
}

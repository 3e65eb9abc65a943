package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

var _ store.Engine = (*Store)(nil)
var _ store.TxStore[*sqltx.Tx] = (*Store)(nil)

// A Store keeps records in one SQLite file. Create one with Open. All methods may be called concurrently. Any number
// of Stores, in any number of processes of one machine, may use one file.
type Store struct {
	*store.Poller // implements store.Waiter
	config
	path string
	file fs.FileInfo // as Open found it

	// reads only reads. writes has the one connection that changes records. draws has one too, whose commits are not
	// synced: see draw.
	reads, writes, draws *sql.DB
	// turn holds a value while a goroutine of this Store writes, or has a transaction open.
	turn chan struct{}
	// step is added to the last fence for the next one. It is read and changed by the goroutine whose turn it is.
	step int64
}

const maxReads = 8 // connections that only read

// Open opens the file at path and checks it as [Store.Check] does. The path is not a URI, and has no parameters of a
// driver: their file would be another one. If a file's name begins with "file:", write "./" before it.
func Open(ctx context.Context, path string, opts ...Option) (*Store, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") {
		return nil, fmt.Errorf("sqlitestore: %w: the path is %q, it must name a file", store.ErrInvalid, path)
	}
	if strings.HasPrefix(path, "file:") || parameters.MatchString(path) {
		return nil, fmt.Errorf("sqlitestore: %w: the path is %q, it must not be a URI or have parameters: the store sets "+
			"its own", store.ErrInvalid, path)
	}
	cfg := config{now: time.Now}
	for _, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("sqlitestore: %w: an option is nil", store.ErrInvalid)
		}
		o(&cfg)
	}
	if cfg.now == nil {
		return nil, fmt.Errorf("sqlitestore: %w: option WithClock: the clock is nil", store.ErrInvalid)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, unavailable(err)
	}
	s := &Store{config: cfg, path: path, turn: make(chan struct{}, 1), step: firstStep}
	s.Poller = store.Poll(s)
	for db, pragma := range map[**sql.DB]string{
		&s.reads: "query_only(1)", &s.writes: "synchronous(FULL)", &s.draws: "synchronous(NORMAL)",
	} {
		// The store waits for locks itself, as long as a context lasts.
		const settings = "?mode=rw&_txlock=immediate&_pragma=busy_timeout(0)&_pragma="
		*db, err = sql.Open("sqlite", "file:"+escape.Replace(path)+settings+pragma)
		if err != nil {
			return nil, errors.Join(unavailable(err), s.Close())
		}
		(*db).SetMaxOpenConns(1)
	}
	s.reads.SetMaxOpenConns(maxReads)
	s.reads.SetMaxIdleConns(maxReads)
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// parameters matches a path with a parameter of the driver, such as _pragma.
var parameters = regexp.MustCompile(`\?(.*&)?_\w+=`)

// escape keeps the characters of a path that mean something in a URI.
var escape = strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")

// prepare makes the file, which is an empty database at first, if there is none and it may. Then it checks it.
func (s *Store) prepare(ctx context.Context) (err error) {
	if s.migrate {
		if err := create(s.path); err != nil {
			return unavailable(err)
		}
	}
	s.file, err = os.Stat(s.path)
	switch {
	case err != nil:
		return unavailable(fmt.Errorf("%w: %w", ErrNoTable, err))
	case !s.file.Mode().IsRegular():
		return unavailable(fmt.Errorf("%q is not a regular file", s.path))
	case !s.migrate:
		return s.Check(ctx)
	}
	err = s.repeat(ctx, func() error {
		_, err := s.writes.ExecContext(ctx, "PRAGMA journal_mode=WAL")
		return err
	})
	if err != nil {
		return err
	}
	return s.Migrate(ctx)
}

var creating sync.Mutex

// create makes an empty file if there is none. It does not open a file that exists: a close of any descriptor ends the
// locks that this process has on the file by another connection.
func create(path string) error {
	creating.Lock() // a file that another goroutine has just made is not opened either
	defer creating.Unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Close closes the file. It does not end open transactions: they can be committed, discarded and rolled back, and the
// last one of them closes its connection. Afterwards all methods return an error that wraps store.ErrUnavailable, Wait
// included. Closing again does nothing.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.reads, s.draws, s.writes} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// An Option changes how Open sets a store up.
type Option func(*config)

type config struct {
	migrate bool
	now     func() time.Time
}

// WithMigrate makes Open create the file and the tables if they do not exist. Without it a path that does not
// exist is an error: a new file has no record of earlier effects.
func WithMigrate() Option { return func(c *config) { c.migrate = true } }

// WithClock makes now the store's clock. The default is time.Now. It is meant for tests. now must be safe for
// concurrent use. All processes that use a file must agree on the time.
func WithClock(now func() time.Time) Option { return func(c *config) { c.now = now } }

// clock returns the store's time as the file keeps it.
func (s *Store) clock() time.Time { return time.UnixMicro(s.now().UnixMicro()).UTC() }

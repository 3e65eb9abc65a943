package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

var _ store.Engine = (*Store)(nil)
var _ store.TxStore[*sqltx.Tx] = (*Store)(nil)

// A Store keeps records in a table. Create one with Open or New. Many goroutines, Stores and processes may use a table.
type Store struct {
	*store.Poller // implements store.Waiter
	config
	db     *sql.DB
	owns   bool // Close closes db
	text   statements
	closed atomic.Bool
	made   atomic.Uint64 // new records that met expired ones
	packet atomic.Int64  // max_allowed_packet, once it was read
}

// An Option changes how Open, New and Migration set a store up.
type Option func(*config)

type config struct {
	table   string
	migrate bool
}

// WithTable names the table. The default is "redo_records". A name has 1 to 64 characters. Two tables are two stores.
func WithTable(name string) Option { return func(c *config) { c.table = name } }

// WithMigrate makes Open create the table if it does not exist. See [Store.Migrate].
func WithMigrate() Option { return func(c *config) { c.migrate = true } }

func newConfig(opts []Option) (config, error) {
	c := config{table: "redo_records"}
	for _, o := range opts {
		if o == nil {
			return c, fmt.Errorf("mysqlstore: %w: an option is nil", store.ErrInvalid)
		}
		o(&c)
	}
	odd := !utf8.ValidString(c.table) || strings.Contains(c.table, "\x00") || strings.HasSuffix(c.table, " ")
	if n := utf8.RuneCountInString(c.table); odd || n < 1 || n > 64 {
		return c, fmt.Errorf("mysqlstore: %w: the table's name is %.80q", store.ErrInvalid, c.table)
	}
	return c, nil
}

// Open connects to the database that dsn names, as mysql.ParseDSN reads it, and checks the table as [Store.Check]
// does. The connections have interpolateParams set: a statement is one round trip. No error shows the password.
func Open(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysqlstore: %w: the data source name is not valid", store.ErrInvalid) // err may show it
	}
	cfg.InterpolateParams, cfg.MaxAllowedPacket = true, 0 // zero: ask the server
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("mysqlstore: %w: %w", store.ErrInvalid, err)
	}
	db := sql.OpenDB(connector)
	s, err := New(db, opts...)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.owns = true
	if err = s.Check(ctx); s.migrate && errors.Is(err, ErrNoTable) {
		err = s.Migrate(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New returns a Store over a pool of this package's driver, which the caller closes. Without interpolateParams in its
// data source name each statement is two round trips. New connects to nothing: call Check before the first request.
func New(db *sql.DB, opts ...Option) (*Store, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, fmt.Errorf("mysqlstore: %w: the pool is nil", store.ErrInvalid)
	}
	s := &Store{config: cfg, db: db, text: newStatements(cfg.table)}
	s.Poller = store.Poll(s)
	return s, nil
}

// Close closes the connections of a Store from Open. It does not end open transactions, which go on as before.
// Afterwards all methods return an error that wraps store.ErrUnavailable, Wait included. Closing again does nothing.
func (s *Store) Close() error {
	s.closed.Store(true)
	if !s.owns {
		return nil
	}
	return s.db.Close()
}

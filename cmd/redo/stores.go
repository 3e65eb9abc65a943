package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"
	"github.com/spf13/pflag"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/redo-go/redo/store/sqlitestore"
)

// An engine is a kind of store. Its value is how an error names it.
type engine string

const (
	boltFile   engine = "a boltstore file"
	sqliteFile engine = "a SQLite file"
	postgres   engine = "Postgres"
	mySQL      engine = "MySQL"
	redis      engine = "Redis"
)

// engineOf returns the engine of a store that an argument names, by the scheme of a URL or by a file's first bytes.
func engineOf(name string) (engine, error) {
	scheme, _, isURL := strings.Cut(name, "://")
	if !isURL {
		return fileEngine(name)
	}
	switch scheme {
	case "postgres", "postgresql":
		return postgres, nil
	case "mysql":
		return mySQL, nil
	case "redis", "rediss", "unix":
		return redis, nil
	}
	return "", fmt.Errorf("a store in %s:// is not known: it is the name of a file, or a URL that begins with "+
		"postgres://, mysql://, redis:// or rediss://", scheme)
}

// sqliteMagic begins each SQLite file.
var sqliteMagic = []byte("SQLite format 3\x00")

// fileEngine returns the engine of a file.
func fileEngine(name string) (engine, error) {
	if err := checkFile(name); err != nil {
		return "", failed(err)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", failed(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	head := make([]byte, len(sqliteMagic))
	if _, err := io.ReadFull(f, head); err == nil && bytes.Equal(head, sqliteMagic) {
		return sqliteFile, nil
	}
	return boltFile, nil
}

// A recordStore is a store of any engine.
type recordStore interface {
	store.Engine
	Close() error
}

// A place holds the flags that say where in an engine the records are.
type place struct {
	schema, table, prefix string
}

func (p *place) flags(f *pflag.FlagSet) {
	f.StringVar(&p.schema, "schema", "", "the `schema` of the table in Postgres (default public)")
	f.StringVar(&p.table, "table", "", "the `table` in Postgres or MySQL (default redo_records)")
	f.StringVar(&p.prefix, "prefix", "", "the `prefix` of the keys in Redis (default redo)")
}

// check returns an error if a flag is for another engine.
func (p place) check(on engine) error {
	for _, flag := range []struct {
		name, value string
		fits        bool
	}{
		{"schema", p.schema, on == postgres},
		{"table", p.table, on == postgres || on == mySQL},
		{"prefix", p.prefix, on == redis},
	} {
		if flag.value != "" && !flag.fits {
			return fmt.Errorf("--%s %q: %s has none", flag.name, flag.value, on)
		}
	}
	return nil
}

// withStore opens the store that an argument names, runs f and closes the store. It creates neither file nor table.
func (p place) withStore(ctx context.Context, name string, f func(recordStore) error) (err error) {
	on, err := engineOf(name)
	if err != nil {
		return err
	}
	if err := p.check(on); err != nil {
		return err
	}
	st, err := p.openStore(ctx, on, name)
	if err != nil {
		return failed(err)
	}
	defer func() {
		if closing := st.Close(); err == nil && closing != nil {
			err = failed(closing)
		}
	}()
	return f(st)
}

func (p place) openStore(ctx context.Context, on engine, name string) (recordStore, error) {
	switch on {
	case postgres:
		return p.openPostgres(ctx, name)
	case mySQL:
		dsn, err := mysqlDSN(name)
		if err != nil {
			return nil, err
		}
		var opts []mysqlstore.Option
		if p.table != "" {
			opts = append(opts, mysqlstore.WithTable(p.table))
		}
		return opened(ctx, name, on, func(ctx context.Context) (recordStore, error) {
			return checked(mysqlstore.Open(ctx, dsn, opts...))
		})
	case redis:
		return p.openRedis(ctx, name)
	case sqliteFile:
		return opened(ctx, name, on, func(ctx context.Context) (recordStore, error) {
			return checked(sqlitestore.Open(ctx, name))
		})
	default:
		return checked(boltstore.Open(name))
	}
}

// checked returns no store with an error, so that the interface is nil.
func checked[S recordStore](st S, err error) (recordStore, error) {
	if err != nil {
		return nil, err
	}
	return st, nil
}

// postgresStore closes its pool too.
type postgresStore struct {
	*pgstore.Store
	pool *pgxpool.Pool
}

func (s postgresStore) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

// postgresOptions returns the options for the place in Postgres.
func (p place) postgresOptions() (opts []pgstore.Option) {
	if p.schema != "" {
		opts = append(opts, pgstore.WithSchema(p.schema))
	}
	if p.table != "" {
		opts = append(opts, pgstore.WithTable(p.table))
	}
	return opts
}

func (p place) openPostgres(ctx context.Context, url string) (recordStore, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	st, err := pgstore.New(pool, p.postgresOptions()...)
	if err == nil {
		err = reach(ctx, url, st.Check)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return postgresStore{st, pool}, nil
}

// reach runs check, which is the first use of a pool, within the time in which a store is opened.
func reach(ctx context.Context, url string, check func(context.Context) error) error {
	_, err := opened(ctx, url, postgres, func(ctx context.Context) (struct{}, error) { return struct{}{}, check(ctx) })
	return err
}

// redisStore closes its client too.
type redisStore struct {
	*redisstore.Store
	client rueidis.Client
}

func (s redisStore) Close() error {
	err := s.Store.Close()
	s.client.Close()
	return err
}

// openRedis opens a store that exists. redisstore would create a missing one.
func (p place) openRedis(ctx context.Context, url string) (recordStore, error) {
	prefix := p.prefix
	if prefix == "" {
		prefix = "redo"
	}
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		return checked(redisstore.Open(ctx, url)) // its error does not show the URL
	}
	opt.DisableCache = true // a cached read may be stale
	return opened(ctx, url, redis, func(ctx context.Context) (recordStore, error) {
		client, err := newRedisClient(ctx, opt)
		if err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
		err = hasStore(ctx, client, prefix)
		var st *redisstore.Store
		if err == nil {
			st, err = redisstore.New(ctx, client, redisstore.WithPrefix(prefix))
		}
		if err != nil {
			client.Close()
			return nil, err
		}
		return redisStore{st, client}, nil
	})
}

// hasStore returns an error if no store has the prefix. A store makes a lost layout anew out of its shards.
func hasStore(ctx context.Context, client rueidis.Client, prefix string) error {
	layout := prefix + ":layout"
	for _, key := range []string{layout, prefix + ":{00}:pending"} {
		n, err := client.Do(ctx, client.B().Exists().Key(key).Build()).AsInt64()
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		if n > 0 {
			return nil
		}
	}
	return fmt.Errorf("this database of Redis has no store: there is no key %q, see --prefix and the number of the "+
		"database in the URL", layout)
}

// mysqlDSN returns the driver's data source name for a URL. The query holds the driver's parameters. No error shows
// the URL, because it may hold a password.
func mysqlDSN(name string) (string, error) {
	u, err := url.Parse(name)
	if err != nil || u.Hostname() == "" || len(u.Path) < 2 {
		return "", errors.New("the URL, which is not shown because it may hold a password, is not of the form " +
			"mysql://user:password@host:3306/database")
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName, cfg.User = "tcp", u.Host, u.Path[1:], u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	if u.Port() == "" {
		cfg.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	dsn := cfg.FormatDSN()
	if u.RawQuery == "" {
		return dsn, nil
	}
	if strings.Contains(dsn[strings.LastIndexByte(dsn, '/'):], "?") {
		return dsn + "&" + u.RawQuery, nil
	}
	return dsn + "?" + u.RawQuery, nil
}

// storeHelp is the paragraph about the argument STORE.
const storeHelp = `STORE is the name of a file (boltstore or SQLite), or a URL that begins with postgres://, mysql://,
redis:// or rediss://. A boltstore file is used by one process at a time: stop the service first. A command
gives up on a store that it can't open within 10 seconds.`

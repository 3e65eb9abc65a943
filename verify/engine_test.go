package verify

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/redisstore"
)

// An engine is a server with a place of the test's own on it.
type engine interface {
	// open returns a handle with its own connections.
	open(t *testing.T) store.Store
	// wear makes the lines to the server break now and then, or lets them be.
	wear(bool)
	// disturb breaks connections of the handles, and no others.
	disturb(ctx context.Context) error
}

func (l *line) wear(worn bool) { l.worn.Store(worn) }

var names atomic.Int64

// newName is one that no other test has, in this run or another.
func newName() string {
	return fmt.Sprintf("redo-verify-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), names.Add(1))
}

// onRedis is a prefix on the Redis server.
type onRedis struct {
	line
	prefix string
	option rueidis.ClientOption
	admin  rueidis.Client
}

func newOnRedis(t *testing.T) engine {
	t.Helper()
	o, err := rueidis.ParseURL(redis.url(t))
	require.NoError(t, err)
	o.DisableCache = true
	e := &onRedis{prefix: newName(), option: o}
	e.admin, err = rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		defer e.admin.Close()
		require.NoError(t, e.clear(context.Background())) // the test's own context has ended
	})
	return e
}

// clear removes every record under the prefix.
func (e *onRedis) clear(ctx context.Context) error {
	b := e.admin.B()
	for cursor := uint64(0); ; {
		page, err := e.admin.Do(ctx, b.Scan().Cursor(cursor).Match(e.prefix+":*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		if len(page.Elements) > 0 {
			if err := e.admin.Do(ctx, b.Del().Key(page.Elements...).Build()).Error(); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

func (e *onRedis) open(t *testing.T) store.Store {
	t.Helper()
	o := e.option
	o.ClientName = e.prefix
	dial := o.DialCtxFn
	if dial == nil {
		dial = func(ctx context.Context, to string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", to)
		}
	}
	o.DialCtxFn = func(ctx context.Context, to string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, to, d, c)
		if err != nil {
			return nil, err
		}
		return e.over(conn), nil
	}
	client, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	st, err := redisstore.New(t.Context(), client, redisstore.WithPrefix(e.prefix))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func (e *onRedis) disturb(ctx context.Context) error {
	list, err := e.admin.Do(ctx, e.admin.B().ClientList().Build()).ToString()
	if err != nil {
		return err
	}
	ids, err := clientIDs(list, e.prefix)
	for _, id := range ids {
		// It may be gone by now.
		_ = e.admin.Do(ctx, e.admin.B().ClientKill().Id(id).Build()).Error()
	}
	return err
}

// clientIDs returns the IDs of the connections with a name from what CLIENT LIST answers. In RESP3 the answer begins
// with its format, "txt:". Any connection may come first, since Redis turns its list as it looks after them.
func clientIDs(list, name string) ([]int64, error) {
	var ids []int64
	for line := range strings.Lines(strings.TrimPrefix(list, "txt:")) {
		if !strings.Contains(line, " name="+name+" ") {
			continue
		}
		var id int64
		if _, err := fmt.Sscanf(line, "id=%d ", &id); err != nil {
			return ids, fmt.Errorf("the ID of the connection in %q: %w", line, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func TestTheFirstConnectionOfTheListHasItsID(t *testing.T) {
	ids, err := clientIDs("txt:id=7 addr=a name=ours age=0\nid=8 name=theirs age=0\nid=9 name=ours db=0\n", "ours")
	require.NoError(t, err)
	require.Equal(t, []int64{7, 9}, ids)
	_, err = clientIDs("id= addr=a name=ours age=0\n", "ours")
	require.ErrorContains(t, err, `"id= addr=a name=ours age=0\n"`)
}

// onPostgres is a schema on the Postgres server.
type onPostgres struct {
	line
	name  string
	url   string
	admin *pgxpool.Pool
	mode  pgx.QueryExecMode // zero: prepared statements
}

func newOnPostgres(t *testing.T) engine {
	t.Helper()
	e := &onPostgres{name: newName(), url: postgres.url(t)}
	var err error
	e.admin, err = pgxpool.New(t.Context(), e.url)
	require.NoError(t, err)
	quoted := pgx.Identifier{e.name}.Sanitize()
	_, err = e.admin.Exec(t.Context(), "CREATE SCHEMA "+quoted)
	require.NoError(t, err)
	t.Cleanup(func() {
		defer e.admin.Close()
		// The test's own context has ended.
		_, err := e.admin.Exec(context.Background(), "DROP SCHEMA "+quoted+" CASCADE")
		require.NoError(t, err)
	})
	return e
}

func (e *onPostgres) open(t *testing.T) store.Store {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(e.url)
	require.NoError(t, err)
	cfg.MaxConns = 6
	if e.mode != 0 {
		cfg.ConnConfig.DefaultQueryExecMode = e.mode
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = e.name
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := dial(ctx, network, to)
		if err != nil {
			return nil, err
		}
		return e.over(conn), nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	st, err := pgstore.New(pool, pgstore.WithSchema(e.name))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	return st
}

func (e *onPostgres) disturb(ctx context.Context) error {
	_, err := e.admin.Exec(ctx,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND random() < 0.4", e.name)
	return err
}

package pgoutbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// The test binary runs itself as a relay that crashes. With these variables set it delivers the events of the
// table.
const (
	childURL    = "PGOUTBOX_TEST_URL"
	childSchema = "PGOUTBOX_TEST_SCHEMA"
)

func runRelay(url, schema string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	q, err := pgoutbox.New(pool, pgoutbox.WithSchema(schema))
	if err != nil {
		return err
	}
	return relay(ctx, q)
}

func relay(ctx context.Context, q *pgoutbox.Queue) error {
	client, err := redo.New()
	if err != nil {
		return err
	}
	publisher, err := outbox.HTTP(client)
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(
		q,
		publisher,
		outbox.LeaseTTL(400*time.Millisecond),
		outbox.PollInterval(50*time.Millisecond),
		outbox.Workers(4),
	)
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// A consumer deduplicates by key, and keeps its effects, in order.
type consumer struct {
	mu       sync.Mutex
	requests int
	effects  []string
	enough   func(requests int) // called in the middle of a delivery
}

func newConsumer(t *testing.T) (*consumer, string) {
	t.Helper()
	c := &consumer{}
	once := server.Middleware(
		memstore.New(),
		server.Required(),
		server.SharedKeys(),
	)(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.effects = append(c.effects, server.Key(r.Context()))
			w.WriteHeader(http.StatusNoContent)
		}),
	)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests++
		n, enough := c.requests, c.enough
		c.mu.Unlock()
		once.ServeHTTP(w, r)
		if enough != nil {
			enough(n) // the effect is made, and the response is not sent
		}
	}))
	t.Cleanup(srv.Close)
	return c, srv.URL
}

func (c *consumer) arm(after int, kill func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, once := c.requests+after, sync.OnceFunc(kill)
	c.enough = func(n int) {
		if n >= at {
			once()
		}
	}
}

func TestKilledRelaysLoseAndDoubleNothing(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	p := newPlace(t)
	q, pool := p.open(t)
	c, url := newConsumer(t)
	refunds := pgx.Identifier{p.schema, "refunds"}.Sanitize()
	p.exec(t, "CREATE TABLE "+refunds+" (name text)")

	// Several transactions at a time make refunds, each with its event; one in four is rolled back. Those of a key come
	// one after the other, as a lock of the key's own would have it.
	ctx, stop := context.WithCancel(t.Context())
	var makers sync.WaitGroup
	errs := make([]error, 4)
	for k := range errs {
		makers.Go(func() { errs[k] = makeRefunds(ctx, q, pool, refunds, url, k, c.behind) })
	}

	start := func() *exec.Cmd {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childURL+"="+p.url, childSchema+"="+p.schema)
		child.Stderr = os.Stderr
		require.NoError(t, child.Start())
		t.Cleanup(func() { _, _ = child.Process.Kill(), child.Wait() }) // also when the test has failed
		return child
	}
	children := []*exec.Cmd{start(), start()}
	for i := range rounds {
		killed := make(chan struct{})
		victim := children[i%2]
		c.arm(1+rand.IntN(60), func() { _ = victim.Process.Kill(); close(killed) })
		<-killed
		require.ErrorContains(t, victim.Wait(), "killed")
		children[i%2] = start()
	}
	stop()
	makers.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		stats, err := q.Stats(t.Context())
		return err == nil && stats.Waiting == 0
	}, time.Minute, 5*time.Millisecond)
	for _, child := range children {
		require.NoError(t, child.Process.Kill())
		_ = child.Wait()
	}

	rows, err := pool.Query(t.Context(), "SELECT name FROM "+refunds)
	require.NoError(t, err)
	made, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.ElementsMatch(t, made, c.effects, "refunds that were made, and events that took effect")
	last := map[string]string{}
	for _, name := range c.effects {
		key := name[:strings.LastIndexByte(name, '-')]
		require.Greater(t, name, last[key], "events of a key took effect out of order")
		last[key] = name
	}
	t.Logf("%d refunds, %d deliveries", len(made), c.requests)
}

// behind reports whether the relays have as much before them as can be delivered soon: the makers are faster, and a
// key's events go one after the other.
func (c *consumer) behind(made int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return made > int64(len(c.effects))+200
}

// makeRefunds makes refunds of one key until the context ends, not faster than they are delivered.
func makeRefunds(
	ctx context.Context,
	q *pgoutbox.Queue,
	pool *pgxpool.Pool,
	table, url string,
	k int,
	behind func(made int64) bool,
) error {
	made := int64(0)
	for i := 0; ctx.Err() == nil; i++ {
		for behind(4*made) && ctx.Err() == nil { // the four make about as much
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
		name := fmt.Sprintf("%d-%06d", k, i)
		tx, err := pool.Begin(context.Background())
		if err != nil {
			return err
		}
		if _, err := tx.Exec(context.Background(), "INSERT INTO "+table+" VALUES ($1)", name); err != nil {
			return err
		}
		ev := outbox.Event{ID: name, Destination: url, OrderingKey: fmt.Sprint(k), Payload: []byte(name)}
		if _, err := q.Enqueue(context.Background(), tx, ev); err != nil {
			return err
		}
		end := tx.Commit
		if i%4 == 3 {
			end = tx.Rollback
		} else {
			made++
		}
		if err := end(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

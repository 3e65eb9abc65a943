package boltoutbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
)

// The test binary runs itself as the process that crashes. With these variables set it works on the file and delivers
// to the URL.
const (
	childFile = "BOLTOUTBOX_TEST_FILE"
	childURL  = "BOLTOUTBOX_TEST_URL"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		if err := work(path, os.Getenv(childURL)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var refunds = []byte("refunds")

// work makes refunds, each with its event, and relays them, until it is killed.
func work(path, url string) error {
	st, err := boltstore.Open(path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	q, err := boltoutbox.New(ctx, st)
	if err != nil {
		return err
	}
	failed := make(chan error)
	go func() { failed <- relay(ctx, q) }()
	go func() {
		for i := 0; ; i++ {
			name := fmt.Sprintf("%d-%d-%06d", os.Getpid(), i%4, i)
			err := st.Update(ctx, func(tx *boltstore.Tx) error {
				b, err := tx.CreateBucketIfNotExists(refunds)
				if err != nil {
					return err
				}
				if err := b.Put([]byte(name), nil); err != nil {
					return err
				}
				_, err = q.Enqueue(ctx, tx, outbox.Event{
					ID: name, Destination: url, OrderingKey: name[:len(name)-7], Payload: []byte(name),
				})
				return err
			})
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	return <-failed
}

func relay(ctx context.Context, q *boltoutbox.Queue) error {
	client, err := redo.New()
	if err != nil {
		return err
	}
	publisher, err := outbox.HTTP(client)
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(q, publisher,
		outbox.LeaseTTL(300*time.Millisecond), outbox.PollInterval(20*time.Millisecond))
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// A consumer deduplicates by key, and records the effects in their order.
type consumer struct {
	mu       sync.Mutex
	requests int
	effects  []string
	enough   func(requests int) // called in the middle of a delivery
}

func newConsumer(t *testing.T) (*consumer, string) {
	t.Helper()
	c := &consumer{}
	effect := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.effects = append(c.effects, server.Key(r.Context()))
		w.WriteHeader(http.StatusNoContent)
	})
	once := server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(effect)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests++
		n, enough := c.requests, c.enough
		c.mu.Unlock()
		once.ServeHTTP(w, r)
		if enough != nil {
			enough(n) // after the effect, and before the response
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

func TestKilledRelayLosesAndDoublesNothing(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	c, url := newConsumer(t)
	path := filepath.Join(t.TempDir(), "outbox.redo")
	for range rounds {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childFile+"="+path, childURL+"="+url)
		child.Stderr = os.Stderr
		after := 1 + rand.IntN(60)
		t.Logf("killing in delivery %d", after)
		require.NoError(t, child.Start())
		c.arm(after, func() { _ = child.Process.Kill() })
		require.ErrorContains(t, child.Wait(), "killed")
	}
	c.arm(1<<30, func() {})

	st := open(t, path)
	q, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay(ctx, q) }()
	require.Eventually(t, func() bool {
		stats, err := q.Stats(t.Context())
		return err == nil && stats.Waiting == 0
	}, time.Minute, 5*time.Millisecond)
	stop()
	require.NoError(t, <-ended)

	var made []string
	require.NoError(t, st.View(t.Context(), func(tx *boltstore.Tx) error {
		return tx.Bucket(refunds).ForEach(func(k, _ []byte) error {
			made = append(made, string(k))
			return nil
		})
	}))
	require.ElementsMatch(t, made, c.effects, "refunds that were made, and events that took effect")
	last := map[string]string{}
	for _, name := range c.effects {
		key := name[:strings.LastIndexByte(name, '-')]
		require.Greater(t, name, last[key], "events of a key took effect out of order")
		last[key] = name
	}
	t.Logf("%d refunds, %d deliveries", len(made), c.requests)
}

package inbox_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// The test binary runs itself as the consumer that crashes. With these variables set it serves the file, and kills
// itself in the handler that has the number.
const (
	crashFile = "INBOX_TEST_FILE"
	crashAt   = "INBOX_TEST_KILL"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		n, _ := strconv.Atoi(os.Getenv(crashAt))
		if err := consume(path, n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// The consumer's ledger: the number of times that each event was applied, and the order of the applied events.
var (
	ledger = []byte("ledger")
	order  = []byte("order")
)

var errFirst = errors.New("every third event fails at first")

// apply enters the event into the ledger.
func apply(tx *boltstore.Tx, ev inbox.Event) error {
	counts, err := tx.CreateBucketIfNotExists(ledger)
	if err != nil {
		return err
	}
	sequence, err := tx.CreateBucketIfNotExists(order)
	if err != nil {
		return err
	}
	n, err := sequence.NextSequence()
	if err != nil {
		return err
	}
	if err := sequence.Put(binary.BigEndian.AppendUint64(nil, n), []byte(ev.ID)); err != nil {
		return err
	}
	return counts.Put([]byte(ev.ID), append(counts.Get([]byte(ev.ID)), '1'))
}

// openAcceptor returns an acceptor over the file. If kill is not zero, the handling with that number kills the
// process in its transaction.
func openAcceptor(st *boltstore.Store, kill int) (*inbox.Acceptor, *boltoutbox.Queue, error) {
	queue, err := boltoutbox.New(context.Background(), st, boltoutbox.WithBucket("redo-inbox"))
	if err != nil {
		return nil, nil, err
	}
	events, err := inbox.NewTransactional(st)
	if err != nil {
		return nil, nil, err
	}
	handled := 0 // the file has one transaction at a time
	a, err := inbox.Accept(queue, events.Receiver(func(_ context.Context, tx *boltstore.Tx, ev inbox.Event) error {
		if err := apply(tx, ev); err != nil {
			return err
		}
		if handled++; handled == kill {
			if own, err := os.FindProcess(os.Getpid()); err == nil {
				_ = own.Kill()
			}
			select {}
		}
		if ev.Attempt == 1 && strings.HasSuffix(ev.ID, "3") {
			return errFirst
		}
		return nil
	}), outbox.LeaseTTL(200*time.Millisecond), outbox.PollInterval(10*time.Millisecond),
		outbox.Retry(slices.Repeat([]time.Duration{5 * time.Millisecond}, 1000)...))
	return a, queue, err
}

// consume serves the file until it is killed, and prints its address.
func consume(path string, kill int) error {
	st, err := boltstore.Open(path)
	if err != nil {
		return err
	}
	a, _, err := openAcceptor(st, kill)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- a.Run(context.Background()) }()
	go func() {
		//nolint:gosec // a server of a test needs no timeouts
		failed <- http.Serve(l, a.Handler(func(r *http.Request) (inbox.Event, error) {
			id := r.Header.Get("X-Event")
			key, _, _ := strings.Cut(id, "-")
			return inbox.Event{Source: "bank", ID: id, OrderingKey: key, Payload: []byte(id)}, nil
		}))
	}()
	fmt.Println(l.Addr())
	return <-failed
}

// A producer delivers its events in order, each until it is acknowledged.
type producer struct {
	key   string
	next  int
	acked []string
}

// deliver delivers until the consumer is gone. It calls each after every acknowledgement.
func (p *producer) deliver(ctx context.Context, address string, each func()) {
	for {
		id := fmt.Sprintf("%s-%05d", p.key, p.next)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, http.NoBody)
		if err != nil {
			return
		}
		r.Header.Set("X-Event", id)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusOK {
			p.acked, p.next = append(p.acked, id), p.next+1
			each()
		}
	}
}

// crash runs a consumer until it is killed. It kills itself in the handling with the number in. If in is zero, it
// is killed after that many acknowledgements.
func crash(t *testing.T, path string, in, after int, producers []*producer) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashFile+"="+path, crashAt+"="+strconv.Itoa(in))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var mu sync.Mutex
	acked := 0
	var all sync.WaitGroup
	for _, p := range producers {
		all.Go(func() {
			p.deliver(t.Context(), strings.TrimSpace(address), func() {
				mu.Lock()
				defer mu.Unlock()
				if acked++; in == 0 && acked == after {
					_ = child.Process.Kill()
				}
			})
		})
	}
	require.ErrorContains(t, child.Wait(), "killed")
	all.Wait()
	http.DefaultClient.CloseIdleConnections()
}

func TestEveryAcknowledgedEventIsHandledOnceThroughKills(t *testing.T) {
	rounds := 16
	if testing.Short() {
		rounds = 4
	}
	path := filepath.Join(t.TempDir(), "inbox.redo")
	producers := []*producer{{key: "a"}, {key: "b"}, {key: "c"}}
	for round := range rounds {
		after := 1 + rand.IntN(40)
		if round%2 == 0 {
			t.Logf("killed in handling %d", after)
			crash(t, path, after, 0, producers)
		} else {
			t.Logf("killed after %d acknowledgements", after)
			crash(t, path, 0, after, producers)
		}
	}

	st, err := boltstore.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	a, queue, err := openAcceptor(st, 0)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	require.Eventually(t, func() bool {
		stats, err := queue.Stats(t.Context())
		return err == nil && stats.Waiting == 0
	}, time.Minute, 5*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, letters(t, a, ""))

	applied := map[string]string{}
	last := map[string]string{}
	require.NoError(t, st.View(t.Context(), func(tx *boltstore.Tx) error {
		err := tx.Bucket(order).ForEach(func(_, id []byte) error {
			key, _, _ := strings.Cut(string(id), "-")
			require.Greater(t, string(id), last[key], "events of a key were handled out of order")
			last[key] = string(id)
			return nil
		})
		require.NoError(t, err)
		return tx.Bucket(ledger).ForEach(func(id, n []byte) error {
			applied[string(id)] = string(n)
			return nil
		})
	}))
	acked := 0
	for _, p := range producers {
		for _, id := range p.acked {
			require.Equal(t, "1", applied[id], "acknowledged event %s", id)
			acked++
		}
		// The last event may be durable although its acknowledgement was lost.
		if n, ok := applied[fmt.Sprintf("%s-%05d", p.key, p.next)]; ok {
			require.Equal(t, "1", n)
			acked++
		}
	}
	require.Len(t, applied, acked, "events that no producer has delivered")
	t.Logf("%d events, %d kills", acked, rounds)
}

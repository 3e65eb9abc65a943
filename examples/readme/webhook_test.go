package readme

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/webhook"
)

// bank is the README's producer of webhooks.
type bank struct {
	queue *boltoutbox.Queue
	shop  string // the URL of its webhooks
}

func (b *bank) createRefund(w http.ResponseWriter, r *http.Request) {
	tx, _ := server.Tx[*boltstore.Tx](r.Context())
	id, err := b.write(tx, r.Body)
	if err == nil {
		_, err = b.queue.Enqueue(r.Context(), tx, outbox.Event{
			Type: "refund.created", Destination: b.shop,
			Payload: []byte(`{"type":"refund.created","refund":"` + id + `"}`),
		})
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable) // rolls back: the retry runs this again
		return
	}
	w.WriteHeader(http.StatusCreated) // commits the refund, this response and the event
}

// write enters a refund into the bank's own ledger.
func (*bank) write(tx *boltstore.Tx, body io.Reader) (id string, err error) {
	request, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	b, err := tx.CreateBucketIfNotExists([]byte("ledger"))
	if err != nil {
		return "", err
	}
	n, err := b.NextSequence()
	if err != nil {
		return "", err
	}
	id = fmt.Sprintf("re_%d", n)
	return id, b.Put([]byte(id), request)
}

// newClient returns the client of a relay whose destinations are on the internet.
func newClient(secret webhook.Secret) (*redo.Client, error) {
	signer, err := webhook.NewSigner([]webhook.Secret{secret})
	if err != nil {
		return nil, err
	}
	client, err := redo.New(redo.WithTransport(signer.Transport(nil)))
	return client, err
}

// newTestClient is newClient for destinations on loopback.
func newTestClient(t *testing.T, secret webhook.Secret) *redo.Client {
	t.Helper()
	signer, err := webhook.NewSigner([]webhook.Secret{secret})
	require.NoError(t, err)
	network, err := webhook.Transport(webhook.Allow(netip.MustParsePrefix("127.0.0.0/8")))
	require.NoError(t, err)
	client, err := redo.New(redo.WithTransport(signer.Transport(network)))
	require.NoError(t, err)
	return client
}

func deliver(ctx context.Context, queue outbox.Queue, client *redo.Client, opts ...outbox.Option) error {
	defer client.Close()
	publisher, err := outbox.HTTP(client)
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(queue, publisher, opts...)
	if err != nil {
		return err
	}
	return relay.Run(ctx) // until ctx ends
}

// redrive redrives the events that a consumer refused until it was repaired.
func redrive(ctx context.Context, queue outbox.Backlog, url string, repaired time.Time) (int, error) {
	done, err := outbox.RedriveAll(ctx, queue, outbox.Selection{Destination: url, Until: repaired},
		outbox.PerSecond(50))
	return done.Redriven, err
}

// receiveRefunds is the README's consumer of webhooks.
func receiveRefunds(st *boltstore.Store, secret webhook.Secret, mux *http.ServeMux) error {
	verifier, err := webhook.NewVerifier([]webhook.Secret{secret})
	if err != nil {
		return err
	}
	events, err := inbox.NewTransactional(st)
	if err != nil {
		return err
	}
	mux.Handle("POST /webhooks/bank", verifier.Handler(events.Handler(inbox.Delivered("bank"), enterRefund)))
	return nil
}

func enterRefund(_ context.Context, tx *boltstore.Tx, ev inbox.Event) error {
	var refund struct{ Refund string }
	if err := json.Unmarshal(ev.Payload, &refund); err != nil {
		return inbox.Reject(err) // a dead letter immediately: it will not get better
	}
	ledger, err := tx.CreateBucketIfNotExists([]byte("ledger"))
	if err != nil {
		return err // rolls back: the producer delivers it again
	}
	return ledger.Put([]byte(refund.Refund), ev.Payload) // commits with the mark that the event was handled
}

func openFile(t *testing.T, name string) *boltstore.Store {
	t.Helper()
	st, err := boltstore.Open(filepath.Join(t.TempDir(), name))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func TestARefundIsToldOnceHoweverOftenItIsAskedForAndDelivered(t *testing.T) {
	secret, err := webhook.NewSecret(nil)
	require.NoError(t, err)

	shop, mux := openFile(t, "shop.redo"), http.NewServeMux()
	require.NoError(t, receiveRefunds(shop, secret, mux))
	deliveries := make(chan string, 10)
	network := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		for range 2 { // each event arrives twice
			r.Body = io.NopCloser(bytes.NewReader(body))
			rec := httptest.NewRecorder()
			mux.ServeHTTP(rec, r)
			deliveries <- r.Header.Get("webhook-id") + " " + rec.Header().Get("Idempotency-Status")
		}
	}))
	t.Cleanup(network.Close)

	st := openFile(t, "bank.redo")
	queue, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	b := &bank{queue, network.URL + "/webhooks/bank"}
	once := server.Middleware(st, server.Required(), server.SharedKeys(), server.Transactional[*boltstore.Tx]())
	for _, want := range []string{"stored", "replayed"} {
		r := httptest.NewRequest("POST", "/refunds", strings.NewReader(`{"charge":"ch_9ab"}`))
		r.Header.Set("Idempotency-Key", "refund-1")
		w := httptest.NewRecorder()
		once(http.HandlerFunc(b.createRefund)).ServeHTTP(w, r)
		require.Equal(t, want, w.Header().Get("Idempotency-Status"))
	}
	stats, err := queue.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, stats.Waiting, "one event for two requests")

	ctx, stop := context.WithCancel(t.Context())
	relayed := make(chan error)
	client := newTestClient(t, secret)
	go func() { relayed <- deliver(ctx, queue, client) }()
	first, second := <-deliveries, <-deliveries
	stop()
	require.NoError(t, <-relayed)
	id, status, _ := strings.Cut(first, " ")
	require.Equal(t, "stored", status)
	require.Equal(t, id+" replayed", second, "the same event, and nothing is run")
	err = shop.View(t.Context(), func(tx *boltstore.Tx) error {
		require.Equal(t, 1, tx.Bucket([]byte("ledger")).Stats().KeyN)
		return nil
	})
	require.NoError(t, err)
}

func TestWhatAConsumerRefusedIsRedrivenUnderItsOwnID(t *testing.T) {
	right, err := webhook.NewSecret(nil)
	require.NoError(t, err)
	wrong, err := webhook.NewSecret(nil)
	require.NoError(t, err)
	shop, mux := openFile(t, "shop.redo"), http.NewServeMux()
	require.NoError(t, receiveRefunds(shop, right, mux))
	answers := make(chan int, 10)
	network := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, r)
		w.WriteHeader(rec.Code)
		answers <- rec.Code
	}))
	t.Cleanup(network.Close)
	st := openFile(t, "bank.redo")
	queue, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	err = st.Update(t.Context(), func(tx *boltstore.Tx) error {
		_, err := queue.Enqueue(t.Context(), tx,
			outbox.Event{Destination: network.URL + "/webhooks/bank", Payload: []byte(`{"refund":"re_1"}`)})
		return err
	})
	require.NoError(t, err)
	url := network.URL + "/webhooks/bank"
	for _, step := range []struct {
		secret   webhook.Secret
		redriven int
		want     int
		after    outbox.Stats
	}{
		{wrong, 0, http.StatusUnauthorized, outbox.Stats{Dead: 1}},
		{right, 1, http.StatusOK, outbox.Stats{}},
	} {
		n, err := redrive(t.Context(), queue, url, time.Now())
		require.NoError(t, err)
		require.Equal(t, step.redriven, n)
		ctx, stop := context.WithCancel(t.Context())
		relayed := make(chan error)
		client := newTestClient(t, step.secret)
		go func() { relayed <- deliver(ctx, queue, client, outbox.Retry()) }() // one attempt
		require.Equal(t, step.want, <-answers)
		stop()
		require.NoError(t, <-relayed)
		stats, err := queue.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, step.after, stats)
	}
}

func TestTheRelaysClientReachesNoServerOfItsOwnHost(t *testing.T) {
	secret, err := webhook.NewSecret(nil)
	require.NoError(t, err)
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("it was reached")
	}))
	t.Cleanup(inner.Close)
	client, err := newClient(secret)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	publisher, err := outbox.HTTP(client)
	require.NoError(t, err)
	err = publisher.Publish(t.Context(), outbox.Event{ID: "evt_1", Destination: inner.URL, Payload: []byte("{}")})
	require.ErrorIs(t, err, webhook.AddressRefused)
}

package readme

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/taxonomy"
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
			Type: "refund.created", Destination: b.shop, Payload: []byte(`{"type":"refund.created","refund":"` + id + `"}`),
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

func deliver(ctx context.Context, queue outbox.Queue, secret webhook.Secret) error {
	signer, err := webhook.NewSigner([]webhook.Secret{secret})
	if err != nil {
		return err
	}
	client, err := redo.New(redo.WithTransport(signer.Transport(nil)), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
	if err != nil {
		return err
	}
	defer client.Close()
	publisher, err := outbox.HTTP(client)
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(queue, publisher)
	if err != nil {
		return err
	}
	return relay.Run(ctx) // until ctx ends
}

func redriveRefused(ctx context.Context, queue outbox.Backlog) error {
	for letter, err := range queue.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		if letter.Failure.Code.In(taxonomy.Auth) { // the consumer had lost its secret
			if err := queue.Redrive(ctx, letter.Event.ID); err != nil {
				return err
			}
		}
	}
	return nil
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
		return inbox.Reject(err) // a dead letter at once: it will not get better
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
		for range 2 { // whatever is sent arrives twice
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
	go func() { relayed <- deliver(ctx, queue, secret) }()
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
		_, err := queue.Enqueue(t.Context(), tx, outbox.Event{Destination: network.URL + "/webhooks/bank", Payload: []byte(`{"refund":"re_1"}`)})
		return err
	})
	require.NoError(t, err)
	for _, step := range []struct {
		secret webhook.Secret
		want   int
		after  outbox.Stats
	}{
		{wrong, http.StatusUnauthorized, outbox.Stats{Dead: 1}},
		{right, http.StatusOK, outbox.Stats{}},
	} {
		require.NoError(t, redriveRefused(t.Context(), queue))
		ctx, stop := context.WithCancel(t.Context())
		relayed := make(chan error)
		go func() { relayed <- deliver(ctx, queue, step.secret) }()
		require.Equal(t, step.want, <-answers)
		stop()
		require.NoError(t, <-relayed)
		stats, err := queue.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, step.after, stats)
	}
}

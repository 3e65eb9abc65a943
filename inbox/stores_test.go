package inbox_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

// A subject is an inbox over some store, whose handler returns a given error.
type subject struct {
	lists interface {
		DeadLetters(context.Context, string) iter.Seq2[inbox.FailedEvent, error]
		Waiting(context.Context, string) iter.Seq2[inbox.FailedEvent, error]
	}
	receive func(ev inbox.Event, err error) (inbox.Receipt, error)
	redrive func(source, id string, err error) (inbox.Receipt, error)
	drop    func(source, id string) error
	reopen  func()
}

// subjects returns one constructor for each store and mode. Failed events do not rest.
func subjects() map[string]func(t *testing.T) *subject {
	opts := []inbox.Option{inbox.MaxAttempts(3), inbox.Backoff(func(int) time.Duration { return 0 })}
	plain := func(t *testing.T, s *subject, st inbox.Store) {
		t.Helper()
		in := newInbox(t, st, opts...)
		h := returns
		s.lists = in
		s.receive = func(ev inbox.Event, err error) (inbox.Receipt, error) {
			return in.Receive(t.Context(), ev, h(err))
		}
		s.redrive = func(source, id string, err error) (inbox.Receipt, error) {
			return in.Redrive(t.Context(), source, id, h(err))
		}
		s.drop = func(source, id string) error { return in.Drop(t.Context(), source, id) }
	}
	file := func(t *testing.T, s *subject, use func(*boltstore.Store)) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "inbox.redo")
		var st *boltstore.Store
		s.reopen = func() {
			if st != nil {
				require.NoError(t, st.Close())
			}
			var err error
			st, err = boltstore.Open(path)
			require.NoError(t, err)
			use(st)
		}
		s.reopen()
		t.Cleanup(func() { require.NoError(t, st.Close()) })
	}
	return map[string]func(t *testing.T) *subject{
		"memstore": func(t *testing.T) *subject {
			st := memstore.New()
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			s := &subject{reopen: func() {}}
			plain(t, s, st)
			return s
		},
		"boltstore": func(t *testing.T) *subject {
			s := &subject{}
			file(t, s, func(st *boltstore.Store) { plain(t, s, st) })
			return s
		},
		"boltstore, transactional": func(t *testing.T) *subject {
			s := &subject{}
			file(t, s, func(st *boltstore.Store) {
				in, err := inbox.NewTransactional(st, opts...)
				require.NoError(t, err)
				h := func(err error) inbox.TxHandler[*boltstore.Tx] {
					return func(_ context.Context, tx *boltstore.Tx, ev inbox.Event) error {
						b, failed := tx.CreateBucketIfNotExists([]byte("ledger"))
						require.NoError(t, failed)
						require.Nil(t, b.Get([]byte(ev.ID)), "an effect is made twice, or was not rolled back")
						require.NoError(t, b.Put([]byte(ev.ID), ev.Payload))
						return err
					}
				}
				s.lists = in
				s.receive = func(ev inbox.Event, err error) (inbox.Receipt, error) {
					return in.Receive(t.Context(), ev, h(err))
				}
				s.redrive = func(source, id string, err error) (inbox.Receipt, error) {
					return in.Redrive(t.Context(), source, id, h(err))
				}
				s.drop = func(source, id string) error { return in.Drop(t.Context(), source, id) }
			})
			return s
		},
	}
}

func TestEveryStoreKeepsWhatFailedUntilItIsHandled(t *testing.T) {
	for name, open := range subjects() {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			other := event
			other.Payload = []byte("other")
			fail := func(attempts int) {
				t.Helper()
				_, err := s.receive(event, errHandler)
				require.Equal(t, attempts, refused(t, err, inbox.HandlerFailed).Attempts)
				s.reopen()
				list := waiting(t, s.lists, event.Source)
				require.Len(t, list, 1)
				require.Equal(t, event.Payload, list[0].Payload)
				require.Equal(t, attempts, list[0].Attempts)
				require.Equal(t, errHandler.Error(), list[0].Failure)
				require.Empty(t, letters(t, s.lists, ""))
				_, err = s.receive(other, nil)
				refused(t, err, taxonomy.PayloadMismatch)
			}
			fail(1)
			fail(2)
			r, err := s.receive(event, errHandler)
			require.NoError(t, err)
			require.Equal(t, inbox.DeadLettered, r.Status)
			s.reopen()
			require.Empty(t, waiting(t, s.lists, ""))
			list := letters(t, s.lists, event.Source)
			require.Len(t, list, 1)
			require.Equal(t, event.Payload, list[0].Payload)

			for range 2 {
				r, err = s.receive(other, nil)
				require.NoError(t, err)
				require.True(t, r.PayloadMismatch)
				require.True(t, r.Dead())
			}
			r, err = s.redrive(event.Source, event.ID, errHandler)
			require.NoError(t, err)
			require.Equal(t, inbox.DeadLettered, r.Status)
			s.reopen()
			require.Equal(t, 4, letters(t, s.lists, "")[0].Attempts)
			r, err = s.redrive(event.Source, event.ID, nil)
			require.NoError(t, err)
			require.Equal(t, inbox.Processed, r.Status)
			s.reopen()
			require.Empty(t, letters(t, s.lists, ""))
			for _, ev := range []inbox.Event{event, other} {
				r, err = s.receive(ev, errHandler)
				require.NoError(t, err)
				require.Equal(t, inbox.Replayed, r.Status)
				require.Equal(t, ev.Payload[0] == 'o', r.PayloadMismatch)
				require.Equal(t, 5, r.Attempts)
				require.False(t, r.Dead())
			}
		})
	}
}

func TestEveryStoreRedrivesAndDropsWaitingEvents(t *testing.T) {
	for name, open := range subjects() {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			second := event
			second.ID = "ev_002"
			for _, ev := range []inbox.Event{event, second} {
				_, err := s.receive(ev, errHandler)
				refused(t, err, inbox.HandlerFailed)
			}
			s.reopen()
			r, err := s.redrive(event.Source, event.ID, nil)
			require.NoError(t, err)
			require.Equal(t, inbox.Processed, r.Status)
			require.NoError(t, s.drop(second.Source, second.ID))
			s.reopen()
			require.Empty(t, waiting(t, s.lists, ""))
			require.Empty(t, letters(t, s.lists, ""))
			for _, ev := range []inbox.Event{event, second} {
				r, err := s.receive(ev, errHandler)
				require.NoError(t, err)
				require.Equal(t, inbox.Replayed, r.Status)
				require.Equal(t, ev.ID == second.ID, r.Dead())
			}
			_, err = s.redrive(event.Source, "ev_003", nil)
			require.ErrorIs(t, err, inbox.ErrNoLetter)
		})
	}
}

// The largest event and the longest error fit every store.
func TestEveryStoreKeepsTheLargestPayload(t *testing.T) {
	for name, open := range subjects() {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			ev := inbox.Event{Source: "payments", ID: "ev_001", Payload: make([]byte, inbox.MaxPayload)}
			_, err := s.receive(ev, errHandler)
			refused(t, err, inbox.HandlerFailed)
			require.Equal(t, ev.Payload, waiting(t, s.lists, "")[0].Payload)
			r, err := s.receive(ev, nil)
			require.NoError(t, err)
			require.Equal(t, store.Raw("", "", "", ev.Payload), r.PayloadHash)
		})
	}
}

// The documentation's acceptor works over a real file and over HTTP.
func TestRefundsOfAVerifiedWebhookAreAcceptedAndEntered(t *testing.T) {
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "shop.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	secret, err := webhook.NewSecret(nil)
	require.NoError(t, err)
	signer, err := webhook.NewSigner([]webhook.Secret{secret})
	require.NoError(t, err)
	verifier, err := webhook.NewVerifier([]webhook.Secret{secret})
	require.NoError(t, err)

	mux := http.NewServeMux()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	ended := make(chan error, 1)
	go func() { ended <- acceptRefunds(ctx, st, verifier, mux) }()
	deliver := func() int {
		body := strings.NewReader(string(event.Payload))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/bank", body)
		require.NoError(t, signer.SetHeader(r.Header, event.ID, time.Now(), event.Payload))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w.Code
	}
	require.Eventually(t, func() bool { return deliver() == http.StatusAccepted }, 10*second, time.Millisecond)
	require.Eventually(t, func() bool { return deliver() == http.StatusOK }, 10*second, time.Millisecond)
	require.NoError(t, st.View(t.Context(), func(tx *boltstore.Tx) error {
		require.Equal(t, event.Payload, tx.Bucket([]byte("refunds")).Get([]byte(event.ID)))
		return nil
	}))
	stop()
	require.NoError(t, <-ended)
}

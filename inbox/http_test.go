package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

// identify takes the event from the request itself.
func identify(r *http.Request) (inbox.Event, error) {
	id := r.Header.Get("X-Event")
	if id == "" {
		return inbox.Event{}, errors.New("X-Event is missing")
	}
	return inbox.Event{Source: "payments", ID: id, Payload: []byte(r.Header.Get("X-Payload"))}, nil
}

type response struct {
	status                             int
	stored, replayed, retryAfter, code string
}

func deliver(t *testing.T, h http.Handler, id, payload string) response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks", http.NoBody)
	r.Header.Set("X-Event", id)
	r.Header.Set("X-Payload", payload)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	got := w.Header()
	if got.Get("Content-Type") == "application/problem+json" {
		var p struct {
			Code      taxonomy.Code
			Retryable bool
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
		require.Equal(t, got.Get("Error-Code"), string(p.Code))
		require.Equal(t, p.Code.Transient(), p.Retryable)
	}
	require.NotContains(t, w.Body.String(), errHandler.Error(), "the producer does not learn the handler's error")
	return response{
		w.Code, got.Get("Idempotency-Status"), got.Get("Idempotent-Replayed"), got.Get("Retry-After"),
		got.Get("Error-Code"),
	}
}

func TestADeliveryIsAcknowledgedOnlyOnceItIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.MaxAttempts(3), inbox.Backoff(func(int) time.Duration {
			return 1500 * time.Millisecond
		}))
		s := &scripted{errs: []error{errHandler}}
		var h http.Handler
		h = in.Handler(identify, func(ctx context.Context, ev inbox.Event) error {
			require.Equal(t, response{409, "", "", "30", "CONFLICT.idempotency.in_flight"}, deliver(t, h, ev.ID, "p"))
			require.Equal(t, response{409, "", "", "", "CONFLICT.idempotency.payload_mismatch"},
				deliver(t, h, ev.ID, "other"))
			return s.handle(ctx, ev)
		})
		require.Equal(t, response{503, "", "", "2", "TRANSIENT.handler_failed"}, deliver(t, h, "a", "p"))
		require.Equal(t, response{409, "", "", "2", "CONFLICT.idempotency.in_flight"}, deliver(t, h, "a", "p"),
			"it rests")
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, response{200, "stored", "", "", ""}, deliver(t, h, "a", "p"))
		require.Equal(t, response{200, "replayed", "true", "", ""}, deliver(t, h, "a", "p"))
		require.Equal(t, response{200, "replayed", "true", "", ""}, deliver(t, h, "a", "other"),
			"the producer can't mend it")
		require.Equal(t, response{400, "", "", "", "VALIDATION.bad_request"}, deliver(t, h, "", "p"))
		require.Equal(t, response{400, "", "", "", "VALIDATION.bad_request"},
			deliver(t, h, strings.Repeat("a", 1025), "p"))
		large := strings.Repeat("p", inbox.MaxPayload+1)
		require.Equal(t, response{413, "", "", "", "VALIDATION.content_too_large"}, deliver(t, h, "b", large))
		require.Len(t, s.events, 2)

		reject := in.Handler(identify, returns(inbox.Reject(errHandler)))
		require.Equal(t, response{202, "stored", "", "", ""}, deliver(t, reject, "c", "p"))
		require.Equal(t, response{200, "replayed", "true", "", ""}, deliver(t, reject, "c", "p"))

		_, err := st.Reserve(t.Context(), store.Claim{
			ID:          store.ID{Scope: "inbox/payments", Key: "d"},
			Fingerprint: store.Raw("", "", "", []byte("p")), Retention: time.Hour,
		})
		require.NoError(t, err)
		require.Equal(t, response{500, "", "", "", "CONFIGURATION.stored_event"}, deliver(t, h, "d", "p"))

		down := newInbox(t, mortal(st, 0)).Handler(identify, s.handle)
		require.Equal(t, response{503, "", "", "1", "DEPENDENCY.unavailable"}, deliver(t, down, "e", "p"))
	})
}

func TestTheHandlerRunsOnWhenTheProducerDisconnects(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		h := newInbox(t, st).Handler(identify, func(ctx context.Context, _ inbox.Event) error {
			cancel()
			return ctx.Err()
		})
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/webhooks", http.NoBody)
		r.Header.Set("X-Event", "a")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code)
	})
}

func TestAVerifiedDeliveryIsAnEventUnderItsWebhookID(t *testing.T) {
	secret, err := webhook.NewSecret(nil)
	require.NoError(t, err)
	signer, err := webhook.NewSigner([]webhook.Secret{secret})
	require.NoError(t, err)
	verifier, err := webhook.NewVerifier([]webhook.Secret{secret})
	require.NoError(t, err)
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		h := in.Handler(inbox.Delivered("payments"), func(ctx context.Context, tx rows, ev inbox.Event) error {
			require.Equal(t, event.Payload, ev.Payload)
			return credit(nil)(ctx, tx, ev)
		})
		send := func(h http.Handler) *httptest.ResponseRecorder {
			body := strings.NewReader(string(event.Payload))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks", body)
			require.NoError(t, signer.SetHeader(r.Header, event.ID, time.Now(), event.Payload))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		for range 2 {
			require.Equal(t, http.StatusOK, send(verifier.Handler(h)).Code)
			time.Sleep(time.Minute) // each attempt is signed anew
		}
		require.Equal(t, credited, e.rows)
		w := send(h)
		require.Equal(t, http.StatusInternalServerError, w.Code, "without a verifier nothing is received")
		require.Contains(t, w.Body.String(), `"title":"Misconfigured"`)
	})
}

func TestARefusalOfIdentifyNeedsNoCause(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		for code, status := range map[taxonomy.Code]int{taxonomy.BadRequest: 400, taxonomy.ContentTooLarge: 413} {
			h := newInbox(t, st).Handler(func(*http.Request) (inbox.Event, error) {
				return inbox.Event{}, &inbox.Error{Code: code}
			}, nil)
			require.Equal(t, response{status, "", "", "", string(code)}, deliver(t, h, "a", "p"))
		}
	})
}

func TestWithoutAHandlerADeliveryIsRefusedAndNotCounted(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	in := newInbox(t, st)
	tx, err := inbox.NewTransactional(newEngine(st))
	require.NoError(t, err)
	misconfigured := response{status: 500, code: string(taxonomy.Configuration)}
	for range 2 {
		require.Equal(t, misconfigured, deliver(t, in.Handler(identify, nil), "ev_001", "a"))
		require.Equal(t, misconfigured, deliver(t, tx.Handler(identify, nil), "ev_001", "a"))
		require.Equal(t, misconfigured, deliver(t, in.Handler(nil, (&scripted{}).handle), "ev_001", "a"))
		_, err := in.Receiver(nil).Receive(t.Context(), event)
		refused(t, err, taxonomy.Configuration)
		require.ErrorContains(t, err, "the handler is nil")
	}
	var s scripted
	require.Equal(t, response{status: 200, stored: "stored"}, deliver(t, in.Handler(identify, s.handle), "ev_001", "a"))
	require.Equal(t, 1, s.events[0].Attempt)
}

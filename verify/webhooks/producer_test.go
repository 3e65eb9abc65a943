package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A create or its reversal is entered and queued once per key. A refused request is neither entered nor queued.
func TestCreatesAndReversalsAreToldAndRefusalsAreNot(t *testing.T) {
	t.Run("files", func(t *testing.T) {
		p, err := inFile(t.Context(), filepath.Join(t.TempDir(), "producer.redo"))
		require.NoError(t, err)
		t.Cleanup(p.close)
		createAndReverse(t, p)
	})
	t.Run("Postgres", func(t *testing.T) {
		db, err := openDatabase(t.Context(), postgres(t))
		require.NoError(t, err)
		t.Cleanup(db.Close)
		p, err := inSchema(t.Context(), db.url, db.schemas["producer"])
		require.NoError(t, err)
		t.Cleanup(p.close)
		createAndReverse(t, p)
	})
}

func createAndReverse[T any](t *testing.T, p *place[T]) {
	t.Helper()
	h := newProducer(p, role{Consumer: "http://127.0.0.1:1/webhooks/bank"}).handler()
	var payment receipt
	for _, step := range []struct {
		rule, key, path string
		in              request
		status          int
		replayed        bool
		effects         int // in the ledger and in the outbox, when it is over
	}{
		{"a payment", "k1", "/payments", request{Amount: 100_00}, http.StatusCreated, false, 1},
		{"the same again", "k1", "/payments", request{Amount: 100_00}, http.StatusCreated, true, 1},
		{"the same key for another amount", "k1", "/payments", request{Amount: 200_00}, http.StatusConflict, false, 1},
		{
			"a refund of more than was paid", "k2", "/refunds", request{Amount: 100_01},
			http.StatusUnprocessableEntity, false, 1,
		},
		{"the refusal again", "k2", "/refunds", request{Amount: 100_01}, http.StatusUnprocessableEntity, true, 1},
		{"a refund", "k3", "/refunds", request{Amount: 30_00}, http.StatusCreated, false, 2},
		{"the refund again", "k3", "/refunds", request{Amount: 30_00}, http.StatusCreated, true, 2},
		{"a void", "k4", "/voids", request{}, http.StatusCreated, false, 3},
		{"the void again", "k4", "/voids", request{}, http.StatusCreated, true, 3},
		{"a void of nothing", "k5", "/voids", request{}, http.StatusUnprocessableEntity, false, 3},
	} {
		step.in.Payment = payment.ID
		if step.path == "/payments" {
			step.in.Payment = ""
		}
		body, err := json.Marshal(step.in)
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, step.path, strings.NewReader(string(body)))
		r.Header.Set("Idempotency-Key", step.key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, step.status, w.Code, "%s: %s", step.rule, w.Body)
		require.Equal(t, step.replayed, w.Header().Get("Idempotency-Status") == "replayed", step.rule)
		if payment.ID == "" {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &payment))
		}
		entries, err := p.books.entries(t.Context())
		require.NoError(t, err)
		require.Len(t, entries, step.effects, step.rule)
		stats, err := p.queue.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, step.effects, stats.Waiting, step.rule)
	}
	entries, err := p.books.entries(t.Context())
	require.NoError(t, err)
	for i, want := range []struct {
		kind   string
		amount int
	}{{"payment", 100_00}, {"refund", 30_00}, {"void", 70_00}} {
		require.Equal(t, want.kind, entries[i].Kind)
		require.Equal(t, want.amount, entries[i].Amount)
	}
}

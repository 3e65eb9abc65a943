package main

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/webhook"
)

// A receiver is the consumer over a new file, with a signer for its webhooks.
type receiver struct {
	*consumer[*boltstore.Tx]
	http   http.Handler
	signer *webhook.Signer
}

func newReceiver(t *testing.T, source string) receiver {
	t.Helper()
	p, err := inFile(t.Context(), filepath.Join(t.TempDir(), "consumer.redo"))
	require.NoError(t, err)
	t.Cleanup(p.close)
	s, err := makeSecret(newSecret)
	require.NoError(t, err)
	c := &consumer[*boltstore.Tx]{p, source, []secret{s}, "consumer"}
	h, err := c.handler()
	require.NoError(t, err)
	keys, err := parsed(c.secrets)
	require.NoError(t, err)
	signer, err := webhook.NewSigner(keys)
	require.NoError(t, err)
	return receiver{c, h, signer}
}

// deliver sends a webhook, which change may forge.
func (r receiver) deliver(t *testing.T, id string, n notice, change func(http.Header)) *httptest.ResponseRecorder {
	t.Helper()
	body, err := json.Marshal(n)
	require.NoError(t, err)
	req := httptest.NewRequest(http.MethodPost, "/webhooks/"+r.source, strings.NewReader(string(body)))
	req.Header.Set("Idempotency-Key", id)
	require.NoError(t, r.signer.SetHeader(req.Header, id, time.Now(), body))
	if change != nil {
		change(req.Header)
	}
	w := httptest.NewRecorder()
	r.http.ServeHTTP(w, req)
	return w
}

// The table's deliveries as signed webhooks: the second is replayed, and the ledger has one entry. Its times are
// replayed in package inbox, which can turn the clock.
func TestTheConsumerTableEndsInOneEntry(t *testing.T) {
	f, err := os.Open("../../store/testdata/consumer_inbox.csv")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"event_id", "source", "first_seen", "processed", "result"}, rows[0])
	require.Len(t, rows, 3)
	results := map[string]string{"stored": "ok", "replayed": "replayed"}

	r := newReceiver(t, rows[1][1])
	for _, row := range rows[1:] {
		require.Equal(t, r.source, row[1])
		w := r.deliver(t, row[0], notice{Kind: "refund", ID: "refund_1", Payment: "payment_1", Amount: 1000}, nil)
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, row[4], results[w.Header().Get("Idempotency-Status")])
	}
	entries, err := r.books.entries(t.Context())
	require.NoError(t, err)
	require.Equal(t, []entry{{
		Number: 1, ID: "refund_1", Kind: "refund", Key: "ev_001", Payment: "payment_1", Amount: 1000,
		Verified: newSecret,
	}}, entries)
}

func TestWhatTheProducerDidNotSignIsNotEntered(t *testing.T) {
	r := newReceiver(t, "bank")
	for _, c := range []struct {
		rule   string
		change func(http.Header)
		status int
	}{
		{"another id", func(h http.Header) { h.Set(webhook.HeaderID, "ev_2") }, http.StatusUnauthorized},
		{"no signature", func(h http.Header) { h.Del(webhook.HeaderSignature) }, http.StatusBadRequest},
		{"another Idempotency-Key", func(h http.Header) { h.Set("Idempotency-Key", "ev_2") }, http.StatusBadRequest},
	} {
		require.Equal(t, c.status, r.deliver(t, "ev_1", notice{Kind: "refund"}, c.change).Code, c.rule)
	}
	entries, err := r.books.entries(t.Context())
	require.NoError(t, err)
	require.Empty(t, entries)
}

package main

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// shop is the quickstart's service on a socket, with a payment of 100.00 in its ledger.
type shop struct {
	url  string
	book *ledger
}

func newShop(t *testing.T) shop {
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "service.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	book, err := openLedger(filepath.Join(t.TempDir(), "ledger.jsonl"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, book.file.Close()) })
	srv := httptest.NewServer(newService(st, book, t.Logf))
	t.Cleanup(srv.Close)
	s := shop{srv.URL, book}
	receipt, err := redo.Call[Receipt](redo.WithKey(t.Context(), "payment-1"), newClient(t), "POST", s.url+"/payments",
		PaymentRequest{Reference: "order-1", Amount: 10_000})
	require.NoError(t, err)
	require.Equal(t, Receipt{ID: "py_1", Amount: 10_000}, receipt)
	return s
}

func newClient(t *testing.T, opts ...redo.Option) *redo.Client {
	c, err := redo.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func (s shop) refund(ctx context.Context, c *redo.Client, amount int) (Receipt, error) {
	return redo.Call[Receipt](ctx, c, "POST", s.url+"/refunds",
		RefundRequest{Reference: "refund", Payment: "py_1", Amount: amount})
}

func TestTheSameKeyTwiceIsTheSameRefundAndOneEntry(t *testing.T) {
	s, c := newShop(t), newClient(t)
	ctx := redo.WithKey(t.Context(), "k1")
	first, err := s.refund(ctx, c, 1_000)
	require.NoError(t, err)
	second, err := s.refund(ctx, c, 1_000)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Len(t, s.book.entries(), 2, "the payment and one refund")
}

func TestAnotherKeyWithTheSamePayloadIsANewRefund(t *testing.T) {
	s, c := newShop(t), newClient(t)
	first, err := s.refund(redo.WithKey(t.Context(), "k1"), c, 1_000)
	require.NoError(t, err)
	second, err := s.refund(redo.WithKey(t.Context(), "k2"), c, 1_000)
	require.NoError(t, err)
	require.NotEqual(t, first.ID, second.ID)
	require.Len(t, s.book.entries(), 3)
}

func TestAnotherAmountUnderTheSameKeyIsAMismatch(t *testing.T) {
	s, c := newShop(t), newClient(t)
	ctx := redo.WithKey(t.Context(), "k1")
	_, err := s.refund(ctx, c, 1_000)
	require.NoError(t, err)
	_, err = s.refund(ctx, c, 2_000)
	e, ok := errors.AsType[*redo.Error](err)
	require.True(t, ok)
	require.Equal(t, http.StatusConflict, e.StatusCode)
	require.Equal(t, taxonomy.Code("CONFLICT.idempotency.payload_mismatch"), e.Code)
	require.True(t, e.Said(), "the server reported it")
	require.False(t, redo.SafeToRetry(err))
	require.Len(t, s.book.entries(), 2)
}

func TestCreatesAndTheirReversesAreAllCovered(t *testing.T) {
	s := newShop(t)
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	c := newClient(t, redo.WithStore(st), redo.WithServerReplay())
	for _, step := range []struct {
		name, path string
		in         any
	}{
		{"payment:order-2", "/payments", PaymentRequest{Reference: "payment:order-2", Amount: 5_000}},
		{"refund:order-2", "/refunds", RefundRequest{Reference: "refund:order-2", Payment: "py_2", Amount: 1_500}},
		{"void:order-2", "/voids", VoidRequest{Reference: "void:order-2", Payment: "py_2"}},
	} {
		before := len(s.book.entries())
		var receipts [2]Receipt
		for i := range receipts {
			var err error
			receipts[i], err = redo.Call[Receipt](redo.WithOperation(t.Context(), step.name), c, "POST",
				s.url+step.path, step.in)
			require.NoError(t, err, step.name)
		}
		require.Equal(t, receipts[0], receipts[1], step.name)
		require.Len(t, s.book.entries(), before+1, step.name)
	}
	require.Zero(t, s.book.left["py_2"])
}

// A gateway is between the phone and the provider. It names its operation after the key that the phone sent. A
// retry of the whole therefore reaches the provider under one key.
func TestAGatewayTimeoutAndARetryMakeOnePayout(t *testing.T) {
	provider := newShop(t)
	timeouts := 1
	network := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		forward(t, provider.url, rec, r)
		if timeouts > 0 { // the provider has paid out, and its response comes too late
			timeouts--
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	}))
	t.Cleanup(network.Close)

	gatewayClient := newClient(t, redo.WithKeys(redo.DerivedKeys("gateway")),
		redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	var runs int
	mux := http.NewServeMux()
	mux.Handle("POST /payouts", server.Middleware(st, server.Required(),
		server.SharedKeys())(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		ctx := redo.WithOperation(r.Context(), server.Key(r.Context())+":refund")
		receipt, err := redo.Call[Receipt](ctx, gatewayClient, "POST", network.URL+"/refunds",
			RefundRequest{Reference: "payout", Payment: "py_1", Amount: 1_000})
		if err != nil {
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":"` + receipt.ID + `"}`))
	})))
	gateway := httptest.NewServer(mux)
	t.Cleanup(gateway.Close)

	phone := newClient(t, redo.WithRetry(redo.RetryPolicy{BaseDelay: time.Millisecond}))
	receipt, err := redo.Call[Receipt](redo.WithKey(t.Context(), "tap-1"), phone, "POST", gateway.URL+"/payouts", nil)
	require.NoError(t, err)
	require.Equal(t, "rf_2", receipt.ID)
	require.Equal(t, 2, runs, "a timeout releases the key, and the retry runs the handler again")
	require.Len(t, provider.book.entries(), 2, "the payment and one payout")
}

// forward sends a request on as it is.
func forward(t *testing.T, url string, w http.ResponseWriter, r *http.Request) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, url+r.URL.Path, r.Body)
	require.NoError(t, err)
	out.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(out)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	w.WriteHeader(resp.StatusCode)
	buf := make([]byte, 1<<10)
	for {
		n, err := resp.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

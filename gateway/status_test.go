package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestOnlyAKeyInFlightIsAccepted(t *testing.T) {
	var nested *httptest.ResponseRecorder
	var g *gateway.Gateway
	g = local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
		nested = post(g, "{}") // the phone repeats it
		return respond(http.StatusCreated)(r)
	}, gateway.StatusPath("/operations"), gateway.Wait(0))
	first := post(g, "{}")
	require.Equal(t, http.StatusCreated, first.Code)
	require.Empty(t, first.Body.String())
	require.Equal(t, http.StatusAccepted, nested.Code)
	require.JSONEq(t, `{"state":"pending"}`, nested.Body.String())
	require.Equal(t, "application/json", nested.Header().Get("Content-Type"))
	require.Empty(t, nested.Header().Get("Error-Code"))

	w := post(g, "other")
	require.Equal(t, http.StatusConflict, w.Code)
	require.Equal(t, "CONFLICT.idempotency.payload_mismatch", w.Header().Get("Error-Code"))
	require.Empty(t, w.Header().Get("Location"))
	require.NotContains(t, w.Body.String(), "pending")
}

func TestKeyInTheHeaderCountsBeforeTheQuery(t *testing.T) {
	g := local(t, memstore.New(), respond(http.StatusCreated), gateway.StatusPath("/operations"))
	require.Equal(t, http.StatusCreated, post(g, "{}").Code)
	for _, c := range []struct {
		query, key string
		status     int
	}{
		{"?key=k1", "", 200},
		{`?key=%22k1%22`, "", 200},
		{`?key=%22k1`, "", 404},
		{"?key=k2", "", 404},
		{"?key=k2", "k1", 200},
		{"?key=k1", "k2", 404},
		{"", "k1", 200},
		{"", "", 400},
	} {
		r := httptest.NewRequest(http.MethodGet, "/operations"+c.query, nil)
		r.Header.Set("X-User", "ann")
		if c.key != "" {
			r.Header.Set("Idempotency-Key", c.key)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, c)
	}
}

// The status URL has the key as the header has it, so that a quoted key and a key with quotation marks stay apart.
func TestStatusURLOfEachKeyLeadsToIt(t *testing.T) {
	for _, key := range []string{`"k 1"`, `"\"k1\""`, `"a,b"`, `a\b`} {
		var nested *httptest.ResponseRecorder
		var g *gateway.Gateway
		g = local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
			nested = post(g, "{}", "Idempotency-Key", key) // the phone repeats it
			return respond(http.StatusCreated)(r)
		}, gateway.StatusPath("/operations"), gateway.Wait(0))
		require.Equal(t, http.StatusCreated, post(g, "{}", "Idempotency-Key", key).Code, key)
		require.Equal(t, http.StatusAccepted, nested.Code, key)
		r := httptest.NewRequest(http.MethodGet, nested.Header().Get("Location"), nil)
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, key)
	}
}

// The middleware's record stays pending until the phone repeats its request. A phone that reads the status alone would
// wait for ever.
func TestStatusShowsWhatRunHasCompleted(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusCreated:             `{"state":"complete","status":201}`,
		http.StatusUnprocessableEntity: `{"state":"failed","status":422}`,
		http.StatusServiceUnavailable:  `{"state":"pending"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
				if sent++; sent == 1 {
					return nil, io.ErrUnexpectedEOF
				}
				return respond(status, "Idempotency-Status", "stored")(r)
			}, gateway.StatusPath("/operations"))
			read := func(user string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodGet, "/operations?key=k1", nil)
				r.Header.Set("X-User", user)
				w := httptest.NewRecorder()
				g.ServeHTTP(w, r)
				return w
			}
			require.Equal(t, http.StatusBadGateway, post(g, "{}").Code)
			require.JSONEq(t, `{"state":"pending"}`, read("ann").Body.String())
			go func() { _ = g.Run(t.Context()) }()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			w := read("ann")
			require.Equal(t, http.StatusOK, w.Code)
			require.JSONEq(t, want, w.Body.String())
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Equal(t, http.StatusNotFound, read("ben").Code)
			require.Equal(t, http.StatusUnauthorized, read("").Code)
			require.Equal(t, status, post(g, "{}").Code)
		})
	}
}

func TestStatusShowsTheFindingOfAPerson(t *testing.T) {
	for effect, want := range map[redo.Effect]string{
		redo.Applied:    `{"state":"complete"}`,
		redo.NotApplied: `{"state":"pending"}`, // a repetition is sent again
	} {
		st := memstore.New()
		g := local(t, st, func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
			gateway.StatusPath("/operations"))
		require.Equal(t, http.StatusBadGateway, post(g, "{}").Code)
		operator, err := redo.New(redo.WithStore(st), redo.WithScope("gateway"))
		require.NoError(t, err)
		for op, err := range operator.Pending(t.Context()) {
			require.NoError(t, err)
			f := redo.Finding{Effect: effect, Evidence: "the ledger", By: "ana"}
			require.NoError(t, operator.Settle(t.Context(), op.Name, f))
		}
		r := httptest.NewRequest(http.MethodGet, "/operations?key=k1", nil)
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		require.JSONEq(t, want, w.Body.String())
	}
}

func TestDisconnectEndsARequestWithoutAKey(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		close(begun)
		<-r.Context().Done()
		close(ended)
	}))
	defer up.Close()
	gw, _ := open(t, up.URL, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gw.URL+"/v1/refunds", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("X-User", "ann")
	go func() { <-begun; hangUp() }()
	_, err = http.DefaultClient.Do(req)
	require.ErrorIs(t, err, context.Canceled)
	<-ended
}

// mute is a store that does not respond to Find.
type mute struct{ *memstore.Store }

func (mute) Find(ctx context.Context, _ store.ID) (store.Record, error) {
	<-ctx.Done()
	return store.Record{}, ctx.Err()
}

func TestAStateIsNotWaitedForIfTheStoreDoesNotRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		defer mem.Close()
		g := local(t, mute{mem}, respond(http.StatusCreated), gateway.StatusPath("/operations"))
		r := httptest.NewRequest(http.MethodGet, "/operations?key=k1", nil)
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
	})
}

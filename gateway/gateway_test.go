package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var secret = []byte("a secret of 32 bytes, for tests.")

func user(r *http.Request) string { return r.Header.Get("X-User") }

// prompt retries without long waits.
var prompt = redo.WithRetry(redo.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: time.Millisecond})

// open returns the address of a gateway before the upstream, and the gateway.
func open(t *testing.T, upstream string, st store.Store, opts ...gateway.Option) (*httptest.Server, *gateway.Gateway) {
	t.Helper()
	u, err := url.Parse(upstream)
	require.NoError(t, err)
	if st == nil {
		st = memstore.New()
	}
	opts = append([]gateway.Option{gateway.Principal(user), gateway.Secret(secret), gateway.Client(prompt)}, opts...)
	g, err := gateway.New(u, st, opts...)
	require.NoError(t, err)
	srv := httptest.NewServer(g)
	t.Cleanup(srv.Close)
	return srv, g
}

// A tap is a phone's request.
type tap struct{ user, key, body string }

// send returns the response's status, header and body.
func send(t *testing.T, base string, p tap, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/refunds", strings.NewReader(p.body))
	require.NoError(t, err)
	req.Header.Set("X-User", p.user)
	if p.key != "" {
		req.Header.Set("Idempotency-Key", p.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, string(body)
}

func TestDoubleTapHasOneEffect(t *testing.T) {
	up := servertest.New(t)
	gw, _ := open(t, up.URL, nil)
	var wg sync.WaitGroup
	bodies := make([]string, 8)
	for i := range bodies {
		wg.Go(func() {
			var status int
			status, _, bodies[i] = send(t, gw.URL, tap{"ann", "k1", `{"amount":10}`})
			require.Equal(t, http.StatusCreated, status)
		})
	}
	wg.Wait()
	for _, b := range bodies {
		require.Equal(t, bodies[0], b)
	}
	require.Equal(t, 1, up.Ledger().Total())
}

func TestPhonesNeverShareAKey(t *testing.T) {
	up := servertest.New(t)
	gw, _ := open(t, up.URL, nil)
	_, _, ann := send(t, gw.URL, tap{"ann", "k1", "{}"})
	_, _, ben := send(t, gw.URL, tap{"ben", "k1", "{}"})
	require.NotEqual(t, ann, ben)
	require.Equal(t, 2, up.Ledger().Total())
	requests := up.Requests()
	require.NotEqual(t, requests[0].Key, requests[1].Key)
	for _, r := range requests {
		require.Len(t, r.Key, 64, "the HMAC of principal and key, never the phone's key")
	}
}

func TestUpstreamKeySurvivesTheGateway(t *testing.T) {
	up := servertest.New(t)
	first, _ := open(t, up.URL, nil)
	second, _ := open(t, up.URL, nil) // another store: all that they share is the secret
	_, _, one := send(t, first.URL, tap{"ann", "k1", "{}"})
	_, _, two := send(t, second.URL, tap{"ann", "k1", "{}"})
	require.Equal(t, one, two)
	require.Equal(t, 1, up.Ledger().Total())
}

func TestLostResponseIsFetchedAgain(t *testing.T) {
	up := servertest.New(t, servertest.ScriptNext(servertest.ResetAfterEffect(), servertest.OK()))
	gw, _ := open(t, up.URL, nil)
	status, _, _ := send(t, gw.URL, tap{"ann", "k1", "{}"})
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, 1, up.Ledger().Total())
	require.Len(t, up.Requests(), 2)
}

func TestPhoneThatLeftGetsTheResponseLater(t *testing.T) {
	begun, leave := make(chan struct{}), make(chan struct{})
	up := servertest.New(t, servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-leave
		_, _ = servertest.Effect(r.Context())
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "done")
	})))
	gw, _ := open(t, up.URL, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gw.URL+"/v1/refunds", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header = http.Header{"Idempotency-Key": {"k1"}, "X-User": {"ann"}}
	gone := make(chan error)
	go func() {
		_, err := http.DefaultClient.Do(req)
		gone <- err
	}()
	<-begun
	hangUp()
	require.Error(t, <-gone)
	close(leave)
	status, _, body := send(t, gw.URL, tap{"ann", "k1", "{}"})
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, "done", body)
	require.Equal(t, 1, up.Ledger().Total())
}

func TestRefusalOfTheUpstreamIsReplayed(t *testing.T) {
	calls := 0
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		http.Error(w, "no money", http.StatusPaymentRequired)
	}))
	defer up.Close()
	gw, _ := open(t, up.URL, nil)
	for range 2 {
		status, _, body := send(t, gw.URL, tap{"ann", "k1", "{}"})
		require.Equal(t, http.StatusPaymentRequired, status)
		require.Equal(t, "no money\n", body)
	}
	require.Equal(t, 1, calls)
}

// A 429 would show the phone that nothing is applied. An earlier attempt may have been, and Run may apply it later.
func TestLimitOfTheUpstreamIsNoRefusal(t *testing.T) {
	limited := servertest.Status(http.StatusTooManyRequests)
	for rule, script := range map[string]servertest.Option{
		"after a lost response": servertest.ScriptEach(servertest.ResetAfterEffect(), limited),
		"before any effect":     servertest.ScriptEach(limited, limited),
	} {
		t.Run(rule, func(t *testing.T) {
			up := servertest.New(t, script)
			twice := gateway.Client(redo.WithRetry(redo.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond}))
			gw, _ := open(t, up.URL, nil, twice)
			status, header, body := send(t, gw.URL, tap{"ann", "k1", "{}"})
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Contains(t, body, `"code":"DEPENDENCY.unavailable"`)
			require.NotEmpty(t, header.Get("Retry-After"))
			status, _, _ = send(t, gw.URL, tap{"ann", "k1", "{}"})
			require.Equal(t, http.StatusCreated, status)
			require.Equal(t, 1, up.Ledger().Total())
		})
	}
}

// The twin: Run continues no request without a key.
func TestLimitIsPassedOnWithoutAKey(t *testing.T) {
	up := servertest.New(t, servertest.ScriptEach(servertest.Status(http.StatusTooManyRequests)))
	gw, _ := open(t, up.URL, nil, gateway.Client(redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})))
	status, _, _ := send(t, gw.URL, tap{"ann", "", "{}"})
	require.Equal(t, http.StatusTooManyRequests, status)
}

func TestOtherPayloadIsRefused(t *testing.T) {
	up := servertest.New(t)
	gw, _ := open(t, up.URL, nil)
	send(t, gw.URL, tap{"ann", "k1", `{"amount":10}`})
	status, h, _ := send(t, gw.URL, tap{"ann", "k1", `{"amount":20}`})
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "CONFLICT.idempotency.payload_mismatch", h.Get("Error-Code"))
	require.Equal(t, 1, up.Ledger().Total())
}

func TestUpstreamThatIsDownIsAProblemWithAHint(t *testing.T) {
	up := httptest.NewServer(nil)
	up.Close()
	gw, _ := open(t, up.URL, nil)
	status, h, body := send(t, gw.URL, tap{"ann", "k1", "{}"})
	require.Equal(t, http.StatusBadGateway, status)
	require.NotEmpty(t, h.Get("Retry-After"))
	var problem struct {
		Code      string
		Retryable bool
	}
	require.NoError(t, json.Unmarshal([]byte(body), &problem))
	require.True(t, problem.Retryable)
	require.NotEmpty(t, problem.Code)
}

func TestResponseThatBreaksOffIsNeverStored(t *testing.T) {
	for _, limit := range []int{gateway.DefaultMaxBuffered, math.MaxInt} {
		calls := 0
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls > 1 {
				_, _ = io.WriteString(w, strings.Repeat("x", 200<<10))
				return
			}
			w.Header().Set("Content-Length", "204800")
			_, _ = io.WriteString(w, strings.Repeat("x", 100<<10))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}))
		defer up.Close()
		gw, _ := open(t, up.URL, nil, gateway.MaxBuffered(limit))
		status, _, _ := send(t, gw.URL, tap{"ann", "k1", "{}"})
		if status != http.StatusOK { // the client may have repeated it already
			require.Equal(t, http.StatusBadGateway, status)
			status, _, _ = send(t, gw.URL, tap{"ann", "k1", "{}"})
		}
		require.Equal(t, http.StatusOK, status)
		_, _, body := send(t, gw.URL, tap{"ann", "k1", "{}"})
		require.Len(t, body, 200<<10)
		require.Equal(t, 2, calls)
	}
}

func TestRequestIDIsAKey(t *testing.T) {
	up := servertest.New(t)
	gw, _ := open(t, up.URL, nil, gateway.RequestID("X-Request-Id"))
	_, _, one := send(t, gw.URL, tap{"ann", "", "{}"}, "X-Request-Id", "r1")
	_, _, again := send(t, gw.URL, tap{"ann", "", "{}"}, "X-Request-Id", "r1")
	_, _, other := send(t, gw.URL, tap{"ann", "", "{}"}, "X-Request-Id", "r2")
	require.Equal(t, one, again)
	require.NotEqual(t, one, other)
	require.Equal(t, 2, up.Ledger().Total())
}

func TestRequestWithoutAKeyGetsOneOfItsOwn(t *testing.T) {
	up := servertest.New(t, servertest.ScriptNext(servertest.ResetAfterEffect(), servertest.OK()))
	gw, _ := open(t, up.URL, nil)
	status, _, _ := send(t, gw.URL, tap{"ann", "", "{}"})
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, 1, up.Ledger().Total(), "the gateway repeats it under one key")
	send(t, gw.URL, tap{"ann", "", "{}"})
	require.Equal(t, 2, up.Ledger().Total(), "the phone does not")
}

func TestUnauthenticatedKeyIsRefused(t *testing.T) {
	up := servertest.New(t)
	gw, _ := open(t, up.URL, nil, gateway.MaxBuffered(10))
	for _, body := range []string{"{}", "a longer body, which is streamed"} {
		status, _, _ := send(t, gw.URL, tap{"", "k1", body})
		require.Equal(t, http.StatusUnauthorized, status)
	}
	require.Empty(t, up.Requests())
}

func TestSecondGatewayContinuesWhatTheFirstLeft(t *testing.T) {
	up := servertest.New(t)
	st := memstore.New()
	dead := redo.WithTransport(roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("read: connection reset by peer") // the effect is unknown
	}))
	first, _ := open(t, up.URL, st, gateway.Client(dead))
	status, _, _ := send(t, first.URL, tap{"ann", "k1", "{}"})
	require.Equal(t, http.StatusBadGateway, status)
	require.Equal(t, 0, up.Ledger().Total())

	second, _ := open(t, up.URL, st)
	status, _, _ = send(t, second.URL, tap{"ann", "k1", "{}"})
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, 1, up.Ledger().Total())
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestStatusURLOfAPendingRequest(t *testing.T) {
	begun, leave := make(chan struct{}), make(chan struct{})
	up := servertest.New(t, servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-leave
		w.WriteHeader(http.StatusCreated)
	})))
	gw, _ := open(t, up.URL, nil, gateway.StatusPath("/operations"), gateway.Wait(0))
	done := make(chan int)
	go func() {
		status, _, _ := send(t, gw.URL, tap{"ann", "k 1", "{}"})
		done <- status
	}()
	<-begun
	status, h, body := send(t, gw.URL, tap{"ann", "k 1", "{}"})
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, "/operations?key=k+1", h.Get("Location"))
	require.NotEmpty(t, h.Get("Retry-After"))
	require.JSONEq(t, `{"state":"pending"}`, body)
	require.JSONEq(t, `{"state":"pending"}`, get(t, gw.URL+h.Get("Location"), "ann"))
	close(leave)
	require.Equal(t, http.StatusCreated, <-done)
	require.JSONEq(t, `{"state":"complete","status":201}`, get(t, gw.URL+h.Get("Location"), "ann"))
	require.Contains(t, get(t, gw.URL+h.Get("Location"), "ben"), "404")
}

func get(t *testing.T, url, user string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("X-User", user)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func TestUploadIsStreamedUnderItsKey(t *testing.T) {
	first := make(chan string, 1)
	var key string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Idempotency-Key")
		b := make([]byte, 5)
		_, _ = io.ReadFull(r.Body, b)
		first <- string(b)
		n, _ := io.Copy(io.Discard, r.Body)
		_ = json.NewEncoder(w).Encode(n + 5)
	}))
	defer up.Close()
	gw, _ := open(t, up.URL, nil, gateway.MaxBuffered(1000))
	body, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gw.URL+"/photos", body)
	require.NoError(t, err)
	req.Header = http.Header{"Idempotency-Key": {"k1"}, "X-User": {"ann"}}
	go func() {
		_, _ = io.WriteString(w, strings.Repeat("a", 100_000))
		require.Equal(t, "aaaaa", <-first) // the upstream has the first bytes before the phone sends the last
		_, _ = io.WriteString(w, "the end")
		_ = w.Close()
	}()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "100007\n", string(got))
	require.Len(t, key, 64)
}

func TestShortBodyOfUnknownLengthIsStored(t *testing.T) {
	up := servertest.New(t)
	gw, _ := open(t, up.URL, nil)
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gw.URL+"/v1/refunds",
			io.MultiReader(strings.NewReader("{"), strings.NewReader("}"))) // chunked
		require.NoError(t, err)
		req.Header = http.Header{"Idempotency-Key": {"k1"}, "X-User": {"ann"}}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusCreated, resp.StatusCode)
	}
	require.Len(t, up.Requests(), 1)
}

func TestHedgedGet(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	slow := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls++
		n := calls
		mu.Unlock()
		if n == 1 {
			select {
			case <-slow:
			case <-r.Context().Done():
				close(slow) // the loser is cancelled
			}
			return
		}
		_, _ = io.WriteString(w, "second")
	}))
	defer up.Close()
	gw, _ := open(t, up.URL, nil, gateway.Hedge(time.Millisecond))
	require.Equal(t, "second", get(t, gw.URL+"/v1/refunds/1", "ann"))
	<-slow
}

func TestWrongOptionsAreNamed(t *testing.T) {
	_, err := gateway.New(&url.URL{Scheme: "ftp", Host: "x"}, nil, gateway.Secret([]byte("short")), gateway.Hedge(-1),
		gateway.Wait(-1), gateway.MaxBuffered(-1), gateway.StatusPath("x"), gateway.RequestID("Authorization"))
	for _, part := range []string{
		"upstream ftp://x", "store must not be nil", "Principal", "Secret", "5 bytes", "Hedge", "Wait", "MaxBuffered",
		"StatusPath", "RequestID",
	} {
		require.ErrorContains(t, err, part)
	}
	host := &url.URL{Scheme: "http", Host: "x"}
	_, err = gateway.New(host, (*memstore.Store)(nil), gateway.Principal(user), gateway.Secret(make([]byte, 16)))
	require.EqualError(t, err, "gateway: the store must not be nil")
	_, err = gateway.New(host, memstore.New(), gateway.Principal(user), gateway.Secret(make([]byte, 15)),
		gateway.Hedge(0))
	require.EqualError(t, err, "gateway: option Hedge: 0s is not positive\n"+
		"gateway: option Secret: it has 15 bytes, at least 16 are required")
	_, err = gateway.New(host, memstore.New(), gateway.Principal(user), gateway.Secret(make([]byte, 16)),
		gateway.Hedge(1), gateway.Wait(0), gateway.MaxBuffered(0), gateway.StatusPath("/"))
	require.NoError(t, err, "each value is the smallest that is allowed")
	_, err = gateway.New(nil, memstore.New(), nil)
	require.ErrorContains(t, err, "an option is nil")
	for part, opt := range map[string]gateway.Option{
		"Retention": gateway.Middleware(server.Retention(-1)),
		`RequestID: "idempotency-key" is the header of the key`: gateway.RequestID("idempotency-key"),
		"MaxAttempts": gateway.Client(redo.WithRetry(redo.RetryPolicy{MaxAttempts: -1})),
	} {
		_, err = gateway.New(host, memstore.New(), gateway.Principal(user), gateway.Secret(secret), opt)
		require.ErrorContains(t, err, part)
	}
}

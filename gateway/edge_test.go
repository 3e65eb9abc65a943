package gateway_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// A phone may come back with another language or another release of the app. Key, path and body make the request.
func TestARepetitionWithOtherHeadersContinuesTheRequest(t *testing.T) {
	var mu sync.Mutex
	var seen []http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, r.Header); len(seen) <= 10 && r.Header.Get("Authorization") == "Bearer old" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(upstream.Close)
	front, _ := open(t, upstream.URL, nil)
	first := tap{"ann", "k1", `{"amount":1000}`}
	status, _, _ := send(t, front.URL, first, "Authorization", "Bearer old", "Accept-Language", "de")
	require.Equal(t, http.StatusInternalServerError, status)
	status, _, body := send(t, front.URL, first, "Authorization", "Bearer new", "Accept-Language", "fr",
		"Content-Type", "application/json; charset=utf-8", "If-Match", "x", "Accept", "text/html")
	require.Equal(t, http.StatusCreated, status, body)
	last := seen[len(seen)-1]
	require.Equal(t, "de", last.Get("Accept-Language"), "the stored request is sent")
	require.Empty(t, last.Get("If-Match"))
	require.Equal(t, "Bearer new", last.Get("Authorization"), "credentials are never stored")
	for _, h := range seen {
		require.Equal(t, seen[0].Get("Idempotency-Key"), h.Get("Idempotency-Key"))
	}
	status, _, _ = send(t, front.URL, tap{"ann", "k1", `{"amount":1001}`})
	require.Equal(t, http.StatusConflict, status, "another body is another request")
}

// A profile for a public API compares the headers of a request, unless its copy has AnyHeaders.
func TestARepetitionWithOtherHeadersNeedsAProfileThatIgnoresThem(t *testing.T) {
	for status, anyHeaders := range map[int]bool{http.StatusConflict: false, http.StatusCreated: true} {
		p, sent := profile.IETF, 0
		p.AnyHeaders = anyHeaders
		g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
			if sent++; sent == 1 {
				return nil, errors.New("connection reset by peer")
			}
			return respond(http.StatusCreated)(r)
		}, gateway.Client(redo.WithProfile(p)))
		require.Equal(t, http.StatusBadGateway, post(g, "{}", "Idempotency-Key", "k1", "Accept-Language", "de").Code)
		require.Equal(t, status, post(g, "{}", "Idempotency-Key", "k1", "Accept-Language", "fr").Code)
	}
}

func TestTheCallerMayWipeTheSecret(t *testing.T) {
	var keys []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(upstream.Close)
	own := slices.Clone(secret)
	front, _ := open(t, upstream.URL, memstore.New(), gateway.Secret(own))
	_, _, _ = send(t, front.URL, tap{"ann", "k1", "1"})
	clear(own)
	_, _, _ = send(t, front.URL, tap{"ann", "k1", "1"})
	require.Greater(t, len(keys), 1)
	require.Len(t, slices.Compact(keys), 1)
}

func TestAnUpstreamWithPartsThatWouldBeLostIsRefused(t *testing.T) {
	for address, says := range map[string]string{
		"http://user:pw@bank.test": "credentials", "http://bank.test/#a": `the fragment "a"`, "http://:80": "no host name",
		"http://bank.test:99999": `the port "99999"`, "http://bank.test:0": `the port "0"`,
		"http://bank.test": "", "https://bank.test:8443/v1?tenant=1": "", "http://[::1]:80/": "",
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		_, err = gateway.New(u, memstore.New(), gateway.Principal(user), gateway.Secret(secret))
		if says == "" {
			require.NoError(t, err, address)
			continue
		}
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "pw")
	}
	bank, _ := url.Parse("http://bank.test")
	for path, ok := range map[string]bool{
		"/status": true, "/v1/status/": true, "/": true, "status": false, "/s?x=1": false, "/a%20b": false,
		"//other.test/x": false, "/s#a": false,
	} {
		_, err := gateway.New(bank, memstore.New(), gateway.Principal(user), gateway.Secret(secret), gateway.StatusPath(path))
		require.Equal(t, ok, err == nil, "%s: %v", path, err)
	}
}

// A login has no principal yet, and needs no key.
func TestAnAnonymousRequestGetsNoKeyFromItsID(t *testing.T) {
	var keys []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(upstream.Close)
	front, _ := open(t, upstream.URL, nil, gateway.RequestID("X-Request-Id"))
	for _, name := range []string{"", "ann"} {
		status, _, body := send(t, front.URL, tap{name, "", "1"}, "X-Request-Id", "id-1")
		require.Equal(t, http.StatusOK, status, body)
	}
	require.Len(t, keys, 2)
	require.NotEqual(t, len(keys[0]), len(keys[1]), "the client's own key, and one of the principal: %v", keys)
	status, _, _ := send(t, front.URL, tap{"", "k1", "1"})
	require.Equal(t, http.StatusUnauthorized, status, "a key needs a principal")
}

// A handshake for another protocol is not sent twice, and its connection can be written to.
func TestAnUpgradeIsNotHedged(t *testing.T) {
	handshakes := make(chan struct{}, 9)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handshakes <- struct{}{}
		time.Sleep(20 * time.Millisecond)
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
		line, _ := buf.ReadString('\n')
		_, _ = fmt.Fprintf(conn, "got %s", line)
	}))
	t.Cleanup(upstream.Close)
	front, _ := open(t, upstream.URL, nil, gateway.Hedge(time.Millisecond))
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	_, err = conn.Write([]byte("hello\n"))
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(got, []byte("got hello")), "%s", got)
	require.Len(t, handshakes, 1)
	require.False(t, strings.Contains(string(got), "502"))
}

// The draft of the header has no code for a request that is still at work: a plain 409 says so. It is not the outcome.
func TestAPlainConflictAfterALostResponseIsNoOutcome(t *testing.T) {
	var mu sync.Mutex
	requests, done := 0, false
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch requests++; {
		case requests == 1:
			panic(http.ErrAbortHandler) // the work goes on
		case !done:
			w.WriteHeader(http.StatusConflict)
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "order")
		}
	}))
	t.Cleanup(upstream.Close)
	front, _ := open(t, upstream.URL, nil)
	first := tap{"ann", "k1", "1"}
	status, header, _ := send(t, front.URL, first)
	require.Equal(t, http.StatusConflict, status)
	require.Empty(t, header.Get("Idempotency-Status"))
	mu.Lock()
	done = true
	mu.Unlock()
	status, header, body := send(t, front.URL, first)
	require.Equal(t, []any{http.StatusCreated, "order"}, []any{status, body})
	require.Equal(t, "stored", header.Get("Idempotency-Status"))
}

// The twin of the test above: a conflict on the first request is the upstream's own refusal.
func TestAConflictOfTheFirstRequestIsItsOutcome(t *testing.T) {
	requests := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusConflict)
	}))
	t.Cleanup(upstream.Close)
	front, _ := open(t, upstream.URL, nil)
	for _, state := range []string{"stored", "replayed"} {
		status, header, _ := send(t, front.URL, tap{"ann", "k1", "1"})
		require.Equal(t, []any{http.StatusConflict, state}, []any{status, header.Get("Idempotency-Status")})
	}
	require.Equal(t, 1, requests)
}

// A double tap is a double tap with every unsafe method.
func TestAKeyIsKeptWithEveryUnsafeMethod(t *testing.T) {
	var mu sync.Mutex
	keys := map[string][]string{}
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys[r.Method] = append(keys[r.Method], r.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(upstream.Close)
	front, _ := open(t, upstream.URL, nil)
	do := func(method, name string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, front.URL+"/v1/orders/1", strings.NewReader("1"))
		require.NoError(t, err)
		req.Header.Set("X-User", name)
		req.Header.Set("Idempotency-Key", "k-"+method)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	for method, requests := range map[string]int{"POST": 1, "PATCH": 1, "PUT": 1, "DELETE": 1, "LINK": 2, "GET": 2} {
		for range 2 {
			require.Equal(t, http.StatusOK, do(method, "ann"), method)
		}
		require.Len(t, keys[method], requests, method)
		require.Len(t, slices.Compact(keys[method]), 1, method)
		require.Equal(t, method != "GET", keys[method][0] != "", method)
		require.NotContains(t, keys[method][0], "k-", "the phone's key stays here")
	}
	require.Equal(t, http.StatusUnauthorized, do("PUT", ""))
}

// The upstream may have another key header, and the middleware can be given one. A phone sets neither.
func TestNoPhoneChoosesTheUpstreamKey(t *testing.T) {
	var mu sync.Mutex
	var keys []string
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get("X-Up-Key"))
	}))
	t.Cleanup(upstream.Close)
	front, _ := open(t, upstream.URL, nil, gateway.Middleware(server.Header("X-Idem")),
		gateway.Client(redo.WithProfile(redo.Profile{Name: "up", Header: "X-Up-Key"})))
	for _, name := range []string{"ann", "bob"} {
		status, _, _ := send(t, front.URL, tap{name, "", "1"}, "X-Up-Key", "1")
		require.Equal(t, http.StatusOK, status)
		for range 2 {
			status, _, _ = send(t, front.URL, tap{name, "k1", "1"}, "X-Up-Key", "1")
			require.Equal(t, http.StatusOK, status)
		}
	}
	require.Len(t, keys, 4, "a key of Idempotency-Key runs once")
	require.NotContains(t, keys, "1")
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(keys))), 4)
}

// A server's own middleware may log the request after the handler has returned.
func TestTheRequestOfTheCallerKeepsItsHeader(t *testing.T) {
	g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
		require.NotEmpty(t, r.Header.Get("Idempotency-Key"))
		return respond(http.StatusCreated)(r)
	}, gateway.RequestID("X-Request-Id"))
	r := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader("{}"))
	r.Header = http.Header{"X-User": {"ann"}, "X-Request-Id": {"id-1"}}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, "stored", w.Header().Get("Idempotency-Status"), "the id is the key")
	require.Equal(t, http.Header{"X-User": {"ann"}, "X-Request-Id": {"id-1"}}, r.Header)
}

// Without its key a request that is sent again has a second effect.
func TestAProfileThatSendsNoUpstreamKeyIsRefused(t *testing.T) {
	bank, _ := url.Parse("http://bank.test")
	for says, p := range map[string]redo.Profile{
		`"a" has no idempotency keys`:                      {Name: "a", NoKeys: true},
		`"b" has the key in the body`:                      {Name: "b", KeyInBody: true},
		`"c" takes keys of at most 63 bytes, those of the`: {Name: "c", MaxKey: 63},
		"": {Name: "d", MaxKey: 64},
	} {
		_, err := gateway.New(bank, memstore.New(), gateway.Principal(user), gateway.Secret(secret),
			gateway.Client(redo.WithProfile(p)))
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, says)
	}
}

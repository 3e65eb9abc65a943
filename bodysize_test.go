package redo_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A rawServer is a socket that writes responses as they are given, right or wrong.
type rawServer struct {
	url      string
	requests atomic.Int32
}

// serveRaw starts a rawServer. The n-th request gets the n-th response, and the last response serves all later
// requests. Each connection is closed after its response.
func serveRaw(t *testing.T, responses ...string) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, done := &rawServer{url: "http://" + l.Addr().String()}, make(chan struct{})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				n := min(int(s.requests.Add(1)), len(responses))
				_, _ = io.WriteString(conn, responses[n-1])
			}
			_ = conn.Close()
		}
	}()
	return s
}

// fresh returns a transport for sockets that keeps no connections.
func fresh(t *testing.T) *http.Transport {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

const (
	hugeLength = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: " +
		"9223372036854775807\r\n\r\n{\"id\":\"rf_1\"}"
	trueLength = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"id\":\"rf_1\"}"
)

// quick is a policy for sockets, where waits are real.
var quick = redo.WithRetry(redo.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Nanosecond, Jitter: redo.NoDelay})

func TestLargestContentLengthIsRefusedByCall(t *testing.T) {
	srv := serveRaw(t, hugeLength)
	_, err := redo.Call[receipt](t.Context(), connect(t, fresh(t), quick), "POST", srv.url, receipt{Amount: 1})
	e := failure(t, err)
	require.Equal(t, taxonomy.Provider+".response_too_large", e.Code)
	require.Equal(t, redo.Applied, e.Effect)
	require.Equal(t, 201, e.StatusCode)
	require.EqualValues(t, 1, srv.requests.Load())
	t.Run("the true length is read", func(t *testing.T) {
		out, err := redo.Call[receipt](t.Context(), connect(t, fresh(t), quick), "POST", serveRaw(t, trueLength).url,
			receipt{Amount: 1})
		require.NoError(t, err)
		require.Equal(t, receipt{ID: "rf_1"}, out)
	})
}

func TestLargestContentLengthOfAStoredOperationIsABodyThatBreaksOff(t *testing.T) {
	st := openStore(t)
	client := connect(t, fresh(t), quick, redo.WithStore(st))
	srv := serveRaw(t, hugeLength, hugeLength, trueLength)
	req := func() *http.Request { return post(t, redo.WithOperation(t.Context(), "op"), srv.url, payment) }
	e := fail(t, client, req())
	require.Equal(t, taxonomy.Truncated, e.Code)
	require.Len(t, e.Attempts, 2)
	require.Equal(t, store.StatePending, record(t, st, "op").State)
	_, body := succeed(t, client, req())
	require.JSONEq(t, `{"id":"rf_1"}`, body)
}

// blob is a JSON string whose encoding has n bytes.
func blob(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

// serving returns a server whose n-th request runs the n-th handler. The last handler serves all later requests.
func serving(t *testing.T, handlers ...http.HandlerFunc) *servertest.Server {
	t.Helper()
	var n atomic.Int32
	return servertest.NewInMemory(t, servertest.Bare(),
		servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handlers[min(int(n.Add(1)), len(handlers))-1](w, r)
		})))
}

// writes returns a handler that writes the body as JSON.
func writes(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// stalls returns a handler that sends a head and the start of a body, and then nothing more.
func stalls(contentType, start string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, start)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// cuts returns a handler that promises the whole body and closes the connection within it.
func cuts(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body[:len(body)-1])
		panic(http.ErrAbortHandler)
	}
}

func TestLongResponseOfCallIsReadWithinTheAttempt(t *testing.T) {
	const long = 200 << 10 // beyond the store's limit
	for _, c := range []struct {
		name  string
		first http.HandlerFunc
		code  taxonomy.Code
		takes time.Duration
	}{
		{
			"a body that stalls ends with the attempt's timeout and is retried",
			stalls("application/json", blob(long)[:100<<10]), taxonomy.Timeout, time.Second + rest,
		},
		{"a body that is cut is retried", cuts(blob(long)), taxonomy.Truncated, rest},
		{"a body that comes whole is read", writes(blob(long)), "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ends []redo.AttemptEnd
				srv := serving(t, c.first, writes(blob(long)))
				client := connect(t, srv.Transport(), redo.WithObserver(&attemptLog{&ends}), redo.WithMaxStoredBody(1),
					redo.WithRetry(redo.RetryPolicy{
						AttemptTimeout: time.Second, BaseDelay: rest, Jitter: redo.ConstantDelay,
					}))
				start := time.Now()
				out, err := redo.Call[string](t.Context(), client, "POST", srv.URL, receipt{})
				require.NoError(t, err)
				require.Len(t, out, long-2)
				require.Equal(t, c.code, ends[0].Attempt.Code)
				require.Equal(t, c.takes, time.Since(start))
				sent := keys(srv)
				require.Len(t, sent, len(ends))
				require.Equal(t, sent[0], sent[len(sent)-1])
			})
		})
	}
}

func TestEventStreamCannotHoldCall(t *testing.T) {
	for _, contentType := range []string{"text/event-stream", "application/x-ndjson"} {
		t.Run(contentType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := openStore(t)
				srv := serving(t, stalls(contentType, "data: 1\n\n"))
				client := connect(t, srv.Transport(), redo.WithStore(st),
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 2, AttemptTimeout: time.Second, BaseDelay: rest,
						Jitter: redo.ConstantDelay}))
				start := time.Now()
				_, err := redo.Call[receipt](redo.WithOperation(t.Context(), "op"), client, "POST", srv.URL, receipt{})
				e := failure(t, err)
				require.Equal(t, 2*time.Second+rest, time.Since(start))
				require.Equal(t, taxonomy.Timeout, e.Code)
				require.Equal(t, redo.EffectUnknown, e.Effect)
				require.Equal(t, store.StatePending, record(t, st, "op").State)
			})
		})
	}
}

// zipped returns a handler that sends n bytes of JSON white space and a value, compressed.
func zipped(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		spaces := make([]byte, 1<<20)
		for i := range spaces {
			spaces[i] = ' '
		}
		for ; n > 0; n -= len(spaces) {
			_, _ = z.Write(spaces)
		}
		_, _ = io.WriteString(z, `{"id":"rf_1"}`)
		_ = z.Close()
	}
}

func TestSmallBodyThatUnpacksToALargeOneIsRefused(t *testing.T) {
	const limit, bomb = 1 << 20, 64 << 20
	srv := servertest.New(t, servertest.Bare(), servertest.Handler(zipped(bomb)))
	unpacking := fresh(t) // net/http unpacks gzip by default
	client := connect(t, unpacking, quick, redo.WithMaxResponse(limit))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := redo.Call[receipt](t.Context(), client, "POST", srv.URL, receipt{Amount: 1})
	runtime.ReadMemStats(&after)
	e := failure(t, err)
	require.Equal(t, taxonomy.Provider+".response_too_large", e.Code)
	require.Equal(t, redo.Applied, e.Effect)
	require.False(t, redo.SafeToRetry(e))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(bomb/4), "the body was not unpacked into memory")
	require.Len(t, srv.Requests(), 1)
	t.Run("a compressed body within the limit is read", func(t *testing.T) {
		small := servertest.New(t, servertest.Bare(), servertest.Handler(zipped(limit/2)))
		out, err := redo.Call[receipt](t.Context(), connect(t, unpacking, quick, redo.WithMaxResponse(2*limit)),
			"POST", small.URL, receipt{Amount: 1})
		require.NoError(t, err)
		require.Equal(t, receipt{ID: "rf_1"}, out)
	})
}

func TestMaxResponseLimitsCallToTheByte(t *testing.T) {
	for _, c := range []struct {
		name     string
		size     int
		announce bool // with a Content-Length
		code     taxonomy.Code
	}{
		{"at the limit", 1000, true, ""},
		{"at the limit, of unknown length", 1000, false, ""},
		{"over the limit", 1001, true, taxonomy.Provider + ".response_too_large"},
		{"over the limit, of unknown length", 1001, false, taxonomy.Provider + ".response_too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					resp := answer(r, 200, blob(c.size))
					if !c.announce {
						resp.ContentLength = -1
					}
					return resp, nil
				}), redo.WithMaxResponse(1000), redo.WithMaxStoredBody(10), redo.WithStore(openStore(t)))
				for range 2 {
					_, err := redo.Call[string](redo.WithOperation(t.Context(), "op"), client, "POST",
						"http://api.test/", receipt{})
					require.Equal(t, c.code, redo.CodeOf(err))
				}
			})
		})
	}
}

// A redirect to the page of a login is no effect, however long its body is.
func TestALongRedirectIsNoEffectOfACall(t *testing.T) {
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		return answer(r, http.StatusFound, blob(1001), "Location", "https://login.test/"), nil
	}), redo.WithMaxResponse(1000), redo.WithStore(openStore(t)))
	_, err := redo.Call[string](redo.WithOperation(t.Context(), "op"), client, "POST", "http://api.test/", receipt{})
	e := failure(t, err)
	require.Equal(t, taxonomy.RedirectNotFollowed, e.Code)
	require.Equal(t, redo.EffectUnknown, e.Effect)
	require.Len(t, pending(t, client), 1)
}

// A method that needs no key is retried too, so its body is buffered like that of a request with a key.
func TestTheBodyOfAnIdempotentMethodIsBufferedForItsRetry(t *testing.T) {
	for method, want := range map[string]int{"PUT": 2, "DELETE": 2, "QUERY": 2, "PATCH": 1} {
		for limit, want := range map[int]int{len(payment): want, len(payment) - 1: 1} {
			t.Run(fmt.Sprint(method, ", at most ", limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var bodies []string
					client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
						b, err := io.ReadAll(r.Body)
						bodies = append(bodies, string(b))
						return answer(r, http.StatusServiceUnavailable, ""), err
					}), redo.WithKeys(nil), redo.WithMaxBufferedBody(limit), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 2}))
					body := io.MultiReader(strings.NewReader(payment)) // no GetBody
					req, err := http.NewRequestWithContext(t.Context(), method, "http://api.test/", body)
					require.NoError(t, err)
					fail(t, client, req)
					require.Equal(t, slices.Repeat([]string{payment}, want), bodies)
				})
			})
		}
	}
}

// A body that ends early, such as a file that was cut off meanwhile, is no whole request. net/http refuses it too.
func TestABodyOfAnotherLengthThanDeclaredIsNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		declared int64
		refused  bool
	}{
		"exact": {4, false}, "shorter": {5, true}, "longer": {3, true}, "not declared": {-1, false},
		"none declared": {0, false},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", GetBody ", again), func(t *testing.T) {
				srv := servertest.NewInMemory(t)
				client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
				req := named(t, srv, "op", "")
				read := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("1000")), nil }
				req.Body, _ = read()
				if req.GetBody = nil; again {
					req.GetBody = read
				}
				req.ContentLength = c.declared
				if !c.refused {
					succeed(t, client, req)
					return
				}
				e := fail(t, client, req)
				require.ErrorIs(t, e, taxonomy.InvalidRequest)
				require.Equal(t, redo.NotApplied, e.Effect)
				require.ErrorContains(t, e, fmt.Sprintf("declares a body of %d bytes, it has 4", c.declared))
				require.Empty(t, srv.Requests())
			})
		}
	}
}

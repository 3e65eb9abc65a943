package server_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// A mux below a prefix sees the same pattern and the same path for two routes.
func TestAPathThatALayerOutsideChangedIsStillTheClients(t *testing.T) {
	st, root, runs := memstore.New(), http.NewServeMux(), map[string]int{}
	for _, shop := range []string{"de", "fr"} {
		mw, err := server.New(st, server.Required(), server.SharedKeys())
		require.NoError(t, err)
		mux := http.NewServeMux()
		mux.Handle("POST /refunds", mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs[shop]++
			answer(201, shop)(w, r)
		})))
		root.Handle("/"+shop+"/", http.StripPrefix("/"+shop, mux))
	}
	do := func(path string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", path, strings.NewReader("1"))
		r.Header.Set("Idempotency-Key", "k1")
		root.ServeHTTP(w, r)
		return w
	}
	requireStored(t, do("/de/refunds?a=1"), 201, "de")
	requireProblem(t, do("/fr/refunds?a=1"), 409, "CONFLICT.idempotency.payload_mismatch")
	requireReplayed(t, do("/de/refunds?a=1"), 201, "de")
	require.Equal(t, map[string]int{"de": 1}, runs)
}

// A service that passes the request on to another one under the same key gets that one's "in flight". It is no outcome.
func TestATransientRefusalOfAServiceBehindIsNotStored(t *testing.T) {
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	var effects atomic.Int32
	mw, err := server.New(memstore.New(), server.Required(), server.SharedKeys())
	require.NoError(t, err)
	behind := httptest.NewServer(mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effects.Add(1)
		<-release
		answer(201, "charged")(w, r)
	})))
	t.Cleanup(behind.Close)
	t.Cleanup(end) // before Close, which waits for the handler
	to, err := url.Parse(behind.URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	g := newRig(t, memstore.New(), proxy.ServeHTTP, server.HandlerTimeout(50*time.Millisecond))
	require.Equal(t, http.StatusBadGateway, g.do().Code, "it ran out of time")
	var w *httptest.ResponseRecorder
	require.Eventually(t, func() bool { // on a busy machine it runs out of time again
		w = g.do()
		return w.Code != http.StatusBadGateway
	}, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, http.StatusConflict, w.Code)
	require.Equal(t, "CONFLICT.idempotency.in_flight", w.Header().Get("Error-Code"))
	end()
	require.Eventually(t, func() bool { return g.do().Code == http.StatusCreated }, 10*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 1, effects.Load())
}

// The twin of the test above: a refusal whose code is final is stored, and so is one that the handler vouches for.
func TestAFinalRefusalOfAServiceBehindIsStored(t *testing.T) {
	for code, how := range map[string]func(*http.Request){
		"CONFLICT.state": func(*http.Request) {}, "": func(*http.Request) {}, "own code": func(*http.Request) {},
		"CONFLICT.idempotency.in_flight": func(r *http.Request) { server.Fail(r.Context()) },
	} {
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			how(r)
			w.Header().Set("Error-Code", code)
			answer(409, "no")(w, r)
		})
		requireStored(t, g.do(), 409, "no")
		requireReplayed(t, g.do(), 409, "no")
	}
}

// FailOpen runs the handler without the store, but not beside a run that this process knows.
func TestFailOpenRunsNoHandlerBesideItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		option server.Option
		pause  time.Duration // before the retry
	}{
		"a refusal":               {server.Wait(0), 2 * time.Second},
		"a waiting request":       {server.Wait(2 * time.Second), 0},
		"while Pepper is rotated": {secondStep, 2 * time.Second},
		"a key that expires":      {server.RefuseExpiredKeys(), 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			st := newFaults(func(_ string, _ int, do func() error) error {
				if down.Load() {
					return store.ErrUnavailable
				}
				return do()
			})
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(4 * time.Second)
				created(w, r)
			}, server.FailOpen(), test.option)
			key := withKey(v7(time.Now().Add(time.Second - server.DefaultRetention + 5*time.Minute)))
			first := g.start(key)
			time.AfterFunc(time.Second, func() { down.Store(true) })
			time.Sleep(test.pause)
			requireProblem(t, g.do(key), 409, "CONFLICT.idempotency.in_flight")
			require.Equal(t, 1, g.ran(), name)
			down.Store(false)
			requireStored(t, <-first, 201, `{"id":"rf_123"}`)
			down.Store(true)
			require.Equal(t, 201, g.do(withKey("k2")).Code, "another key runs untracked")
			require.Equal(t, 2, g.ran(), name)
		})
	}
}

// The renewal hangs when the handler returns. The lease then ends while Complete hangs.
func TestALeaseThatEndsDuringCompleteLetsNoOtherIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFaults(func(m string, _ int, do func() error) error {
			switch m {
			case "Extend":
				time.Sleep(4 * time.Second) // until its time limit
				return store.ErrUnavailable
			case "Complete":
				time.Sleep(5 * time.Second) // as above
				return store.ErrUnavailable
			}
			return do()
		})
		g := newRig(t, st, slow(7900*time.Millisecond), server.LeaseTTL(12*time.Second),
			server.StoreTimeout(5*time.Second))
		first := g.start()
		time.Sleep(12500 * time.Millisecond)
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
		require.Equal(t, 1, g.ran())
		requireProblem(t, <-first, 503, "DEPENDENCY.unavailable")
	})
}

// Two listeners of one process have a middleware each, over one store.
func TestMiddlewaresOverOneStoreKnowEachOthersOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFaults(func(m string, _ int, do func() error) error {
			if m == "Complete" || m == "Extend" {
				return store.ErrUnavailable
			}
			return do()
		})
		runs := 0
		listener := func() http.Handler {
			mw, err := server.New(st, server.SharedKeys(), server.Route("refunds"))
			require.NoError(t, err)
			return mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { runs++; created(w, r) }))
		}
		one, two := listener(), listener()
		do := func(h http.Handler) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request(t.Context()))
			return w.Code
		}
		require.Equal(t, 503, do(one))
		time.Sleep(time.Minute) // past the lease
		require.Equal(t, 409, do(two))
		require.Equal(t, 1, runs)
		st.heal()
		time.Sleep(time.Minute)
		require.Equal(t, 201, do(two))
		require.Equal(t, 1, runs)
	})
}

// incomparable is a store that is no map key.
type incomparable struct {
	store.Store
	_ []int
}

func TestAStoreNeedsNoIdentity(t *testing.T) {
	for _, st := range []store.Store{
		incomparable{Store: memstore.New()},
		struct{ store.Store }{incomparable{Store: memstore.New()}},
	} {
		g := newRig(t, st, nil, server.FailOpen())
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
	}
}

func zipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, s)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// An encoded body is one of bytes, whether a layer outside decodes it or not.
func TestAnEncodedBodyIsIdentifiedByItsBytes(t *testing.T) {
	const doc = `{"amount": 1000}`
	for _, decoded := range []bool{true, false} {
		for _, option := range []server.Option{server.CanonicalJSON(), server.Required()} {
			g := newRig(t, memstore.New(), nil, option)
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if decoded {
					z, err := gzip.NewReader(r.Body)
					require.NoError(t, err)
					r.Body = z
				}
				g.ServeHTTP(w, r)
			})
			do := func(text string) *httptest.ResponseRecorder {
				b := zipped(t, text)
				r := request(t.Context(), withBody(string(b)), withHeader("Content-Encoding", "gzip"),
					withHeader("Content-Type", "application/json"))
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			requireStored(t, do(doc), 201, `{"id":"rf_123"}`)
			requireReplayed(t, do(doc), 201, `{"id":"rf_123"}`)
			requireProblem(t, do(`{"amount": 1001}`), 409, "CONFLICT.idempotency.payload_mismatch")
		}
	}
}

// A layer outside that compresses has set Content-Encoding before the handler runs, also for refusals.
func TestARefusalKeepsTheEncodingOfALayerOutside(t *testing.T) {
	g := newRig(t, memstore.New(), nil, server.Required())
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		g.ServeHTTP(w, r)
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(t.Context(), without("Idempotency-Key")))
	require.Equal(t, 400, w.Code)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	own := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		<-r.Context().Done()
	}, server.HandlerTimeout(time.Millisecond))
	w = own.do()
	require.Equal(t, 504, w.Code)
	require.Empty(t, w.Header().Get("Content-Encoding"), "the handler's own goes with its body")
}

// net/http breaks off a response that is shorter than its Content-Length. It is neither stored nor made whole.
func TestAResponseThatEndsEarlyIsNotMadeWhole(t *testing.T) {
	g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", r.Header.Get("Declared"))
		answer(201, "abc")(w, r)
	})
	srv := httptest.NewServer(g)
	t.Cleanup(srv.Close)
	do := func(key, declared string) (*http.Response, string, error) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/refunds/1", strings.NewReader("1"))
		require.NoError(t, err)
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Declared", declared)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		return resp, string(b), err
	}
	_, _, err := do("k1", "5")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	resp, _, err := do("k1", "5")
	require.NoError(t, err)
	require.Equal(t, "CONFLICT.idempotency.result_not_stored", resp.Header.Get("Error-Code"))
	for _, status := range []string{"stored", "replayed"} {
		resp, body, err := do("k2", "3")
		require.NoError(t, err)
		require.Equal(t, []string{status, "abc"}, []string{resp.Header.Get("Idempotency-Status"), body})
	}
	require.Equal(t, 2, g.ran())
}

// The handler gets a copy of the request, whose form net/http does not know.
func TestTheFilesOfAFormAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // on Windows
	down := newFaults(failing("Reserve", store.ErrUnavailable))
	for _, st := range []store.Store{memstore.New(), down} {
		g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, r.ParseMultipartForm(1))
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, left, 1, "the handler has its file")
			if server.Key(r.Context()) == "k2" {
				panic(http.ErrAbortHandler)
			}
			created(w, r)
		}, server.FailOpen())
		body, contentType := form(t)
		for _, key := range []string{"k1", "k2"} {
			func() {
				defer func() { _ = recover() }()
				g.do(withKey(key), withBody(body), withHeader("Content-Type", contentType))
			}()
		}
		require.Equal(t, 2, g.ran())
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// A client on a slow line runs into the ReadTimeout of the http.Server. It may try again.
func TestABodyThatDoesNotArriveInTimeMayBeSentAgain(t *testing.T) {
	g := newRig(t, memstore.New(), nil)
	srv := httptest.NewUnstartedServer(g)
	srv.Config.ReadTimeout = 50 * time.Millisecond
	srv.Config.ReadHeaderTimeout = time.Minute // the default is ReadTimeout, which a busy machine may miss
	srv.Start()
	t.Cleanup(srv.Close)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn,
		"POST /refunds/1 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k1\r\nContent-Length: 9\r\n\r\n1")
	require.NoError(t, err)
	got, err := io.ReadAll(conn)
	require.True(t, err == nil || errors.Is(err, net.ErrClosed) || len(got) > 0, err)
	require.True(t, strings.HasPrefix(string(got), "HTTP/1.1 408 "), "%s", got)
	require.Contains(t, string(got), `"retryable":true`)
	require.NotContains(t, string(got), "127.0.0.1")
	require.Zero(t, g.ran())
}

// The names that a filter gets are canonical, and so is the meaning of Connection.
func TestTheSpellingOfAHeaderDoesNotMatter(t *testing.T) {
	g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{"x-internal": "1", "CONNECTION": "X-Hop", "X-Hop": "1", "x-kept": "1"} {
			w.Header()[name] = []string{value}
		}
		created(w, r)
	}, server.ReplayHeader(func(name string) bool { return name != "X-Internal" }))
	requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
	w := g.do()
	requireReplayed(t, w, 201, `{"id":"rf_123"}`)
	for name, kept := range map[string]bool{"x-internal": false, "X-Hop": false, "CONNECTION": false, "x-kept": true} {
		require.Equal(t, kept, w.Header()[name] != nil, name)
	}
}

func TestAFingerprintFunctionMustIdentifyTheRequest(t *testing.T) {
	for version, code := range map[byte]int{0: 400, 128: 201} {
		g := newRig(t, memstore.New(), nil, server.Fingerprint(func(*http.Request, []byte) (store.Fingerprint, error) {
			return store.Fingerprint{version}, nil
		}))
		require.Equal(t, code, g.do().Code)
		require.Equal(t, code == 201, g.ran() == 1)
	}
}

// A layer outside may have a smaller limit than the route. Its number is the right one.
func TestTheLimitOfALayerOutsideIsNamed(t *testing.T) {
	g := newRig(t, memstore.New(), nil, server.MaxBody(100))
	for limit, size := range map[int64]int{10: 50, 1000: 500} {
		w, r := httptest.NewRecorder(), request(t.Context(), withBody(strings.Repeat("x", size)))
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		g.ServeHTTP(w, r)
		p := requireProblem(t, w, 413, "VALIDATION.content_too_large")
		want := "The body is longer than the 10 bytes that a layer in front of this route allows: it has 50."
		if limit > 100 {
			want = "The body is longer than the 100 bytes that the option MaxBody allows: it has 500."
		}
		require.Equal(t, want, p.Detail)
	}
}

// The client's time runs while its request waits for the first one.
func TestTimeSpentWaitingIsTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		runs := 0
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			if runs++; runs == 1 {
				time.Sleep(700 * time.Millisecond)
				answer(503, "again")(w, r)
				return
			}
			deadline, _ := r.Context().Deadline()
			left = time.Until(deadline)
			created(w, r)
		}, server.Wait(time.Minute))
		first := g.start()
		w := g.do(withHeader("X-Request-Timeout", "1000"))
		require.Equal(t, 503, (<-first).Code)
		require.Equal(t, 201, w.Code, fmt.Sprint(w.Body))
		require.LessOrEqual(t, left, 300*time.Millisecond)
		require.Positive(t, left)
	})
}

// The handler has changed the headers of a layer outside, and then another response is sent.
func TestAResponseInPlaceOfTheHandlersHasTheHeadersOfTheLayersOutside(t *testing.T) {
	g := newRig(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Outer", "inner")
		w.Header().Set("X-Inner", "1")
	})
	w := do(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "outer")
		g.ServeHTTP(w, r)
	}))
	requireProblem(t, w, 500, "CONFIGURATION.middleware")
	require.Equal(t, []string{"outer"}, w.Header()["X-Outer"])
	require.Empty(t, w.Header()["X-Inner"])
}

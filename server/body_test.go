package server_test

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func withReader(body io.Reader, length int64) func(*http.Request) {
	return func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(body), length }
}

// withLength is withReader with the header that each client sends.
func withLength(body io.Reader, length int64) func(*http.Request) {
	return func(r *http.Request) {
		withReader(body, length)(r)
		r.Header.Set("Content-Length", strconv.FormatInt(length, 10))
	}
}

func TestBody(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Body.Close() != nil || int64(len(body)) != r.ContentLength {
			panic("the handler's body differs from the sent one")
		}
		_, _ = w.Write(body)
	}
	long := strings.Repeat("b", 5000)
	for rule, edit := range map[string]func(*http.Request){
		"of known length": withBody(long), "in chunks": withReader(iotest.OneByteReader(strings.NewReader(long)), -1),
		"whose last read brings the end too": withReader(iotest.DataErrReader(strings.NewReader(long)), 5000),
	} {
		t.Run("a body "+rule+" reaches the handler whole", func(t *testing.T) {
			requireStored(t, newRig(t, memstore.New(), echo).do(edit), 200, long)
		})
	}
	t.Run("chunks and a known length are the same request", func(t *testing.T) {
		g := newRig(t, memstore.New(), echo)
		requireStored(t, g.do(withBody(long)), 200, long)
		requireReplayed(t, g.do(withReader(strings.NewReader(long), -1)), 200, long)
	})
	t.Run("a body whose length net/http's NewRequest does not know is whole", func(t *testing.T) {
		// An adaptor for events, such as lambdaurl with a body in base64, makes its request like a client. Such a
		// request has the length 0.
		g := newRig(t, memstore.New(), echo)
		requireStored(t, g.do(withReader(strings.NewReader(long), 0)), 200, long)
		requireReplayed(t, g.do(withBody(long)), 200, long)
		requireProblem(t, g.do(withReader(strings.NewReader(long+"b"), 0)), 409,
			"CONFLICT.idempotency.payload_mismatch")
	})
	t.Run("a body that was decoded outside is whole if its header Content-Length is gone", func(t *testing.T) {
		for _, encoded := range []int64{1, 9999} {
			g := newRig(t, memstore.New(), echo)
			requireStored(t, g.do(withReader(strings.NewReader(long), encoded)), 200, long)
			requireReplayed(t, g.do(withBody(long)), 200, long)
		}
	})
	t.Run("a handler that does not read it is safe too", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil)
		requireStored(t, g.do(withBody(long)), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(withBody(long)), 201, `{"id":"rf_123"}`)
		requireProblem(t, g.do(withBody(long+"b")), 409, "CONFLICT.idempotency.payload_mismatch")
	})
	t.Run("no body at all is a body", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil)
		requireStored(t, g.do(func(r *http.Request) { r.Body, r.ContentLength = nil, 0 }), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(func(r *http.Request) {
			r.Body, r.ContentLength = http.NoBody, 0
		}), 201, `{"id":"rf_123"}`)
	})
	t.Run("at the limit it is read", func(t *testing.T) {
		for _, length := range []int64{5000, -1} {
			g := newRig(t, memstore.New(), echo, server.MaxBody(5000))
			requireStored(t, g.do(withReader(strings.NewReader(long), length)), 200, long)
		}
	})
	failed := errors.New("connection reset")
	for _, c := range []struct {
		rule   string
		edit   func(*http.Request)
		status int
		code   string
	}{
		{"over the limit, by its length", withBody(long + "b"), 413, "VALIDATION.content_too_large"},
		{"over the limit, in chunks", withReader(strings.NewReader(long+"b"), -1), 413, "VALIDATION.content_too_large"},
		{"over a limit outside", func(r *http.Request) {
			r.Body, r.ContentLength = http.MaxBytesReader(nil, io.NopCloser(strings.NewReader(long)), 10), -1
		}, 413, "VALIDATION.content_too_large"},
		{"that can't be read", withReader(iotest.ErrReader(failed), -1), 400, "VALIDATION.bad_request"},
		{"whose connection breaks", withReader(iotest.ErrReader(&net.OpError{
			Op: "read", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, Err: failed,
		}), -1), 400, "VALIDATION.bad_request"},
		{"shorter than its length", withLength(strings.NewReader("b"), 2), 400, "VALIDATION.bad_request"},
		{"longer than its length", withLength(strings.NewReader("bbb"), 2), 400, "VALIDATION.bad_request"},
		{"of which nothing is left", withReader(strings.NewReader(""), 2), 400, "VALIDATION.bad_request"},
		{"that was read outside as a form", func(r *http.Request) {
			withReader(strings.NewReader("a=1"), -1)(r)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if err := r.ParseForm(); err != nil {
				panic(err)
			}
		}, 500, "CONFIGURATION.middleware"},
	} {
		t.Run("a body "+c.rule+" is refused before anything is reserved", func(t *testing.T) {
			st := newFaults(nil)
			g := newRig(t, st, echo, server.MaxBody(5000))
			p := requireProblem(t, g.do(c.edit), c.status, c.code)
			require.NotContains(t, p.Detail, "10.0.0.1", "an address is no business of the client")
			require.Zero(t, g.ran())
			require.Empty(t, st.calls)
		})
	}
}

// The rest of the body may still be on its way, so the connection can't carry another request.
func TestARefusedBodyClosesItsConnection(t *testing.T) {
	for status, edit := range map[int]func(*http.Request){
		http.StatusRequestEntityTooLarge: withBody("1234"),
		http.StatusRequestTimeout:        withReader(iotest.ErrReader(os.ErrDeadlineExceeded), 3),
	} {
		w := newRig(t, memstore.New(), nil, server.MaxBody(3)).do(edit)
		require.Equal(t, status, w.Code)
		require.Equal(t, "close", w.Header().Get("Connection"))
		// In HTTP/3 the header is malformed, and in HTTP/2 other requests share the connection.
		w = newRig(t, memstore.New(), nil, server.MaxBody(3)).do(edit, func(r *http.Request) { r.ProtoMajor = 3 })
		require.Equal(t, status, w.Code)
		require.NotContains(t, w.Header(), "Connection")
	}
}

// A client that announces a large body, sends a little of it and stops, makes the middleware hold little memory.
func TestSlowBodiesTakeLittleMemory(t *testing.T) {
	const limit, many = 1 << 20, 20
	hold := func(arrived int) (bytes uint64) {
		g := newRig(t, memstore.New(), nil, server.MaxBody(limit))
		data := strings.NewReader(strings.Repeat("b", arrived))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range many {
			data.Reset(strings.Repeat("b", arrived))
			w := g.do(withKey(strconv.Itoa(i)),
				withReader(io.MultiReader(data, iotest.ErrReader(io.ErrUnexpectedEOF)), limit))
			require.Equal(t, 400, w.Code)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / many
	}
	require.Less(t, hold(100), uint64(100<<10), "bytes for one request")
	require.Greater(t, hold(limit/2), uint64(limit/2), "a body that does arrive is held")
}

func TestCanonicalJSON(t *testing.T) {
	jsonType := withHeader("Content-Type", "application/json; charset=utf-8")
	t.Run("a document that was marshalled again is the same request", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.CanonicalJSON())
		requireStored(t, g.do(jsonType, withBody(`{"a":1,"b":2}`)), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(jsonType, withBody(`{ "b":2, "a":1 }`)), 201, `{"id":"rf_123"}`)
		requireProblem(t, g.do(jsonType, withBody(`{"b":2,"a":2}`)), 409, "CONFLICT.idempotency.payload_mismatch")
	})
	t.Run("big numbers that floats can't distinguish are distinguished", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.CanonicalJSON())
		g.do(jsonType, withBody(`{"n":9007199254740993}`))
		requireProblem(t, g.do(jsonType, withBody(`{"n":9007199254740992}`)), 409,
			"CONFLICT.idempotency.payload_mismatch")
	})
	for rule, body := range map[string]string{"is not JSON": `{"a":`, "repeats a member": `{"a":1,"a":2}`} {
		t.Run("a body that is labelled as JSON and "+rule+" is 400", func(t *testing.T) {
			g := newRig(t, memstore.New(), nil, server.CanonicalJSON())
			for _, media := range []string{"application/json", "application/merge-patch+json"} {
				requireProblem(t, g.do(withHeader("Content-Type", media), withBody(body)), 400,
					"VALIDATION.bad_request")
			}
			require.Zero(t, g.ran())
		})
	}
	t.Run("other types are distinguished by their bytes", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.CanonicalJSON())
		text := withHeader("Content-Type", "text/plain")
		requireStored(t, g.do(text, withBody(`{"a":`)), 201, `{"id":"rf_123"}`)
		requireProblem(t, g.do(text, withBody(`{"a": `)), 409, "CONFLICT.idempotency.payload_mismatch")
	})
}

func TestFingerprintUpgrade(t *testing.T) {
	jsonType := withHeader("Content-Type", "application/json")
	for _, c := range []struct {
		rule          string
		before, after []server.Option
	}{
		{"from raw to canonical", nil, []server.Option{server.CanonicalJSON()}},
		{"from canonical to raw", []server.Option{server.CanonicalJSON()}, nil},
	} {
		t.Run(c.rule+": a retry of an old record is still the same request", func(t *testing.T) {
			st := newFaults(nil)
			requireStored(t, newRig(t, st, nil, c.before...).do(jsonType), 201, `{"id":"rf_123"}`)
			g := newRig(t, st, nil, c.after...)
			requireReplayed(t, g.do(jsonType), 201, `{"id":"rf_123"}`)
			require.Equal(t, 3, st.count("Reserve"), "the record shows its algorithm")
			requireProblem(t, g.do(jsonType, withBody(`{"amount":1}`)), 409, "CONFLICT.idempotency.payload_mismatch")
			require.Equal(t, 4, st.count("Reserve"), "no other algorithm can make it the same")
			require.Zero(t, g.ran())
		})
		t.Run(c.rule+
			": a retry of a request that an old transaction still runs is in flight, and another payload a mismatch",
			func(t *testing.T) {
				b := newBook(nil)
				g := newBookRig(t, b, nil, c.after...)
				old := newBookRig(t, b, writing("refund", func(w http.ResponseWriter, r *http.Request) {
					requireProblem(t, g.do(jsonType), 409, "CONFLICT.idempotency.in_flight")
					requireProblem(t, g.do(jsonType, withBody(`{"amount":1}`)), 409,
						"CONFLICT.idempotency.payload_mismatch")
					created(w, r)
				}), c.before...)
				requireStored(t, old.do(jsonType), 201, `{"id":"rf_123"}`)
				requireReplayed(t, g.do(jsonType), 201, `{"id":"rf_123"}`)
				require.Zero(t, g.ran())
			})
		t.Run(c.rule+": a retry that waits for an old transaction gets its outcome", func(t *testing.T) {
			for _, status := range []int{201, 503} {
				synctest.Test(t, func(t *testing.T) {
					b := newBook(nil)
					g := newBookRig(t, b, nil, append(c.after, server.Wait(time.Minute))...)
					var waiting <-chan *httptest.ResponseRecorder
					old := newBookRig(t, b, writing("refund", func(w http.ResponseWriter, _ *http.Request) {
						waiting = g.start(jsonType)
						w.WriteHeader(status)
					}), c.before...)
					require.Equal(t, status, old.do(jsonType).Code)
					if status == 201 {
						requireReplayed(t, <-waiting, 201, "")
					} else {
						requireStored(t, <-waiting, 201, `{"id":"rf_123"}`)
						rec, err := b.Find(t.Context(), refundID)
						require.NoError(t, err)
						own := map[bool]byte{true: store.CanonicalJSONV1, false: store.RawV1}[c.after != nil]
						require.Equal(t, own, rec.Fingerprint.Version(),
							"its own runs are stored by the route's own algorithm")
					}
				})
			}
		})
	}
	t.Run("an unknown version is a mismatch", func(t *testing.T) {
		st := memstore.New()
		old := server.Fingerprint(func(*http.Request, []byte) (store.Fingerprint, error) {
			return store.Fingerprint{200, 1}, nil
		})
		newRig(t, st, nil, old).do()
		requireProblem(t, newRig(t, st, nil).do(), 409, "CONFLICT.idempotency.payload_mismatch")
	})
}

func TestFingerprint(t *testing.T) {
	form := func(boundary, file string) func(*http.Request) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.SetBoundary(boundary)
		_ = w.WriteField("file", file)
		_ = w.Close()
		return func(r *http.Request) {
			withBody(b.String())(r)
			r.Header.Set("Content-Type", w.FormDataContentType())
		}
	}
	parts := server.Fingerprint(func(r *http.Request, body []byte) (store.Fingerprint, error) {
		_, boundary, _ := strings.Cut(r.Header.Get("Content-Type"), "boundary=")
		part, err := multipart.NewReader(bytes.NewReader(body), boundary).NextPart()
		if err != nil {
			return store.Fingerprint{}, err
		}
		content, err := io.ReadAll(part)
		f := store.Raw(r.Method, r.URL.Path, "", content)
		f[0] = 128
		return f, err
	})
	t.Run("by bytes a multipart retry with another boundary is another request", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil)
		g.do(form("one", "x"))
		requireProblem(t, g.do(form("two", "x")), 409, "CONFLICT.idempotency.payload_mismatch")
	})
	t.Run("by its parts it is the same", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, parts)
		requireStored(t, g.do(form("one", "x")), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(form("two", "x")), 201, `{"id":"rf_123"}`)
		requireProblem(t, g.do(form("two", "y")), 409, "CONFLICT.idempotency.payload_mismatch")
	})
	t.Run("an error is 400 and runs nothing", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, parts)
		requireProblem(t, g.do(), 400, "VALIDATION.bad_request")
		require.Zero(t, g.ran())
	})
}

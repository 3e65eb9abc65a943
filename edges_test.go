package redo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestOperationThatNothingGivesAKeyIsRefused(t *testing.T) {
	broken := errors.New("no entropy")
	for _, c := range []struct {
		name string
		keys redo.KeyFunc
		code taxonomy.Code
		is   error
	}{
		{"no key function", nil, taxonomy.KeyMissing, nil},
		{
			"a key function that fails", func(string) (string, error) { return "", broken }, taxonomy.KeyMalformed,
			broken,
		},
		{
			"a key function that returns no key", func(string) (string, error) { return "", nil },
			taxonomy.KeyMalformed, nil,
		},
		{
			"a key function that returns an invalid key",
			func(op string) (string, error) { return op + "\n", nil }, taxonomy.KeyMalformed, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, st := servertest.NewInMemory(t), openStore(t)
			e := fail(t, connect(t, srv.Transport(), redo.WithStore(st), redo.WithKeys(c.keys)),
				named(t, srv, "op", payment))
			require.Equal(t, c.code, e.Code)
			// A function that fails may be one that derives keys. Another machine may then have sent the operation's.
			require.Equal(t, c.keys == nil, e.Effect == redo.NotApplied)
			require.Empty(t, srv.Requests())
			requireAbsent(t, st, "op")
			if c.is != nil {
				require.ErrorIs(t, e, c.is)
			}
		})
	}
}

func TestKeyIsMadeOncePerOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Script("k", servertest.Status(503), servertest.Status(503)))
		var made []string
		client := connect(t, srv.Transport(), redo.WithKeys(func(operation string) (string, error) {
			made = append(made, operation)
			return "k", nil
		}))
		succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, []string{"op", "op"}, made, "once for the key, and once to see that the name alone gives it")
	})
}

func TestBodyThatCannotBeReadSendsNothing(t *testing.T) {
	broken := errors.New("disk error")
	for name, get := range map[string]func() (io.ReadCloser, error){
		"it does not open": func() (io.ReadCloser, error) { return nil, broken },
		"it breaks off": func() (io.ReadCloser, error) {
			return io.NopCloser(iotest.ErrReader(broken)), nil
		},
		"it breaks off after the cap": func() (io.ReadCloser, error) { return brokenAfter(100, broken), nil },
	} {
		t.Run(name, func(t *testing.T) {
			srv, st := servertest.NewInMemory(t), openStore(t)
			body := &watchedBody{Reader: strings.NewReader(payment)}
			req := named(t, srv, "op", "")
			req.Body, req.GetBody, req.ContentLength = body, get, -1
			e := fail(t, connect(t, srv.Transport(), redo.WithStore(st), redo.WithMaxStoredBody(64)), req)
			require.Equal(t, taxonomy.InvalidRequest, e.Code)
			require.ErrorIs(t, e, broken)
			require.Equal(t, redo.NotApplied, e.Effect)
			require.Empty(t, srv.Requests())
			requireAbsent(t, st, "op")
			require.Positive(t, body.closed.Load())
		})
	}
}

func brokenAfter(n int, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", n)), iotest.ErrReader(err)))
}

// The payload is the same however it comes: its length known, unknown or wrongly understated, within the cap or not.
func TestFingerprintDoesNotDependOnHowTheBodyComes(t *testing.T) {
	long := strings.Repeat("x", 100)
	want := store.Raw("POST", "http://memory.test/refunds", "", []byte(long))
	for _, c := range []struct {
		name   string
		length int64
		limit  int
		whole  bool
	}{
		{"length known, within the cap", 100, 100, true},
		{"length unknown, within the cap", -1, 100, true},
		{"length known, over the cap", 100, 99, false},
		{"length unknown, over the cap", -1, 99, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503), servertest.Status(503)))
				st := openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithMaxStoredBody(c.limit),
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 2, Jitter: redo.NoDelay}))
				req := named(t, srv, "op", long)
				req.ContentLength = c.length
				fail(t, client, req)
				require.Equal(t, want, record(t, st, "op").Fingerprint)
				require.Equal(t, c.whole, pending(t, client)[0].Resumable)
				for _, r := range srv.Requests() {
					require.Equal(t, long, string(r.Body))
				}
			})
		})
	}
}

func TestRequestTooLargeToBeStoredKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		down := true
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			if down {
				return answer(r, 503, ""), nil
			}
			return answer(r, 201, "{}"), nil
		}), redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
		req := func() *http.Request {
			r := post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment)
			r.Header.Set("Accept", strings.Repeat("a", store.MaxMeta))
			return r
		}
		e := fail(t, client, req())
		require.False(t, pending(t, client)[0].Resumable)
		down = false
		resp, _ := succeed(t, client, req())
		require.Equal(t, e.Key, redo.KeyOf(resp))
	})
}

func TestLeaseThatSomebodyHoldsIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		claim := claimOf(t, srv, named(t, srv, "op", payment))
		claim.Lease, claim.Meta = time.Minute, []byte(`{"v":1,"key":"k1"}`)
		_, err := st.Reserve(t.Context(), claim)
		require.NoError(t, err)
		client := connect(t, srv.Transport(), redo.WithStore(st))
		e := fail(t, client, named(t, srv, "op", payment))
		require.Equal(t, taxonomy.InFlight, e.Code)
		require.Equal(t, time.Now().Add(time.Minute), e.RetryAt)
		require.True(t, redo.SafeToRetry(e))
		require.Empty(t, srv.Requests())
		time.Sleep(time.Minute)
		resp, _ := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, "k1", redo.KeyOf(resp))
	})
}

func TestDamagedOutcomeSendsNothing(t *testing.T) {
	for _, result := range []string{
		"", "\x01", "\x01\x00\x00", "\x02\x00\x00\x00", "\x01\x04\x02\x00", "\x01\x00\x00\x7fx",
	} {
		t.Run(result, func(t *testing.T) {
			srv, st := servertest.NewInMemory(t), openStore(t)
			claim := claimOf(t, srv, named(t, srv, "op", payment))
			claim.Meta = []byte(`{"v":1,"key":"k1"}`)
			grant, err := st.Reserve(t.Context(), claim)
			require.NoError(t, err)
			require.NoError(t, st.Complete(t.Context(), grant.Lease, store.Outcome{Result: []byte(result)}))
			e := fail(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
			require.Equal(t, taxonomy.Unavailable, e.Code)
			require.Equal(t, redo.EffectUnknown, e.Effect)
			require.Empty(t, srv.Requests(), "never a reason to run it again")
		})
	}
}

// A store that can't forget keeps no failures: they make room immediately.
func TestStoreThatCannotForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(422)))
		st := openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(struct{ store.Store }{st}))
		e := fail(t, client, named(t, srv, "op", payment))
		requireAbsent(t, st, "op")
		resp, _ := succeed(t, client, named(t, srv, "op", `{"amount":1}`))
		require.NotEqual(t, e.Key, redo.KeyOf(resp))
		require.Error(t, client.Forget(t.Context(), "op"), "a settled operation can't be forgotten")

		pendingClaim := claimOf(t, srv, named(t, srv, "op", payment))
		pendingClaim.ID.Key = "pending"
		_, err := st.Reserve(t.Context(), pendingClaim)
		require.NoError(t, err)
		require.NoError(t, client.Forget(t.Context(), "pending"))
		requireAbsent(t, st, "pending")
	})
}

func TestAnswerWithMoreHeadersThanAreKeptIsStillASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		sent := 0
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			sent++
			resp := answer(r, 201, "{}")
			resp.Header.Set("X-Long", strings.Repeat("x", 1<<20))
			return resp, nil
		}), redo.WithStore(st))
		for range 2 {
			_, body := succeed(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
			require.Equal(t, "{}", body)
		}
		require.Equal(t, 2, sent, "its result is asked of the server")
		require.Equal(t, store.StateComplete, record(t, st, "op").State)
	})
}

func TestRPCOfKnownLengthThatBreaksOffIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = "\x80\x00\x00\x00\x0fgrpc-status: 0\r"
		respond := func(n int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/grpc-web")
				w.Header().Set("Content-Length", "20")
				_, _ = io.WriteString(w, body[:n])
				_ = http.NewResponseController(w).Flush()
				if n < len(body) {
					panic(http.ErrAbortHandler)
				}
			}
		}
		srv, st := serving(t, respond(6), respond(len(body))), openStore(t)
		resp, err := under(connect(t, srv.Transport(), redo.WithStore(st))).Do(named(t, srv, "op", payment))
		require.NoError(t, err)
		require.Equal(t, body, drain(t, resp))
		require.Len(t, srv.Requests(), 2)
		require.Equal(t, store.StateComplete, record(t, st, "op").State)
	})
}

func TestAttemptTimeoutCoversAResultThatIsReadForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t,
			servertest.ScriptNext(servertest.SlowBody(time.Second), servertest.SlowHeaders(time.Minute)))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)),
			redo.WithRetry(redo.RetryPolicy{
				AttemptTimeout: 2 * time.Second, BaseDelay: rest, Jitter: redo.ConstantDelay,
			}))
		start := time.Now()
		resp, body := succeed(t, client, named(t, srv, "op", payment))
		require.JSONEq(t, `{"id":"rf_1"}`, body)
		require.Equal(t, 4*time.Second+2*rest, time.Since(start))
		srv.Ledger().AssertEffects(t, redo.KeyOf(resp), 1)
	})
}

func TestTransportThatForgetsWhoseAnswerItIs(t *testing.T) {
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		resp := answer(r, 201, "{}")
		resp.Request = nil
		return resp, nil
	}))
	resp, _ := succeed(t, client, post(t, redo.WithKey(t.Context(), "k1"), "http://api.test/", payment))
	require.Equal(t, "k1", redo.KeyOf(resp))
}

func TestBodyThatIsAConnectionStaysWritable(t *testing.T) {
	local, remote := io.Pipe()
	defer func() { require.NoError(t, local.Close()) }()
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		resp := answer(r, http.StatusSwitchingProtocols, "")
		resp.Body = struct {
			io.ReadCloser
			io.Writer
		}{local, remote}
		return resp, nil
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test/", nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok)
	go func() { _, _ = io.WriteString(conn, "hello") }()
	b := make([]byte, 5)
	_, err = io.ReadFull(conn, b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	require.NoError(t, conn.Close())
}

func TestCallersDeadlineIsNotTheLimitersRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := connect(t, failing(map[string]int{}), redo.WithLimiter(blocked{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e := fail(t, client, post(t, ctx, "http://good.test/", payment))
		require.Equal(t, taxonomy.CallerDeadline, e.Code)
		require.NotErrorIs(t, e, redo.ErrLimited)
		e = fail(t, client, post(t, t.Context(), "http://good.test/", payment))
		require.Equal(t, taxonomy.RateLimited, e.Code)
		require.ErrorIs(t, e, redo.ErrLimited)
		require.Equal(t, redo.NotApplied, e.Effect)
	})
}

// blocked is a limiter that lets no attempt through.
type blocked struct{}

func (blocked) Wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestStoredOperationsBodyHasItsLengthAndCanBeResent(t *testing.T) {
	for name, length := range map[string]int64{"length known": int64(len(payment)), "length unknown": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					require.EqualValues(t, len(payment), r.ContentLength,
						"a body that was read for the store has a known length")
					for range 2 { // net/http resends on its own
						again, err := r.GetBody()
						require.NoError(t, err)
						b, err := io.ReadAll(again)
						require.NoError(t, err)
						require.Equal(t, payment, string(b))
					}
					return answer(r, 201, "{}"), nil
				}), redo.WithStore(openStore(t)))
				req := post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment)
				req.ContentLength = length
				succeed(t, client, req)
			})
		})
	}
}

func TestServerThatCannotReplayACompletedOperationDoesNotUndoIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := servertest.Status(503)
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.OK(), down, down, down, down, down))
		st := openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithServerReplay())
		resp, _ := succeed(t, client, named(t, srv, "op", payment))
		e := fail(t, client, named(t, srv, "op", payment))
		require.Equal(t, redo.KeyOf(resp), e.Key)
		require.Equal(t, redo.Applied, e.Effect)
		require.True(t, redo.SafeToRetry(e))
		require.Equal(t, store.StateComplete, record(t, st, "op").State)
	})
}

// Transports in tests often break the rules of one.
func TestTransportThatBreaksItsRules(t *testing.T) {
	for _, c := range []struct {
		name string
		resp func(*http.Request) *http.Response
		code taxonomy.Code
	}{
		{"no response and no error", func(*http.Request) *http.Response { return nil }, taxonomy.Connection},
		{"a success without a body", func(*http.Request) *http.Response { return &http.Response{StatusCode: 204} }, ""},
		{
			"a failure without a body", func(*http.Request) *http.Response { return &http.Response{StatusCode: 404} },
			taxonomy.NotFound,
		},
		{"a redirect without a body, to itself", func(*http.Request) *http.Response {
			return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"/"}}}
		}, taxonomy.TooManyRedirects},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) { return c.resp(r), nil }))
				resp, err := client.Do(post(t, t.Context(), "http://api.test/", payment))
				require.Equal(t, c.code, redo.CodeOf(err))
				if err == nil {
					require.Empty(t, drain(t, resp))
				}
			})
		})
	}
}

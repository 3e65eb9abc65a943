package redo_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

func TestWireSendsCountNetHTTPsOwnResend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.StaleKeepAlive()))
		var ends []redo.AttemptEnd
		client := connect(t, srv.Transport(), redo.WithObserver(&attemptLog{&ends}))
		succeed(t, client, keyed(t, srv, "k1"))
		succeed(t, client, keyed(t, srv, "k2"))
		require.Len(t, ends, 2, "one attempt each")
		require.Equal(t, 1, ends[0].Attempt.WireSends)
		require.Equal(t, 2, ends[1].Attempt.WireSends)
		require.Equal(t, 2, srv.Ledger().Requests("k2"))
		srv.Ledger().AssertEffects(t, "k2", 1)
	})
}

// If net/http sent an attempt twice, a response that refuses proves nothing about the other request.
func TestRefusalOfAResentRequestLeavesTheEffectUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t,
			servertest.Script("k1", servertest.OK()),
			servertest.Script("k2", servertest.ResetAfterEffect(), servertest.Status(401)))
		client := connect(t, srv.Transport())
		succeed(t, client, keyed(t, srv, "k1"))
		e := fail(t, client, keyed(t, srv, "k2"))
		require.Equal(t, taxonomy.Unauthenticated, e.Code)
		require.Len(t, e.Attempts, 1)
		require.Equal(t, 2, e.Attempts[0].WireSends)
		require.Equal(t, redo.EffectUnknown, e.Effect)
		srv.Ledger().AssertEffects(t, "k2", 1)
	})
}

// A poolSpy counts the calls that empty a connection pool.
type poolSpy struct {
	http.RoundTripper
	emptied atomic.Int32
}

func (s *poolSpy) CloseIdleConnections() { s.emptied.Add(1) }

func TestGivingUpDoesNotEmptyThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := servertest.Status(503)
		srv := servertest.NewInMemory(t,
			servertest.Script("gives up", down, down, down, down, down),
			servertest.Script("terminal", servertest.Status(400)),
			servertest.Script("cancelled", down),
			servertest.Script("late", servertest.RateLimited(servertest.RetryAfterSeconds(60))))
		spy := &poolSpy{RoundTripper: srv.Transport()}
		for _, rt := range []http.RoundTripper{spy, srv.Transport()} {
			client := connect(t, rt)
			for _, key := range []string{"gives up", "terminal", "late"} {
				if rt == spy {
					fail(t, client, keyed(t, srv, key))
				} else {
					succeed(t, client, keyed(t, srv, key))
				}
			}
			ctx, cancel := context.WithTimeout(redo.WithKey(t.Context(), "cancelled"), 2*rest)
			stop := time.AfterFunc(rest/2, cancel)
			if rt == spy {
				fail(t, client, post(t, ctx, srv.URL, payment))
			}
			stop.Stop()
			cancel()
		}
		require.Zero(t, spy.emptied.Load())
		for _, r := range srv.Requests() {
			require.Equal(t, 1, r.Conn, "one connection serves them all")
		}
	})
}

func TestErrorBodyBeyondFourKiBKeepsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := strings.Repeat("<p>down</p>", 2000) // 22 KB
		n := 0
		srv := servertest.NewInMemory(t, servertest.Bare(),
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n++; n < 3 {
					w.WriteHeader(http.StatusBadGateway)
				}
				_, _ = io.WriteString(w, page)
			})))
		_, body := succeed(t, connect(t, srv.Transport()), post(t, t.Context(), srv.URL, payment))
		require.Equal(t, page, body)
		for _, r := range srv.Requests() {
			require.Equal(t, 1, r.Conn)
		}
		require.Equal(t, 3, n)
	})
}

func TestStalledErrorBodyIsBoundedByTheAttemptsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		srv := servertest.NewInMemory(t, servertest.Bare(),
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n++; n > 1 {
					return
				}
				w.Header().Set("Content-Length", "100")
				w.WriteHeader(http.StatusServiceUnavailable)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})))
		var ends []redo.AttemptEnd
		client := connect(t, srv.Transport(), redo.WithObserver(&attemptLog{&ends}),
			redo.WithRetry(redo.RetryPolicy{AttemptTimeout: time.Second, BaseDelay: rest, Jitter: redo.ConstantDelay}))
		start := time.Now()
		succeed(t, client, post(t, t.Context(), srv.URL, payment))
		require.Equal(t, time.Second+rest, time.Since(start))
		require.Equal(t, 503, ends[0].Attempt.Status)
		require.ErrorIs(t, ends[0].Attempt.Err, redo.ErrAttemptTimeout)
	})
}

func TestWinnersBodyOutlivesDoAndTheAttemptsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		part := strings.Repeat("x", 64<<10)
		srv := servertest.NewInMemory(t, servertest.Bare(), servertest.ScriptNext(servertest.Status(503)),
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for range 4 {
					_, _ = io.WriteString(w, part)
					_ = http.NewResponseController(w).Flush()
					time.Sleep(10 * time.Second)
				}
			})))
		client := connect(t, srv.Transport(),
			redo.WithRetry(redo.RetryPolicy{AttemptTimeout: time.Second, BaseDelay: rest, Jitter: redo.ConstantDelay}))
		resp, err := client.Do(post(t, t.Context(), srv.URL, payment))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Len(t, drain(t, resp), 4*len(part))
	})
}

func TestCallersCancelReachesABodyThatIsBeingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Bare(),
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})))
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := connect(t, srv.Transport()).Do(post(t, ctx, srv.URL, payment))
		require.NoError(t, err)
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, resp.Body.Close())
	})
}

func TestEveryResponseIsClosed(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses []int
		opts     func(*testing.T) []redo.Option
	}{
		{"discarded responses and the winner", []int{503, 500, 429, 201}, nil},
		{"all of a failure", []int{503, 503, 503, 503, 503}, nil},
		{"a terminal response", []int{404}, nil},
		{"a redirect that is followed", []int{307, 307, 201}, nil},
		{"a redirect that is surfaced", []int{302}, nil},
		{
			"a stored operation's", []int{503, 201},
			func(t *testing.T) []redo.Option { return []redo.Option{redo.WithStore(openStore(t))} },
		},
		{
			"a stored operation's failure", []int{422},
			func(t *testing.T) []redo.Option { return []redo.Option{redo.WithStore(openStore(t))} },
		},
		{"a result over the cap", []int{201}, func(t *testing.T) []redo.Option {
			return []redo.Option{redo.WithStore(openStore(t)), redo.WithMaxStoredBody(1)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies []*watchedBody
				var opts []redo.Option
				if c.opts != nil {
					opts = c.opts(t)
				}
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					resp := answer(r, c.statuses[len(bodies)], "", "Location", "/next")
					b := &watchedBody{Reader: strings.NewReader("{}")}
					bodies = append(bodies, b)
					resp.Body, resp.ContentLength = b, 2
					return resp, nil
				}), opts...)
				resp, err := client.Do(post(t, redo.WithKey(redo.WithOperation(t.Context(), "op"), "k"),
					"http://api.test/", payment))
				if err == nil {
					require.Equal(t, "{}", drain(t, resp))
				}
				require.Len(t, bodies, len(c.statuses))
				for i, b := range bodies {
					require.Positive(t, b.closed.Load(), "answer %d", i+1)
				}
			})
		})
	}
}

func TestEveryBodyThatGetBodyGaveIsClosed(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []servertest.Fault
		mode   func(*redo.Client) func(*http.Request) (*http.Response, error)
		read   int // how many bodies are needed
	}{
		{"retries", []servertest.Fault{servertest.Status(503), servertest.Status(503)}, nil, 3},
		{"a redirect on the same origin", []servertest.Fault{servertest.Redirect(307, "/next")}, nil, 2},
		{"a redirect to another origin under Transport",
			[]servertest.Fault{servertest.Redirect(308, "http://other.test/")},
			func(c *redo.Client) func(*http.Request) (*http.Response, error) {
				return c.Transport().RoundTrip
			}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.faults...))
				var bodies []*watchedBody
				open := func() (io.ReadCloser, error) {
					b := &watchedBody{Reader: strings.NewReader(payment)}
					bodies = append(bodies, b)
					return b, nil
				}
				req := post(t, t.Context(), srv.URL, "")
				req.GetBody, req.ContentLength = open, int64(len(payment))
				req.Body, _ = open()
				client := connect(t, srv.Transport())
				do := client.Do
				if c.mode != nil {
					do = c.mode(client)
				}
				resp, err := do(req)
				require.NoError(t, err)
				drain(t, resp)
				synctest.Wait() // net/http closes a body when it has written it
				for i, b := range bodies {
					require.Positive(t, b.closed.Load(), "body %d of %d", i+1, len(bodies))
				}
				require.Len(t, bodies, c.read, "none is made in vain")
			})
		})
	}
}

func TestCallersRequestIsNotChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptEach(servertest.Status(503)))
		client := connect(t, srv.Transport(), redo.WithCredentials(func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer t0ken")
			r.Header.Add("X-Multi", "added")
			return nil
		}))
		multi := make([]string, 1, 8) // room that an append would write into
		multi[0] = "one"
		req := post(t, t.Context(), "http://user:pw@memory.test/refunds?x=1", payment)
		req.Header = http.Header{"X-Multi": multi}
		header, body, getBody, url := maps.Clone(req.Header), req.Body, req.GetBody, *req.URL
		first, _ := succeed(t, client, req)
		require.Equal(t, header, req.Header)
		require.Equal(t, []string{"one", ""}, multi[:2])
		require.Equal(t, url, *req.URL)
		require.Equal(t, body, req.Body)
		require.NotNil(t, getBody)
		require.EqualValues(t, len(payment), req.ContentLength)

		req.Body, _ = req.GetBody()
		second, _ := succeed(t, client, req) // the same value again: another operation, another key
		require.NotEqual(t, redo.KeyOf(first), redo.KeyOf(second))
	})
}

func TestContextValuesReachEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []any
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			seen = append(seen, r.Context().Value(spanKey{}))
			if len(seen) < 3 {
				return answer(r, 503, ""), nil
			}
			return answer(r, 200, ""), nil
		}))
		succeed(t, client, post(t, context.WithValue(t.Context(), spanKey{}, "trace"), "http://api.test/", payment))
		require.Equal(t, []any{"trace", "trace", "trace"}, seen)
	})
}

func TestAnswerThatIsCutOffIsRetriedUnderTheSameKey(t *testing.T) {
	type refund struct{ ID string }
	for _, n := range []int{0, 5} {
		for _, face := range []string{"a stored operation", "Call"} {
			t.Run(face, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.TruncatedBody(n)))
					if face == "Call" {
						out, err := redo.Call[refund](t.Context(), connect(t, srv.Transport()), "POST", srv.URL,
							refund{"x"})
						require.NoError(t, err)
						require.Equal(t, refund{"rf_1"}, out)
					} else {
						_, body := succeed(t, connect(t, srv.Transport(), redo.WithStore(openStore(t))),
							named(t, srv, "op", payment))
						require.JSONEq(t, `{"id":"rf_1"}`, body)
					}
					sent := keys(srv)
					require.Len(t, sent, 2)
					require.Equal(t, sent[0], sent[1])
					srv.Ledger().AssertEffects(t, sent[0], 1)
				})
			})
		}
	}
	t.Run("but the caller who reads the body sees that it broke off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.TruncatedBody(5)))
			resp, err := connect(t, srv.Transport()).Do(post(t, t.Context(), srv.URL, payment))
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.NoError(t, resp.Body.Close())
		})
	})
}

func TestStoredOutcomeIsWhatTheCallerReadAndNotWhatWasOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("compressible ", 100)
		srv := servertest.NewInMemory(t, servertest.Bare(),
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, text)
				_ = z.Close()
			})))
		decoding := srv.Transport().Clone()
		decoding.DisableCompression = false
		defer decoding.CloseIdleConnections()
		client := connect(t, decoding, redo.WithStore(openStore(t)))
		for range 2 {
			resp, body := succeed(t, client, named(t, srv, "op", payment))
			require.Equal(t, text, body)
			require.Empty(t, resp.Header.Get("Content-Encoding"))
		}
		require.Len(t, srv.Requests(), 1)
	})
}

func TestEveryAttemptsCauseIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := []error{syscall.ECONNRESET, syscall.EPIPE, errors.New("proxy said no")}
		sent := 0
		client := connect(t, tripper(func(*http.Request) (*http.Response, error) {
			sent++
			return nil, causes[sent-1]
		}), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 3, BaseDelay: rest}))
		e := fail(t, client, post(t, t.Context(), "http://api.test/", payment))
		for _, cause := range causes {
			require.ErrorIs(t, e, cause)
		}
		require.True(t, slices.EqualFunc(e.Attempts, causes, func(a redo.Attempt, err error) bool {
			return errors.Is(a.Err, err)
		}))
	})
}

package redo_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// under returns an ordinary http.Client over the client's transport.
func under(c *redo.Client) *http.Client { return &http.Client{Transport: c.Transport()} }

func TestTransportReturnsEveryAnswerWithoutAnError(t *testing.T) {
	for _, status := range []int{200, 204, 304, 400, 404, 409, 422, 429, 500, 501, 503} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := servertest.Status(status)
				srv := servertest.NewInMemory(t, servertest.Script("k1", f, f, f, f, f), servertest.Lenient())
				resp, err := under(connect(t, srv.Transport())).Do(keyed(t, srv, "k1"))
				require.NoError(t, err)
				require.Equal(t, status, resp.StatusCode)
				if status == 204 || status == 304 {
					require.Empty(t, drain(t, resp))
				} else {
					require.Equal(t, http.StatusText(status), drain(t, resp))
				}
				require.Equal(t, "k1", redo.KeyOf(resp))
			})
		})
	}
}

func TestTransportRetriesUnderOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect(), servertest.Status(502)))
		start := time.Now()
		resp, err := under(connect(t, srv.Transport(), redo.WithProfile(redo.RedoProfile()))).Post(srv.URL+"/refunds",
			"application/json", strings.NewReader(payment))
		require.NoError(t, err)
		require.JSONEq(t, `{"id":"rf_1"}`, drain(t, resp))
		require.Equal(t, []time.Duration{0, rest, 2 * rest}, offsets(srv, start))
		key := redo.KeyOf(resp)
		require.Equal(t, []string{key, key, key}, keys(srv))
		srv.Ledger().AssertEffects(t, key, 1)
	})
}

// An SDK's token request has no name to derive a key from. It is sent as net/http alone would send it.
func TestDerivedKeysLeaveUnnamedRequestsUnderTransportWithoutAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := servertest.ScriptNext(servertest.OK(), servertest.Status(503))
		srv := servertest.NewInMemory(t, servertest.Bare(), script)
		client := connect(t, srv.Transport(), redo.WithKeys(redo.DerivedKeys("live")))
		for _, want := range []int{201, 503} {
			resp, err := under(client).Do(post(t, t.Context(), srv.URL, payment))
			require.NoError(t, err)
			require.Equal(t, want, resp.StatusCode)
			drain(t, resp)
		}
		require.Equal(t, []string{"", ""}, keys(srv), "each is sent once")

		e := fail(t, client, post(t, t.Context(), srv.URL, payment))
		require.Equal(t, taxonomy.KeyMalformed, e.Code, "Do promises repetition, and refuses")
		require.Len(t, srv.Requests(), 2)
	})
}

// The twin: another failure to make a key refuses the request.
func TestFailedKeyRefusesUnnamedRequestsUnderTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		fails := redo.WithKeys(func(string) (string, error) { return "", io.ErrNoProgress })
		client := connect(t, srv.Transport(), fails)
		_, err := under(client).Do(post(t, t.Context(), srv.URL, payment))
		require.Equal(t, taxonomy.KeyMalformed, failure(t, err).Code)
		require.ErrorIs(t, err, io.ErrNoProgress)
		require.Empty(t, srv.Requests())
	})
}

func TestTransportsFailureIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		srv.Close()
		resp, err := under(connect(t, srv.Transport())).Post(srv.URL, "application/json", strings.NewReader(payment))
		require.Nil(t, resp)
		e := failure(t, err)
		require.Equal(t, taxonomy.Unavailable, e.Code)
		require.Equal(t, redo.NotApplied, e.Effect)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

func TestTransportRunsStoredOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(422), servertest.OK()))
		st := openStore(t)
		sdk := under(connect(t, srv.Transport(), redo.WithStore(st), redo.WithKeys(redo.DerivedKeys("live"))))
		for _, want := range []int{422, 201, 201} {
			resp, err := sdk.Do(named(t, srv, "op", payment))
			require.NoError(t, err)
			require.Equal(t, want, resp.StatusCode)
			drain(t, resp)
		}
		require.Len(t, srv.Requests(), 2, "the third was returned from the store")
		require.Equal(t, 1, srv.Ledger().Total())
	})
}

func TestTransportHandsAFinalFailureOutOfTheStoreAsTheAnswerItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(500).With(stored)))
		sdk := under(connect(t, srv.Transport(), redo.WithStore(openStore(t))))
		for range 2 {
			resp, err := sdk.Do(named(t, srv, "op", payment))
			require.NoError(t, err)
			require.Equal(t, 500, resp.StatusCode)
			require.Equal(t, "Internal Server Error", drain(t, resp))
		}
		require.Len(t, srv.Requests(), 1)
	})
}

func TestTransportReturnsALongErrorBodyWhole(t *testing.T) {
	for _, named := range []bool{false, true} {
		name := map[bool]string{false: "of a plain request", true: "of a stored operation"}[named]
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				page := strings.Repeat("<p>bad</p>", 20_000) // 200 KB
				srv := servertest.NewInMemory(t, servertest.Bare(),
					servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						w.WriteHeader(http.StatusBadRequest)
						_, _ = io.WriteString(w, page)
					})))
				ctx := t.Context()
				if named {
					ctx = redo.WithOperation(ctx, "op")
				}
				resp, err := under(connect(t, srv.Transport(), redo.WithStore(openStore(t)))).Do(post(t, ctx, srv.URL,
					payment))
				require.NoError(t, err)
				require.Equal(t, len(page), len(drain(t, resp)))
			})
		})
	}
}

func TestTransportReturnsAStreamThatMeansAFailureWhole(t *testing.T) {
	classify := redo.WithClassifier(func(resp *http.Response, _ []byte, v taxonomy.Verdict) taxonomy.Verdict {
		if resp.Header.Get("X-Failed") != "" {
			return taxonomy.Verdict{Code: taxonomy.Provider + ".failed", Effect: redo.NotApplied}
		}
		return v
	})
	for name, failed := range map[string]string{"a failure": "1", "the twin: a success": ""} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				resp := answer(r, 200, "data: no funds\n\n", "Content-Type", "text/event-stream", "X-Failed", failed)
				resp.ContentLength = -1
				return resp, nil
			}), classify, redo.WithStore(openStore(t)))
			ctx, report := redo.WithReport(redo.WithOperation(t.Context(), "op"))
			resp, err := client.Transport().RoundTrip(post(t, ctx, "http://api.test/", payment))
			require.NoError(t, err)
			require.Equal(t, failed != "", report.Err() != nil)
			require.Equal(t, "data: no funds\n\n", drain(t, resp))
		})
	}
}

func TestStalledErrorBodyUnderTransportDoesNotHoldTheOutcomeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Bare(),
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "100000")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})))
		st := openStore(t)
		ctx, cancel := context.WithTimeout(redo.WithOperation(t.Context(), "op"), time.Minute)
		defer cancel()
		start := time.Now()
		resp, err := under(connect(t, srv.Transport(), redo.WithStore(st))).Do(post(t, ctx, srv.URL, payment))
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		require.Equal(t, store.StateFailed, record(t, st, "op").State)
		require.NoError(t, resp.Body.Close())
	})
}

func TestKeyOfTheCallersOwnHeaderDoesNotFollowARedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.Redirect(303, "http://other.test/")))
		req := post(t, t.Context(), srv.URL, payment)
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := under(connect(t, srv.Transport())).Do(req)
		require.NoError(t, err)
		drain(t, resp)
		require.Equal(t, []string{"k1", ""}, keys(srv))
	})
}

func TestRedirectsUnderTransportAreNetHTTPs(t *testing.T) {
	for _, c := range []struct {
		name     string
		status   int
		location string
		want     [3]string // method, key, body of the second request
		hops     int       // that the client above followed
	}{
		{"302 turns a POST into a GET without the key", 302, "/there", [3]string{"GET", "", ""}, 1},
		{"303 turns a POST into a GET without the key", 303, "/there", [3]string{"GET", "", ""}, 1},
		{"302 to another origin", 302, "http://other.test/there", [3]string{"GET", "", ""}, 1},
		{
			"307 on the same origin is followed below, with the key", 307, "/there",
			[3]string{"POST", "minted", payment}, 0,
		},
		{
			"307 on the same origin is repeated by the client above: it had no key", 307, "/there",
			[3]string{"POST", "", payment}, 1,
		},
		{
			"308 to another origin is repeated by the client above: it had no key", 308, "http://other.test/there",
			[3]string{"POST", "", payment}, 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Redirect(c.status, c.location)))
				var options []redo.Option
				if c.want[1] != "" {
					options = append(options, redo.WithKeys(redo.TimeOrderedKeys))
				}
				sdk := under(connect(t, srv.Transport(), options...))
				hops := 0
				sdk.CheckRedirect = func(*http.Request, []*http.Request) error { hops++; return nil }
				resp, err := sdk.Post(srv.URL, "application/json", strings.NewReader(payment))
				require.NoError(t, err)
				drain(t, resp)
				require.Equal(t, c.hops, hops)
				require.Len(t, srv.Requests(), 2)
				next := srv.Requests()[1]
				want := c.want
				if want[1] != "" {
					want[1] = srv.Requests()[0].Key
					require.NotEmpty(t, want[1])
				}
				require.Equal(t, want, [3]string{next.Method, next.Key, string(next.Body)})
			})
		})
	}
	t.Run("ErrUseLastResponse stops the client above", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Redirect(302, "/there")))
			sdk := under(connect(t, srv.Transport()))
			sdk.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			resp, err := sdk.Post(srv.URL, "application/json", strings.NewReader(payment))
			require.NoError(t, err)
			require.Equal(t, 302, resp.StatusCode)
			drain(t, resp)
		})
	})
}

func TestTransportSendsTheCookiesOfTheClientAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)))
		req := post(t, t.Context(), srv.URL, payment)
		req.AddCookie(&http.Cookie{Name: "session", Value: "1"})
		resp, err := under(connect(t, srv.Transport())).Do(req)
		require.NoError(t, err)
		drain(t, resp)
		for _, r := range srv.Requests() {
			require.Equal(t, []string{"session=1"}, r.Header["Cookie"])
		}
	})
}

func TestTimeoutOfTheClientAboveIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Delay(time.Minute)))
		log := &eventLog{}
		sdk := under(connect(t, srv.Transport(), redo.WithObserver(log)))
		sdk.Timeout = time.Second
		start := time.Now()
		resp, err := sdk.Post(srv.URL, "application/json", strings.NewReader(payment))
		require.Nil(t, resp)
		require.Equal(t, time.Second, time.Since(start))
		require.Error(t, err)
		// http.Client itself keeps only the error's text
		end, ok := log.events[len(log.events)-1].what.(redo.OperationEnd)
		require.True(t, ok)
		require.Equal(t, taxonomy.CallerDeadline, end.Err.Code)
		require.Equal(t, redo.EffectUnknown, end.Effect)
	})
}

func TestTransportClosesItsOwnIdleConnectionsAndNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := &poolSpy{RoundTripper: tripper(func(r *http.Request) (*http.Response, error) {
			return answer(r, 200, ""), nil
		})}
		client := connect(t, spy)
		under(client).CloseIdleConnections()
		require.NoError(t, client.Close())
		require.Zero(t, spy.emptied.Load())
	})
}

// The client is not configured for servers that honour keys, so the header means nothing to it.
func TestASDKsOwnHeaderGoesThroughAsItIs(t *testing.T) {
	for _, c := range []struct {
		opts []redo.Option
		sent bool
	}{{nil, true}, {[]redo.Option{redo.WithProfile(redo.RedoProfile())}, false}} {
		var got []string
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			got = r.Header["Idempotency-Key"]
			return answer(r, 201, ""), nil
		}), c.opts...)
		req := post(t, t.Context(), "http://api.test/", payment)
		req.Header["Idempotency-Key"] = []string{"k1", "k2"}
		resp, err := client.Transport().RoundTrip(req)
		if !c.sent {
			require.Equal(t, taxonomy.KeyMalformed, failure(t, err).Code)
			require.Empty(t, got)
			continue
		}
		require.NoError(t, err)
		drain(t, resp)
		require.Equal(t, []string{"k1", "k2"}, got)
	}
}

// http.RoundTripper forbids it, and yet transports choose a host or add a prefix in place. The attempts then went to
// different URLs under one key, and the caller's next call of the operation was refused as another payload.
func TestTransportThatRewritesTheURLChangesNeitherTheCallersRequestNorTheNextAttempt(t *testing.T) {
	var sent []string
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		r.URL.Host, r.URL.Path = "10.0.0.7", "/v1"+r.URL.Path
		sent = append(sent, r.URL.String())
		return answer(r, []int{503, 200}[len(sent)-1], "{}"), nil
	}), redo.WithStore(openStore(t)), redo.WithRetry(redo.RetryPolicy{Jitter: redo.NoDelay}))
	req := post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/refunds", payment)
	for range 2 {
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.Equal(t, "{}", drain(t, resp))
		require.Equal(t, "http://api.test/refunds", req.URL.String())
		req.Body, err = req.GetBody()
		require.NoError(t, err)
	}
	require.Equal(t, []string{"http://10.0.0.7/v1/refunds", "http://10.0.0.7/v1/refunds"}, sent)
}

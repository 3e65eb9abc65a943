package redo_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// secretive returns a POST with everything that belongs to its origin alone.
func secretive(t *testing.T, srv *servertest.Server) *http.Request {
	t.Helper()
	req := keyed(t, srv, "k1")
	req.Header = http.Header{"Authorization": {"Bearer t0ken"}, "Cookie": {"s=t0ken"}, "X-Api-Key": {"t0ken"}, "X-Kept": {"1"}}
	return req
}

func TestRepeatingRedirectOnTheSameOriginKeepsMethodBodyAndKey(t *testing.T) {
	for _, status := range []int{307, 308} {
		for _, location := range []string{"/v2/refunds?x=1", "http://memory.test/v2/refunds?x=1", "http://memory.test:80/v2/refunds?x=1", "//memory.test/v2/refunds?x=1"} {
			t.Run(fmt.Sprint(status, " ", location), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.Redirect(status, location)))
					var ends []redo.AttemptEnd
					resp, _ := succeed(t, connect(t, srv.Transport(), redo.WithObserver(&attemptLog{&ends})), secretive(t, srv))
					require.Equal(t, "k1", redo.KeyOf(resp))
					require.Len(t, ends, 1, "a redirect is followed within its attempt")
					require.Equal(t, 2, ends[0].Attempt.WireSends)
					next := srv.Requests()[1]
					require.Equal(t, []string{"POST", "/v2/refunds", "k1", payment, "Bearer t0ken", "s=t0ken", "1"},
						[]string{next.Method, next.Path, next.Key, string(next.Body), next.Header.Get("Authorization"), next.Header.Get("Cookie"), next.Header.Get("X-Kept")})
				})
			})
		}
	}
}

func TestRepeatingRedirectToAnotherOriginDropsKeyAndCredentials(t *testing.T) {
	for _, location := range []string{"http://other.test/refunds", "http://memory.test:8080/refunds", "http://sub.memory.test/refunds", "//other.test/refunds"} {
		t.Run(location, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.Redirect(307, location)))
				succeed(t, connect(t, srv.Transport()), secretive(t, srv))
				next := srv.Requests()[1]
				require.Empty(t, next.Key)
				require.NotContains(t, fmt.Sprint(next.Header), "t0ken")
				require.Equal(t, "1", next.Header.Get("X-Kept"))
				require.Equal(t, payment, string(next.Body))
				require.Equal(t, http.MethodPost, next.Method)
			})
		})
	}
}

func TestKeyDoesNotComeBackWithARedirectThatDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t,
			servertest.Script("k1", servertest.Redirect(307, "http://other.test/")),
			servertest.Script("", servertest.Redirect(307, "http://memory.test/back")))
		succeed(t, connect(t, srv.Transport()), secretive(t, srv))
		require.Equal(t, []string{"k1", "", ""}, keys(srv))
		require.NotContains(t, fmt.Sprint(srv.Requests()[2].Header), "t0ken")
	})
}

func TestAttemptThatWentOnWithoutItsKeyIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t,
			servertest.Script("k1", servertest.Redirect(307, "http://other.test/")),
			servertest.Script("", servertest.StatusAfterEffect(502)))
		st := openStore(t)
		ctx := redo.WithKey(redo.WithOperation(t.Context(), "op"), "k1")
		client := connect(t, srv.Transport(), redo.WithStore(st))
		e := fail(t, client, post(t, ctx, srv.URL, payment))
		require.Len(t, e.Attempts, 1)
		require.Equal(t, redo.EffectUnknown, e.Effect)
		require.False(t, redo.SafeToRetry(e))
		require.Equal(t, 1, srv.Ledger().Total())

		again := fail(t, client, post(t, ctx, srv.URL, payment))
		require.Equal(t, e.Code, again.Code)
		require.Len(t, srv.Requests(), 2, "calling it again sends nothing: the other origin has no key to know it by")
	})
}

func TestRedirectOfAPostThatChangesItIsSurfaced(t *testing.T) {
	for status, state := range map[int]store.State{301: store.StatePending, 302: store.StatePending, 303: store.StateComplete, 304: store.StatePending} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Redirect(status, "/elsewhere")))
				st := openStore(t)
				resp, _ := succeed(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
				require.Equal(t, status, resp.StatusCode)
				require.Equal(t, "/elsewhere", resp.Header.Get("Location"))
				require.Len(t, srv.Requests(), 1, "it never becomes a GET that carries the key")
				require.Equal(t, state, record(t, st, "op").State)
			})
		})
	}
}

func TestRedirectOfAGetIsFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Script("", servertest.Redirect(status, "http://other.test/there")))
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer t0ken")
				resp, _ := succeed(t, connect(t, srv.Transport()), req)
				require.Equal(t, 204, resp.StatusCode)
				next := srv.Requests()[1]
				require.Equal(t, []string{"GET", "other.test", "/there", ""}, []string{next.Method, next.Host, next.Path, next.Header.Get("Authorization")})
			})
		})
	}
}

func TestRefusalAfterARedirectWasNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Redirect(307, "/v2"), servertest.Status(422)))
		st := openStore(t)
		e := fail(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
		require.Equal(t, 2, e.Attempts[0].WireSends)
		require.Equal(t, redo.NotApplied, e.Effect, "both sends were answered")
		require.Equal(t, store.StateFailed, record(t, st, "op").State)
	})
}

func TestRedirectThatCannotBeFollowed(t *testing.T) {
	loop := make([]servertest.Fault, 11)
	for i := range loop {
		loop[i] = servertest.Redirect(307, "/again")
	}
	for _, c := range []struct {
		name   string
		faults []servertest.Fault
		code   taxonomy.Code
	}{
		{"more than ten", loop, taxonomy.TooManyRedirects},
		{"another scheme", []servertest.Fault{servertest.Redirect(307, "ftp://memory.test/")}, taxonomy.BadURL},
		{"no host", []servertest.Fault{servertest.Redirect(308, "mailto:a@b.test")}, taxonomy.BadURL},
		{"no URL", []servertest.Fault{servertest.Redirect(307, "http://[::1")}, taxonomy.BadURL},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Script("k1", c.faults...))
				e := fail(t, connect(t, srv.Transport()), keyed(t, srv, "k1"))
				require.Equal(t, c.code, e.Code)
				require.Len(t, e.Attempts, 1)
				require.Equal(t, redo.NotApplied, e.Effect)
				require.Len(t, srv.Requests(), len(c.faults))
			})
		})
	}
}

// A Location that is no URL is an answer like any other where the redirect is the caller's business.
func TestSurfacedRedirectWithABadLocationIsTheCallers(t *testing.T) {
	for _, status := range []int{301, 302, 303} {
		for _, location := range []string{"http://[::1", "%zz", ""} {
			t.Run(fmt.Sprintf("%d %q", status, location), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.Redirect(status, location)))
					resp, _ := succeed(t, connect(t, srv.Transport()), keyed(t, srv, "k1"))
					require.Equal(t, status, resp.StatusCode)
					require.Equal(t, location, resp.Header.Get("Location"))
					require.Len(t, srv.Requests(), 1)
				})
			})
		}
	}
}

func TestRedirectOfABodyThatCannotBeReplayedIsSurfaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.Redirect(307, "/next")))
		req := keyed(t, srv, "k1")
		req.GetBody = nil
		resp, _ := succeed(t, connect(t, srv.Transport()), req)
		require.Equal(t, 307, resp.StatusCode)
		require.Len(t, srv.Requests(), 1)
	})
}

func TestRetryAfterARedirectStartsAtTheFirstOriginWithTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Script("k1",
			servertest.Redirect(308, "/next"), servertest.Status(503), servertest.Redirect(308, "/next"), servertest.OK()))
		succeed(t, connect(t, srv.Transport()), keyed(t, srv, "k1"))
		var paths []string
		for _, r := range srv.Requests() {
			paths = append(paths, r.Path)
		}
		require.Equal(t, []string{"/refunds", "/next", "/refunds", "/next"}, paths)
		srv.Ledger().AssertEffects(t, "k1", 1)
	})
}

func TestRetryAfterARedirectToAnotherOriginHasItsKeyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t,
			servertest.Script("k1", servertest.Redirect(307, "http://other.test/"), servertest.Status(503), servertest.OK()),
			servertest.Script("", servertest.RateLimited()))
		req := keyed(t, srv, "k1")
		req.Method = http.MethodPut // which may be repeated without a key
		succeed(t, connect(t, srv.Transport()), req)
		require.Equal(t, []string{"k1", "", "k1", "k1"}, keys(srv))
	})
}

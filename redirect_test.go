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
	req.Header = http.Header{
		"Authorization": {"Bearer t0ken"}, "Cookie": {"s=t0ken"}, "X-Api-Key": {"t0ken"}, "X-Kept": {"1"},
	}
	return req
}

func TestRepeatingRedirectOnTheSameOriginKeepsMethodBodyAndKey(t *testing.T) {
	for _, status := range []int{307, 308} {
		for _, location := range []string{
			"/v2/refunds?x=1", "http://memory.test/v2/refunds?x=1", "http://memory.test:80/v2/refunds?x=1",
			"//memory.test/v2/refunds?x=1",
		} {
			t.Run(fmt.Sprint(status, " ", location), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.Redirect(status, location)))
					var ends []redo.AttemptEnd
					resp, _ := succeed(t, connect(t, srv.Transport(), redo.WithObserver(&attemptLog{&ends})),
						secretive(t, srv))
					require.Equal(t, "k1", redo.KeyOf(resp))
					require.Len(t, ends, 1, "a redirect is followed within its attempt")
					require.Equal(t, 2, ends[0].Attempt.WireSends)
					next := srv.Requests()[1]
					require.Equal(t, []string{"POST", "/v2/refunds", "k1", payment, "Bearer t0ken", "s=t0ken", "1"},
						[]string{
							next.Method, next.Path, next.Key, string(next.Body), next.Header.Get("Authorization"),
							next.Header.Get("Cookie"), next.Header.Get("X-Kept"),
						})
				})
			})
		}
	}
}

// A keyed request that is not safe is never repeated at another origin, over Do and over Transport.
func TestKeyedRequestIsNotRepeatedAtAnotherOrigin(t *testing.T) {
	for _, location := range []string{
		"http://other.test/refunds?a=b", "https://memory.test/refunds", "http://memory.test:8080/refunds",
		"http://sub.memory.test/refunds", "//other.test/refunds",
	} {
		for _, status := range []int{307, 308} {
			for _, face := range []string{"Do", "Transport"} {
				t.Run(fmt.Sprint(face, " ", status, " ", location), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.Redirect(status, location)))
						client := connect(t, srv.Transport())
						do := client.Do
						if face == "Transport" {
							do = under(client).Do
						}
						_, err := do(secretive(t, srv))
						require.ErrorIs(t, err, taxonomy.RedirectNotFollowed)
						require.ErrorContains(t, err, "redirects to another origin, http")
						require.NotContains(t, err.Error(), "a=b", "a query is never in an error")
						require.Len(t, srv.Requests(), 1)
					})
				})
			}
		}
	}
}

// An https URL that redirects to http, and back, is another origin both times.
func TestRedirectAcrossSchemesIsAnotherOrigin(t *testing.T) {
	for _, c := range []struct{ from, to string }{{"http", "https"}, {"https", "http"}} {
		t.Run(c.from+" to "+c.to, func(t *testing.T) {
			sent := 0
			client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				sent++
				return answer(r, 307, "", "Location", c.to+"://api.test/refunds"), nil
			}))
			e := fail(t, client, post(t, redo.WithKey(t.Context(), "k1"), c.from+"://api.test/refunds", payment))
			require.Equal(t, taxonomy.RedirectNotFollowed, e.Code)
			require.Equal(t, 1, sent)
		})
	}
}

// A safe request follows to another origin, with only those headers that are not private.
func TestSafeRequestLeavesItsHeadersBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Redirect(307, "http://other.test/there")))
		client := connect(t, srv.Transport(), redo.WithCredentials(func(r *http.Request) error {
			r.Header.Set("Accept-Language", "t0ken") // a header that the function sets is a credential, with any name
			r.Header.Set("X-Session", "t0ken")
			return nil
		}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/here", nil)
		require.NoError(t, err)
		req.Header = http.Header{
			"Accept": {"text/csv"}, "X-Author-Id": {"t0ken"}, "Authorization": {"t0ken"}, "User-Agent": {"shop/1"},
		}
		succeed(t, client, req)
		next := srv.Requests()[1]
		require.Equal(t, "other.test", next.Host)
		require.NotContains(t, fmt.Sprint(next.Header), "t0ken")
		require.Equal(t, "text/csv", next.Header.Get("Accept"))
		require.Equal(t, "shop/1", next.Header.Get("User-Agent"))
	})
}

func TestRedirectOfAPostThatChangesItIsSurfaced(t *testing.T) {
	for status, state := range map[int]store.State{
		301: store.StatePending, 302: store.StatePending, 303: store.StatePending, 304: store.StatePending,
	} {
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
				srv := servertest.NewInMemory(t,
					servertest.Script("", servertest.Redirect(status, "http://other.test/there")))
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer t0ken")
				resp, _ := succeed(t, connect(t, srv.Transport()), req)
				require.Equal(t, 204, resp.StatusCode)
				next := srv.Requests()[1]
				require.Equal(t, []string{"GET", "other.test", "/there", ""},
					[]string{next.Method, next.Host, next.Path, next.Header.Get("Authorization")})
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
		require.Equal(t, redo.NotApplied, e.Effect, "both sends got a response")
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
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.faults...))
				e := fail(t, connect(t, srv.Transport()), post(t, t.Context(), srv.URL+"/refunds", payment))
				require.Equal(t, c.code, e.Code)
				require.Len(t, e.Attempts, 1)
				require.Equal(t, redo.NotApplied, e.Effect)
				require.Len(t, srv.Requests(), len(c.faults))
			})
		})
	}
}

// A Location that is no URL is a response like any other where the redirect is the caller's business.
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
		resp, _ := succeed(t, connect(t, srv.Transport(), redo.WithMaxBufferedBody(0)), req)
		require.Equal(t, 307, resp.StatusCode)
		require.Len(t, srv.Requests(), 1)
	})
}

func TestRetryAfterARedirectStartsAtTheFirstOriginWithTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Script("k1",
			servertest.Redirect(308, "/next"), servertest.Status(503), servertest.Redirect(308, "/next"),
			servertest.OK()))
		succeed(t, connect(t, srv.Transport()), keyed(t, srv, "k1"))
		var paths []string
		for _, r := range srv.Requests() {
			paths = append(paths, r.Path)
		}
		require.Equal(t, []string{"/refunds", "/next", "/refunds", "/next"}, paths)
		srv.Ledger().AssertEffects(t, "k1", 1)
	})
}

// Under WithoutRedirects an http.Client above follows the redirect, and drops the key. The payload must not be sent
// without it.
func TestAClientAboveDoesNotRepeatAKeyedRequestWithoutItsKey(t *testing.T) {
	for _, location := range []string{"/elsewhere?a=b", "http://other.test/elsewhere?a=b"} {
		t.Run(location, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Redirect(307, location)))
				st := openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st))
				req := named(t, srv, "op", payment)
				_, err := under(client).Do(req.WithContext(redo.WithoutRedirects(req.Context())))
				require.ErrorIs(t, err, taxonomy.RedirectNotFollowed)
				require.ErrorContains(t, err, "elsewhere: the request is not repeated there without its key")
				var e *redo.Error
				require.ErrorAs(t, err, &e)
				require.NotContains(t, e.Error(), "a=b", "a query is never in an error")
				require.Equal(t, "op", e.Operation)
				require.Len(t, srv.Requests(), 1)
				require.Equal(t, store.StatePending, record(t, st, "op").State)
			})
		})
	}
	t.Run("a request without a key is followed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Redirect(307, "/elsewhere")))
			req := post(t, redo.WithoutRedirects(t.Context()), srv.URL, payment)
			resp, err := under(connect(t, srv.Transport())).Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Len(t, srv.Requests(), 2)
		})
	})
}

// An http.Client above follows the redirects of safe requests. The credentials stay at the first origin there too.
func TestCredentialsStayAtTheirOriginUnderAClientAbove(t *testing.T) {
	for location, want := range map[string][]string{
		"/there":                  {"t0ken", "t0ken"},
		"http://other.test/there": {"t0ken", ""},
	} {
		t.Run(location, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Redirect(302, location)))
				client := connect(t, srv.Transport(), redo.WithCredentials(func(r *http.Request) error {
					r.Header.Set("X-Session", "t0ken")
					return nil
				}))
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/here", nil)
				require.NoError(t, err)
				resp, err := under(client).Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				var got []string
				for _, r := range srv.Requests() {
					got = append(got, r.Header.Get("X-Session"))
				}
				require.Equal(t, want, got)
			})
		})
	}
}

// Another origin must not choose what the credentials are used for at the first one.
func TestCredentialsDoNotReturnFromAnotherOriginUnderAClientAbove(t *testing.T) {
	next := map[string]string{"/here": "http://other.test/there", "/there": "http://shop.test/back"}
	var got []string
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		got = append(got, r.Header.Get("X-Session"))
		if location := next[r.URL.Path]; location != "" {
			return answer(r, 302, "", "Location", location), nil
		}
		return answer(r, 200, ""), nil
	}), redo.WithCredentials(func(r *http.Request) error {
		r.Header.Set("X-Session", "t0ken")
		return nil
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.test/here", nil)
	require.NoError(t, err)
	resp, err := under(client).Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []string{"t0ken", "", ""}, got)
}

func TestWithoutRedirectsEachRedirectIsTheResponse(t *testing.T) {
	requests := 0
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		requests++
		return answer(r, 307, "", "Location", "/elsewhere"), nil
	}))
	req, err := http.NewRequestWithContext(redo.WithoutRedirects(t.Context()), http.MethodGet, "http://api.test/", nil)
	require.NoError(t, err)
	resp, _ := succeed(t, client, req)
	require.Equal(t, 307, resp.StatusCode)
	require.Equal(t, 1, requests)
}

package redo_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/servertest"
)

// Retry-After: 0 allows the next request immediately. The schedule still holds: else a thousand attempts take four
// milliseconds.
func TestRetryAfterZeroKeepsTheSchedule(t *testing.T) {
	for _, header := range []string{"Retry-After", "Retry-After-Ms"} {
		t.Run(header, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					sent++
					return answer(r, 503, "", header, "0"), nil
				}), redo.WithBudget(limit.Budget{Ratio: 1, Reserve: 1000}),
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1000, MaxElapsed: time.Hour,
						BaseDelay: time.Second, Jitter: redo.ConstantDelay}))
				start := time.Now()
				e := fail(t, client, post(t, t.Context(), "http://api.test/", payment))
				require.ErrorIs(t, e, redo.ErrAttempts)
				require.Equal(t, 1000, sent)
				require.Equal(t, 999*time.Second, time.Since(start))
				for _, a := range e.Attempts[:999] {
					require.Equal(t, time.Second, a.Wait)
				}
			})
		})
	}
	t.Run("a longer hint is waited for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			two := servertest.Status(503).With(servertest.RetryAfterSeconds(2))
			srv := servertest.NewInMemory(t, servertest.ScriptNext(two, two, servertest.OK()))
			start := time.Now()
			succeed(t, connect(t, srv.Transport()), post(t, t.Context(), srv.URL, payment))
			require.Equal(t, []time.Duration{0, 2 * time.Second, 4 * time.Second}, offsets(srv, start))
		})
	})
}

func TestRateLimitHeaderIsHonouredOn429(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		value  string
		wait   time.Duration
	}{
		{"the draft's form", 429, `"default";r=0;t=1`, time.Second},
		{"a token for the policy", 429, `default;r=0;t=3`, 3 * time.Second},
		{"parameters in another order", 429, `"default";t=3;r=0`, 3 * time.Second},
		{"the longest of two quotas", 429, `"burst";r=0;t=1, "daily";r=0;t=5`, 5 * time.Second},
		{"a quota with requests left is no reason to wait", 429, `"burst";r=0;t=2, "daily";r=10;t=9`, 2 * time.Second},
		{"no quota is used up", 429, `"default";r=5;t=9`, rest},
		{"garbage", 429, `"default;r=0;t=9`, rest},
		{"a 503 is no rate limit", 503, `"default";r=0;t=9`, rest},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t,
					servertest.ScriptNext(with(c.status, "RateLimit", c.value)(), servertest.OK()))
				start := time.Now()
				succeed(t, connect(t, srv.Transport()), post(t, t.Context(), srv.URL, payment))
				require.Equal(t, []time.Duration{0, c.wait}, offsets(srv, start))
			})
		})
	}
}

// QUERY is safe and has a body: it gets no key, is retried with its body, and is no stored operation.
func TestQueryIsSafe(t *testing.T) {
	for _, c := range []struct {
		method  string
		retried bool
	}{{"QUERY", true}, {"SEARCH", false}} {
		for _, face := range []string{"Do", "Transport"} {
			for _, getBody := range []bool{true, false} {
				name := c.method + ", " + face + map[bool]string{true: "", false: ", without GetBody"}[getBody]
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						st := openStore(t)
						srv := servertest.NewInMemory(t, servertest.Bare(),
							servertest.Script("", servertest.Status(503)))
						client := connect(t, srv.Transport(), redo.WithStore(st))
						ctx := t.Context()
						if c.retried {
							ctx = redo.WithOperation(ctx, "op")
						}
						req, err := http.NewRequestWithContext(ctx, c.method, srv.URL, strings.NewReader(payment))
						require.NoError(t, err)
						if !getBody {
							req.GetBody = nil
						}
						do := client.Do
						if face == "Transport" {
							do = under(client).Do
						}
						resp, err := do(req)
						if !c.retried {
							require.Len(t, srv.Requests(), 1, "an unknown method may have an effect")
							if face == "Do" {
								require.ErrorIs(t, err, redo.ErrKeyless)
							}
							return
						}
						require.NoError(t, err)
						require.Equal(t, 204, resp.StatusCode, "a read has no effect")
						drain(t, resp)
						sent := srv.Requests()
						require.Len(t, sent, 2)
						for _, r := range sent {
							require.Equal(t, payment, string(r.Body))
							require.Empty(t, r.Key)
						}
						requireAbsent(t, st, "op")
					})
				})
			}
		}
	}
}

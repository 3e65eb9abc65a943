package redo_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestAPolicyOnTheContextReplacesTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := servertest.Status(503)
		srv := servertest.NewInMemory(t, servertest.ScriptNext(down), servertest.ScriptNext(down, down, down),
			servertest.ScriptNext(down, down, down))
		client := connect(t, srv.Transport())
		call := func(ctx context.Context) *http.Request { return post(t, ctx, srv.URL+"/refunds", payment) }
		once := redo.WithPolicy(t.Context(), redo.RetryPolicy{MaxAttempts: 1})
		e := fail(t, client, call(once))
		require.Len(t, e.Attempts, 1)
		require.ErrorIs(t, e, redo.ErrAttempts)

		start := time.Now()
		slower := redo.WithPolicy(t.Context(), redo.RetryPolicy{BaseDelay: time.Second, Jitter: redo.ConstantDelay})
		succeed(t, client, call(slower))
		require.Equal(t, 3*time.Second, time.Since(start), "zero fields take the defaults: five attempts")

		sent := len(srv.Requests())
		for _, bad := range []redo.RetryPolicy{{MaxAttempts: -1}, {BaseDelay: time.Minute, MaxElapsed: time.Second}} {
			e = fail(t, client, call(redo.WithPolicy(t.Context(), bad)))
			require.Equal(t, []any{taxonomy.InvalidRequest, redo.NotApplied}, []any{e.Code, e.Effect})
		}
		require.Len(t, srv.Requests(), sent, "nothing is sent under an invalid policy")

		start = time.Now()
		succeed(t, client, call(t.Context())) // the twin: other calls keep the client's policy
		require.Equal(t, 3*rest, time.Since(start))
	})
}

func TestAReportShowsWhatAnSDKDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503), servertest.RateLimited()),
			servertest.ScriptNext(servertest.Status(422)))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		sdk := &http.Client{Transport: client.Transport()}

		ctx, report := redo.WithReport(redo.WithOperation(t.Context(), "a"))
		require.Nil(t, report.Err())
		require.Empty(t, report.Attempts())
		resp, err := sdk.Do(post(t, ctx, srv.URL+"/refunds", payment))
		require.NoError(t, err)
		drain(t, resp)
		require.Nil(t, report.Err())
		var seen []int
		for _, a := range report.Attempts() {
			seen = append(seen, a.Status)
		}
		require.Equal(t, []int{503, 429, 201}, seen, "a success shows its attempts too")
		report.Attempts()[0].Status = 0
		require.Equal(t, 503, report.Attempts()[0].Status, "the caller gets a copy")

		ctx, second := redo.WithReport(redo.WithOperation(t.Context(), "b"))
		resp, err = sdk.Do(post(t, ctx, srv.URL+"/refunds", payment))
		require.NoError(t, err, "under an SDK a 422 is a response")
		require.Equal(t, 422, resp.StatusCode)
		drain(t, resp)
		e := second.Err()
		require.NotNil(t, e)
		require.Equal(t, []any{422, redo.NotApplied, "b", 1},
			[]any{e.StatusCode, e.Effect, e.Operation, len(second.Attempts())})
		require.Nil(t, report.Err(), "each report has its own calls")
		require.False(t, report.Resumed() || second.Resumed())

		again, third := redo.WithReport(redo.WithOperation(t.Context(), "a"))
		resp, err = sdk.Do(post(t, again, srv.URL+"/refunds", payment))
		require.NoError(t, err)
		drain(t, resp)
		require.True(t, third.Resumed(), "an earlier call began the operation")

		// The last call counts: a success clears the error.
		resp, err = sdk.Do(post(t, ctx, srv.URL+"/refunds", payment))
		require.NoError(t, err)
		drain(t, resp)
		require.Nil(t, second.Err())
	})
}

func TestANameForMatchingRequestsLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st))
		sdk := &http.Client{Transport: client.Transport()}
		match := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/refunds") }
		ctx := redo.WithOperationFor(t.Context(), "op", match)
		for _, path := range []string{"/token", "/refunds", "/token"} {
			resp, err := sdk.Do(post(t, ctx, srv.URL+path, `{"path":"`+path+`"}`))
			require.NoError(t, err)
			drain(t, resp)
		}
		sent := keys(srv)
		require.Equal(t, []string{"", lookUp(t, client, "op").Key, ""}, sent, "only the refund takes the name")

		// The twin: under WithOperation the token refresh would take it, and is refused as another payload.
		ctx = redo.WithOperation(t.Context(), "op")
		_, err := sdk.Do(post(t, ctx, srv.URL+"/token", `{"path":"/token"}`))
		require.Equal(t, taxonomy.PayloadMismatch, failure(t, err).Code)
		// A nil match names every request.
		resp, err := sdk.Do(post(t, redo.WithOperationFor(t.Context(), "op", nil), srv.URL+"/refunds",
			`{"path":"/refunds"}`))
		require.NoError(t, err)
		require.True(t, redo.Replayed(resp))
		drain(t, resp)
	})
}

func lookUp(t *testing.T, c *redo.Client, name string) redo.Operation {
	t.Helper()
	op, err := c.Find(t.Context(), name)
	require.NoError(t, err)
	return op
}

func TestAClassifierMakesA404Transient(t *testing.T) {
	transient := func(resp *http.Response, _ []byte, v taxonomy.Verdict) taxonomy.Verdict {
		if resp.StatusCode == http.StatusNotFound {
			return taxonomy.Verdict{
				Code: "TRANSIENT.replica_lag", Class: taxonomy.ClassTransient, Effect: redo.NotApplied,
			}
		}
		return v
	}
	for name, c := range map[string]struct {
		opt      redo.Option
		attempts int
	}{"with it": {redo.WithClassifier(transient), 2}, "without it": {redo.WithClassifier(nil), 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(404)))
				resp, err := connect(t, srv.Transport(), c.opt).Do(post(t, t.Context(), srv.URL, payment))
				require.Equal(t, c.attempts == 2, err == nil)
				if err == nil {
					drain(t, resp)
				}
				require.Len(t, srv.Requests(), c.attempts)
			})
		})
	}
}

// notOK takes a body {"ok":false} for a failure.
func notOK(_ *http.Response, body []byte, v taxonomy.Verdict) taxonomy.Verdict {
	if v.Class == taxonomy.ClassSuccess && bytes.Contains(body, []byte(`"ok":false`)) {
		return taxonomy.Verdict{Code: "VALIDATION.refused", Effect: redo.NotApplied}
	}
	return v
}

func TestAClassifierMakesA200AFailureThatIsNotKeptAsASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := `{"ok":false}`
		rt := tripper(func(r *http.Request) (*http.Response, error) { return answer(r, 200, body), nil })
		st := openStore(t)
		client := connect(t, rt, redo.WithStore(st), redo.WithClassifier(notOK))
		req := func(name string) *http.Request {
			return post(t, redo.WithOperation(t.Context(), name), "http://api.test/", payment)
		}
		e := fail(t, client, req("op"))
		require.Equal(t, []any{taxonomy.Code("VALIDATION.refused"), 200, redo.NotApplied},
			[]any{e.Code, e.StatusCode, e.Effect})
		require.Equal(t, body, drain(t, e.Response))
		require.Equal(t, store.StateFailed, record(t, st, "op").State)

		// Under an SDK it is a response, which the SDK reads by its own rules.
		sdk := &http.Client{Transport: client.Transport()}
		ctx, report := redo.WithReport(t.Context())
		resp, err := sdk.Do(req("sdk").WithContext(redo.WithOperation(ctx, "sdk")))
		require.NoError(t, err)
		require.Equal(t, body, drain(t, resp))
		require.Equal(t, taxonomy.Code("VALIDATION.refused"), redo.CodeOf(report.Err()))
		require.Equal(t, store.StateFailed, record(t, st, "sdk").State)

		body = `{"ok":true}` // the twin
		resp, text := succeed(t, client, req("op"))
		require.Equal(t, body, text)
		require.NotEqual(t, e.Key, redo.KeyOf(resp), "an operation that was not applied starts anew")
		require.Equal(t, store.StateComplete, record(t, st, "op").State)
	})
}

func TestARestingFailureIsTheSameResponseToAnSDKEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		undecided := func(*http.Response, []byte, taxonomy.Verdict) taxonomy.Verdict {
			return taxonomy.Verdict{Code: "PROVIDER.undecided", Final: true}
		}
		sent := 0
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			sent++
			return answer(r, 200, `{"ok":false}`), nil
		}), redo.WithStore(openStore(t)), redo.WithClassifier(undecided))
		sdk := &http.Client{Transport: client.Transport()}
		for range 2 {
			ctx, report := redo.WithReport(redo.WithOperation(t.Context(), "op"))
			resp, err := sdk.Do(post(t, ctx, "http://api.test/", payment))
			require.NoError(t, err)
			require.Equal(t, []any{200, `{"ok":false}`}, []any{resp.StatusCode, drain(t, resp)})
			require.Equal(t, taxonomy.Code("PROVIDER.undecided"), redo.CodeOf(report.Err()))
		}
		require.Equal(t, 1, sent, "the second is the recorded one")
	})
}

// An Error's code is never empty, and an operation's second call returns what its first one did.
func TestAVerdictWithoutACodeGetsOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		means  taxonomy.Verdict
		code   taxonomy.Code
		effect redo.Effect
	}{
		{"a 404 that is no effect", 404, taxonomy.Verdict{Effect: redo.NotApplied}, taxonomy.NotFound, redo.NotApplied},
		{"a 404 as a success", 404, taxonomy.Verdict{Class: taxonomy.ClassSuccess}, taxonomy.NotFound, redo.Applied},
		{"a 200 that is a failure", 200, taxonomy.Verdict{}, "PROVIDER.failure", redo.EffectUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				means := func(*http.Response, []byte, taxonomy.Verdict) taxonomy.Verdict { return c.means }
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					return answer(r, c.status, "{}"), nil
				}), redo.WithStore(openStore(t)), redo.WithClassifier(means))
				for range 2 {
					e := fail(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
					require.Equal(t, []any{c.code, c.status, c.effect}, []any{e.Code, e.StatusCode, e.Effect})
				}
			})
		})
	}
}

func TestAClassifierNeverMakesAMismatchRetryable(t *testing.T) {
	always := func(_ *http.Response, _ []byte, v taxonomy.Verdict) taxonomy.Verdict {
		if v.Class == taxonomy.ClassSuccess {
			return v
		}
		return taxonomy.Verdict{Code: taxonomy.Unavailable, Class: taxonomy.ClassTransient}
	}
	for code, attempts := range map[taxonomy.Code]int{
		taxonomy.PayloadMismatch: 1, taxonomy.KeyExpired: 1, "CONFLICT.other": 2, // the twin
	} {
		t.Run(string(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := 0
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					if rt++; rt == 1 {
						return answer(r, 409, "", "Error-Code", string(code)), nil
					}
					return answer(r, 201, ""), nil
				}), redo.WithClassifier(always))
				resp, err := client.Do(post(t, t.Context(), "http://api.test/", payment))
				require.Equal(t, attempts, rt)
				if attempts == 1 {
					require.Equal(t, code, failure(t, err).Code)
					return
				}
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}

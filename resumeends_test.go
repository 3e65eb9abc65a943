package redo_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

func TestResumeEveryEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := connect(t, unused(), redo.WithStore(openStore(t)))
		ended, start := make(chan error, 1), time.Now()
		report := func(_ redo.Operation, err error) { t.Error("a closed client reported", err) }
		go func() { ended <- client.ResumeEvery(t.Context(), time.Minute, report) }()
		synctest.Wait()
		require.NoError(t, client.Close())
		require.Equal(t, redo.ErrClosed, <-ended)
		require.Zero(t, time.Since(start), "it does not wait for its next round")
	})
}

func TestResumeEveryOfAClosedClientReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a")
		client := connect(t, unused(), redo.WithStore(st))
		require.NoError(t, client.Close())
		report := func(_ redo.Operation, err error) { t.Error("a closed client reported", err) }
		require.Equal(t, redo.ErrClosed, client.ResumeEvery(t.Context(), time.Minute, report))
	})
}

func TestResumeEveryOfAnEndedContextReturnsItsError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client := connect(t, unused(), redo.WithStore(openStore(t)))
	require.Equal(t, context.Canceled, client.ResumeEvery(ctx, time.Minute, nil))
}

// A maintenance page is no success of Call, whoever continues the operation.
func TestAnOperationOfCallIsResumedByTheRulesOfCall(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		code   taxonomy.Code
		effect redo.Effect
	}{
		{"a page", 200, "<html>maintenance</html>", taxonomy.Provider + ".malformed", redo.EffectUnknown},
		{"a redirect", 302, "", taxonomy.RedirectNotFollowed, redo.EffectUnknown},
		{"JSON", 200, `{"id":"rf_1"}`, "", redo.Applied},
		{"no body", 204, "", "", redo.Applied},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := false
			client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				if !up {
					return nil, io.ErrUnexpectedEOF
				}
				return answer(r, c.status, c.body), nil
			}), redo.WithStore(openStore(t)), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
			_, err := redo.Call[receipt](redo.WithOperation(t.Context(), "op"), client, "POST", "http://api.test/", receipt{})
			require.Equal(t, taxonomy.Truncated, redo.CodeOf(err))
			up = true
			resp, err := client.Resume(t.Context(), lookUp(t, client, "op"))
			require.Equal(t, c.code, redo.CodeOf(err))
			if err == nil {
				require.Equal(t, c.body, drain(t, resp))
			}
			require.Equal(t, c.effect, lookUp(t, client, "op").Effect)
		})
	}
}

// A redirect settles nothing: the operation stays pending. As a success it would be sent again in every round.
func TestResumeEveryReportsARedirectAsAnErrorAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a")
		p, got := newProvider(302, 0), resumptions{}
		resumeFor(t, 16*time.Minute+time.Second, time.Minute, got.report, resuming(t, p, st))
		const m = time.Minute
		require.Equal(t, []time.Duration{0, m, 3 * m, 7 * m, 15 * m}, p.came["a"])
		require.Len(t, got["a"], len(p.came["a"]))
		for _, err := range got["a"] {
			e := failure(t, err)
			require.Equal(t, []any{taxonomy.RedirectNotFollowed, http.StatusFound, "a", redo.EffectUnknown, 1},
				[]any{e.Code, e.StatusCode, e.Operation, e.Effect, len(e.Attempts)})
			require.False(t, redo.SafeToRetry(e))
			require.Equal(t, http.StatusFound, e.Response.StatusCode)
			require.Empty(t, drain(t, e.Response))
		}
		require.Len(t, pending(t, connect(t, unused(), redo.WithStore(st))), 1)
	})
}

// A Classifier may take a redirect for a success. The operation is then complete.
func TestResumeEveryReportsARedirectThatIsASuccessAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a")
		means := func(*http.Response, []byte, taxonomy.Verdict) taxonomy.Verdict {
			return taxonomy.Verdict{Class: taxonomy.ClassSuccess}
		}
		p, got := newProvider(302, 0), resumptions{}
		resumeFor(t, 5*time.Minute, time.Minute, got.report, connect(t, p, redo.WithStore(st), redo.WithClassifier(means)))
		require.Equal(t, resumptions{"a": {nil}}, got)
		require.Empty(t, pending(t, connect(t, unused(), redo.WithStore(st))))
	})
}

// At most four operations are resumed at a time. Close ends the wait of the others.
func TestResumeEveryStartsNothingAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a", "b", "c", "d", "e")
		p, got := newProvider(201, 2*time.Second), resumptions{}
		client, ended := resuming(t, p, st), make(chan error, 1)
		go func() { ended <- client.ResumeEvery(t.Context(), time.Minute, got.report) }()
		time.Sleep(time.Second)
		require.NoError(t, client.Close())
		require.Equal(t, redo.ErrClosed, <-ended)
		require.Equal(t, resumptions{"a": {nil}, "b": {nil}, "c": {nil}, "d": {nil}}, got)
	})
}

// A gateway can have thousands of operations whose credentials only a phone has. A turn costs two durable writes.
func TestResumeEveryTakesNoTurnForARefusalThatNobodyHears(t *testing.T) {
	for name, c := range map[string]struct {
		report      bool
		credentials bool
		turns       int
	}{
		"without credentials and a report":      {false, false, 0},
		"the report hears of the refusal":       {true, false, 1},
		"without a report, but sent as it came": {false, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, p := openStore(t), newProvider(503, 0)
				req := post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment)
				req.Header.Set("Authorization", "Bearer t0ken")
				fail(t, resuming(t, unused(), st), req)
				time.Sleep(time.Minute)
				var opts []redo.Option
				if c.credentials {
					opts = append(opts, redo.WithCredentials(func(*http.Request) error { return nil }))
				}
				var report func(redo.Operation, error)
				got := resumptions{}
				if c.report {
					report = got.report
				}
				resumeFor(t, time.Second, time.Minute, report, connect(t, p, append(opts, redo.WithStore(st))...))
				turns := 0
				for _, err := range st.Pending(t.Context(), "resume:redo") {
					require.NoError(t, err)
					turns++
				}
				require.Equal(t, c.turns, turns)
				require.Equal(t, c.report, len(got["a"]) == 1)
			})
		})
	}
}

// The wait that a server asked for is about the operation that it refused, and not about a later one of that name.
func TestANewOperationDoesNotWaitForTheTurnOfAnEarlierOne(t *testing.T) {
	for name, settle := range map[string]func(*testing.T, *redo.Client){
		"forgotten": func(t *testing.T, c *redo.Client) { require.NoError(t, c.Forget(t.Context(), "a")) },
		"settled as not applied": func(t *testing.T, c *redo.Client) {
			f := redo.Finding{Effect: redo.NotApplied, Evidence: "no such refund", By: "ana"}
			require.NoError(t, c.Settle(t.Context(), "a", f))
		},
		"the twin: the same operation": func(*testing.T, *redo.Client) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := openStore(t)
				leaveBehind(t, st, "a")
				var sent []time.Duration
				start := time.Now()
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					sent = append(sent, time.Since(start))
					if len(sent) == 1 {
						return answer(r, 503, "", "Retry-After", "36000"), nil
					}
					return answer(r, 201, ""), nil
				}), redo.WithStore(st))
				resumeFor(t, time.Minute, time.Minute, nil, client)
				settle(t, client)
				leaveBehind(t, st, "a")
				resumeFor(t, 12*time.Hour, time.Minute, nil, client)
				if strings.HasPrefix(name, "the twin") {
					require.Equal(t, []time.Duration{0, 10 * time.Hour}, sent)
				} else {
					require.Equal(t, []time.Duration{0, 2 * time.Minute}, sent)
				}
			})
		})
	}
}

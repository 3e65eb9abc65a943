package redo_test

import (
	"context"
	"errors"
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

func TestAPayloadThatCannotBeIdentifiedIsNotSent(t *testing.T) {
	broken := errors.New("the payload is broken")
	failing := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("{"), failingBody{broken})), nil
	}
	for name, c := range map[string]struct {
		opt     redo.Option
		getBody func() (io.ReadCloser, error) // nil: the body itself fails
		body    io.Reader
	}{
		"WithFingerprint fails": {
			redo.WithFingerprint(func(*http.Request, io.Reader) ([]byte, error) { return nil, broken }), nil,
			strings.NewReader(payment),
		},
		"GetBody fails": {redo.WithScope("s"), func() (io.ReadCloser, error) { return nil, broken },
			strings.NewReader(payment)},
		"reading the copy fails":       {redo.WithScope("s"), failing, strings.NewReader(payment)},
		"reading its rest fails":       {redo.WithMaxStoredBody(1), failing, strings.NewReader(payment)},
		"reading the body fails":       {redo.WithScope("s"), nil, failingBody{broken}},
		"a body that's not held fails": {redo.WithMaxBufferedBody(0), nil, failingBody{broken}},
	} {
		t.Run(name, func(t *testing.T) {
			srv, st := servertest.NewInMemory(t), openStore(t)
			client := connect(t, srv.Transport(), redo.WithStore(st), c.opt)
			req := named(t, srv, "op", payment)
			req.Body, req.GetBody = io.NopCloser(c.body), c.getBody
			if c.getBody == nil && strings.HasPrefix(name, "WithFingerprint") {
				req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(payment)), nil }
			}
			e := fail(t, client, req)
			require.ErrorIs(t, e, broken)
			require.Equal(t, []any{taxonomy.InvalidRequest, redo.NotApplied, 0},
				[]any{e.Code, e.Effect, len(e.Attempts)})
			require.Empty(t, srv.Requests())
			for _, scope := range []string{"redo", "s"} {
				_, err := st.Find(t.Context(), store.ID{Scope: scope, Key: "op"})
				require.ErrorIs(t, err, store.ErrNotFound, "nothing is stored under a fingerprint of nothing")
			}
		})
	}
	t.Run("the twin: another fingerprint is sent", func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st),
			redo.WithFingerprint(func(_ *http.Request, body io.Reader) ([]byte, error) {
				b, err := io.ReadAll(body)
				return b[:len(`{"amount":1`)], err
			}))
		first, _ := succeed(t, client, named(t, srv, "op", payment))
		again, _ := succeed(t, client, named(t, srv, "op", `{"amount":1,"boundary":7}`))
		require.Equal(t, redo.KeyOf(first), redo.KeyOf(again))
		require.Equal(t, taxonomy.PayloadMismatch, fail(t, client, named(t, srv, "op", `{"amount":9000}`)).Code)
		require.NotZero(t, record(t, st, "op").Fingerprint)
		require.Len(t, srv.Requests(), 1)
	})
}

// The stored request counts, also if it has no body.
func TestAPendingOperationWithoutABodyIsSentAgainWithoutOne(t *testing.T) {
	var bodies []string
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		b := []byte("none")
		if r.Body != nil && r.Body != http.NoBody {
			b, _ = io.ReadAll(r.Body)
		}
		bodies = append(bodies, string(b))
		return answer(r, http.StatusServiceUnavailable, ""), nil
	}), redo.WithStore(openStore(t)), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}),
		redo.WithFingerprint(func(*http.Request, io.Reader) ([]byte, error) { return []byte("same"), nil }))
	ctx := redo.WithOperation(t.Context(), "op")
	bare, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.test/", nil)
	require.NoError(t, err)
	fail(t, client, bare)
	fail(t, client, post(t, ctx, "http://api.test/", payment))
	require.Equal(t, []string{"none", "none"}, bodies)
}

type failingBody struct{ err error }

func (b failingBody) Read([]byte) (int, error) { return 0, b.err }

func TestADuplicateIsAppliedForCallToo(t *testing.T) {
	fault := servertest.Status(http.StatusConflict).With(servertest.Field("Error-Code", string(taxonomy.Duplicate)))
	srv, st := servertest.NewInMemory(t, servertest.ScriptNext(fault)), openStore(t)
	client := connect(t, srv.Transport(), redo.WithStore(st))
	for range 2 {
		_, err := redo.Call[receipt](redo.WithOperation(t.Context(), "op"), client, "POST", srv.URL, receipt{})
		e := failure(t, err)
		require.Equal(t, []any{taxonomy.Duplicate, 409, redo.Applied}, []any{e.Code, e.StatusCode, e.Effect})
	}
	require.Equal(t, store.StateComplete, record(t, st, "op").State)
	require.Len(t, srv.Requests(), 1)
}

// A server that marks each response from its records marks a mismatch too.
func TestAMarkedMismatchAfterALostResponseIsNoProofOfNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			if sent++; sent == 1 {
				return nil, io.ErrUnexpectedEOF // after the effect
			}
			return answer(r, 409, "", "Error-Code", string(taxonomy.PayloadMismatch), "Idempotency-Hit", "true"), nil
		}), redo.WithStore(openStore(t)))
		ctx := redo.WithOperation(t.Context(), "op")
		for range 2 {
			e := fail(t, client, post(t, ctx, "http://api.test/", payment))
			require.Equal(t, []any{taxonomy.PayloadMismatch, redo.EffectUnknown}, []any{e.Code, e.Effect})
			require.Len(t, pending(t, client), 1)
		}
		require.Equal(t, 2, sent, "nothing is sent anew")
	})
}

func TestADuplicateIsCompleteAppliedAndKept(t *testing.T) {
	for name, c := range map[string]struct {
		code   taxonomy.Code
		effect redo.Effect
		state  store.State
	}{
		"a duplicate":            {taxonomy.Duplicate, redo.Applied, store.StateComplete},
		"the twin: a validation": {"VALIDATION.amount", redo.NotApplied, store.StateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fault := servertest.Status(http.StatusConflict).With(servertest.Field("Error-Code", string(c.code)))
				srv, st := servertest.NewInMemory(t, servertest.ScriptNext(fault)), openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st))
				first := fail(t, client, named(t, srv, "op", payment))
				require.Equal(t, []any{c.code, 409, c.effect, 1},
					[]any{first.Code, first.StatusCode, first.Effect, len(first.Attempts)})
				require.False(t, redo.SafeToRetry(first))
				require.Equal(t, c.state, record(t, st, "op").State)
				op := lookUp(t, client, "op")
				require.Equal(t, []any{c.code, c.effect, 409}, []any{op.Code, op.Effect, op.StatusCode})
				if c.state != store.StateComplete {
					return
				}
				again := fail(t, connect(t, srv.Transport(), redo.WithStore(st), redo.WithServerReplay()),
					named(t, srv, "op", payment))
				require.Equal(t, []any{first.Code, 409, redo.Applied, first.Key, 0, true},
					[]any{again.Code, again.StatusCode, again.Effect, again.Key, len(again.Attempts), again.Said()})
				require.Equal(t, drain(t, first.Response), drain(t, again.Response))
				require.Len(t, srv.Requests(), 1, "it is kept: nothing is sent")
				require.Empty(t, pending(t, client))
			})
		})
	}
}

func TestRetryAtIsUnknownWithoutAWait(t *testing.T) {
	for name, c := range map[string]struct {
		hint   []servertest.Header
		jitter redo.Jitter
		status int
		want   time.Duration // from now; negative: none
	}{
		"no wait":             {nil, redo.NoDelay, 503, -1},
		"the schedule's wait": {nil, redo.ConstantDelay, 503, rest},
		"the server's wait": {[]servertest.Header{servertest.RetryAfterSeconds(7)}, redo.NoDelay, 503,
			7 * time.Second},
		"a hint of zero": {[]servertest.Header{servertest.RetryAfterSeconds(0)}, redo.NoDelay, 503, -1},
		"no retry, with any hint": {
			[]servertest.Header{servertest.RetryAfterSeconds(7)}, redo.ConstantDelay, 422, -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(c.status).With(c.hint...)))
				client := connect(t, srv.Transport(),
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1, BaseDelay: rest, Jitter: c.jitter}))
				e := fail(t, client, post(t, t.Context(), srv.URL, payment))
				if c.want < 0 {
					require.True(t, e.RetryAt.IsZero(), "%v", e.RetryAt)
					return
				}
				require.Equal(t, c.want, time.Until(e.RetryAt))
			})
		})
	}
}

// lateContext is the context of an http.Client above: its Cancel channel may close before its timer runs.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

func TestACanceledRequestIsADeadlineOnlyAtItsDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		after, deadline time.Duration
		code            taxonomy.Code
		is              error
	}{
		"at the deadline":     {time.Second, time.Second, taxonomy.CallerDeadline, context.DeadlineExceeded},
		"after the deadline":  {2 * time.Second, time.Second, taxonomy.CallerDeadline, context.DeadlineExceeded},
		"before the deadline": {time.Second, time.Minute, taxonomy.CallerCanceled, context.Canceled},
		"without a deadline":  {time.Second, 0, taxonomy.CallerCanceled, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Delay(time.Hour)))
				ctx := t.Context()
				if c.deadline > 0 {
					ctx = lateContext{ctx, time.Now().Add(c.deadline)}
				}
				req := post(t, ctx, srv.URL, payment)
				cancel := make(chan struct{})
				req.Cancel = cancel //nolint:staticcheck // http.Client.Timeout sets it
				time.AfterFunc(c.after, func() { close(cancel) })
				_, err := connect(t, srv.Transport(), redo.WithProfile(redo.RedoProfile())).Transport().RoundTrip(req)
				e := failure(t, err)
				require.Equal(t, c.code, e.Code)
				require.ErrorIs(t, e, c.is)
				require.Equal(t, c.code == taxonomy.CallerDeadline, e.Timeout())
				require.Len(t, e.Attempts, 1)
			})
		})
	}
}

func TestATimeoutOfAnHTTPClientAboveIsTheCallersDeadline(t *testing.T) {
	for name, canceled := range map[string]bool{"its Timeout": false, "the caller cancels before": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Delay(time.Hour)))
				client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
				sdk := &http.Client{Transport: client.Transport(), Timeout: time.Second}
				// http.Client drops the error itself
				ctx, report := redo.WithReport(redo.WithOperation(t.Context(), "op"))
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				want := taxonomy.CallerDeadline
				if canceled {
					want = taxonomy.CallerCanceled
					time.AfterFunc(time.Second/2, cancel)
				}
				_, err := sdk.Do(post(t, ctx, srv.URL, payment))
				require.Error(t, err)
				require.Equal(t, want, redo.CodeOf(report.Err()))
			})
		})
	}
}

func TestAWaiterStopsWhenItsRequestIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, slow(5*time.Second))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		done := make(chan error)
		go func() {
			resp, err := client.Do(named(t, srv, "op", payment))
			if err == nil {
				drain(t, resp)
			}
			done <- err
		}()
		synctest.Wait()
		req := named(t, srv, "op", payment)
		cancel := make(chan struct{})
		req.Cancel = cancel //nolint:staticcheck // http.Client.Timeout sets it
		time.AfterFunc(time.Second, func() { close(cancel) })
		start := time.Now()
		require.Equal(t, taxonomy.CallerCanceled, fail(t, client, req).Code)
		require.Equal(t, time.Second, time.Since(start))
		require.NoError(t, <-done)
	})
}

// A custom transport may leave Response.Request empty, or set another one.
func TestATransportThatLosesTheRequestKeepsKeyAndReplay(t *testing.T) {
	for name, lose := range map[string]func(*http.Response){
		"none":          func(r *http.Response) { r.Request = nil },
		"another one":   func(r *http.Response) { r.Request = &http.Request{Method: http.MethodPost} },
		"the attempt's": func(*http.Response) {}, // the twin
	} {
		t.Run(name, func(t *testing.T) {
			for _, marked := range []bool{true, false} {
				profile := redo.RedoProfile()
				profile.ReplayMarkers = []string{"X-Seen"}
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					resp := answer(r, 201, "rf_1")
					if marked {
						resp.Header.Set("X-Seen", "true")
					}
					lose(resp)
					return resp, nil
				}), redo.WithProfile(profile))
				resp, _ := succeed(t, client, post(t, redo.WithKey(t.Context(), "k1"), "http://api.test/", payment))
				require.Equal(t, "k1", redo.KeyOf(resp))
				require.Equal(t, marked, redo.Replayed(resp), "by the profile's own marker")
			}
		})
	}
}

package redo_test

import (
	"errors"
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

// stored is the mark of the server's record of the key: the response is final.
var stored = servertest.Field("Idempotency-Status", "stored")

// coded is a 409 with an error code.
func coded(code taxonomy.Code) servertest.Fault {
	return servertest.Status(409).With(servertest.Field("Error-Code", string(code)))
}

func TestPendingOperationKeepsItsKey(t *testing.T) {
	down, hang := servertest.Status(503), servertest.Delay(time.Hour)
	for _, c := range []struct {
		name  string
		fault []servertest.Fault
	}{
		{"after the attempts are used up", []servertest.Fault{down, down}},
		{
			"after a reset that followed the effect",
			[]servertest.Fault{servertest.ResetAfterEffect(), servertest.CloseAfterEffect()},
		},
		{
			"after a reset that came before it",
			[]servertest.Fault{servertest.ResetBeforeRead(), servertest.ResetBeforeRead()},
		},
		{"after timeouts", []servertest.Fault{hang, hang}},
		{
			"after a gateway's error that followed the effect",
			[]servertest.Fault{servertest.StatusAfterEffect(502), servertest.StatusAfterEffect(504)},
		},
		{
			"after a rate limit",
			[]servertest.Fault{servertest.RateLimited(), servertest.RateLimited(servertest.RetryAfterSeconds(3600))},
		},
		{"while another attempt is in flight", []servertest.Fault{servertest.InFlight(0), servertest.InFlight(0)}},
		{"after a 500", []servertest.Fault{servertest.Status(500), servertest.Status(500)}},
		{"after a body that broke off", []servertest.Fault{servertest.TruncatedBody(3), servertest.TruncatedBody(0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.fault...))
				st := openStore(t)
				policy := redo.WithRetry(redo.RetryPolicy{
					MaxAttempts: 2, AttemptTimeout: time.Second, BaseDelay: rest, Jitter: redo.ConstantDelay,
				})
				e := fail(t, connect(t, srv.Transport(), redo.WithStore(st), policy), named(t, srv, "op", payment))
				require.True(t, redo.SafeToRetry(e))
				require.Len(t, e.Attempts, 2)
				require.Equal(t, store.StatePending, record(t, st, "op").State)

				after := connect(t, srv.Transport(), redo.WithStore(st), policy) // a restart
				resp, _ := succeed(t, after, named(t, srv, "op", payment))
				require.Equal(t, e.Key, redo.KeyOf(resp))
				require.Equal(t, []string{e.Key, e.Key, e.Key}, keys(srv))
				srv.Ledger().AssertEffects(t, e.Key, 1)
				require.Empty(t, pending(t, after))
			})
		})
	}
}

func TestFailedOperationStartsAnewWithANewKey(t *testing.T) {
	for _, c := range []struct {
		name      string
		corrected string
	}{
		{"with a corrected payload", `{"amount":10}`},
		{"with the same payload", payment},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(422)))
				st := openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st))
				e := fail(t, client, named(t, srv, "op", payment))
				require.Equal(t, taxonomy.Unprocessable, e.Code)
				require.Equal(t, redo.NotApplied, e.Effect)
				require.False(t, redo.SafeToRetry(e))
				require.Equal(t, store.StateFailed, record(t, st, "op").State)
				require.Empty(t, pending(t, client))

				resp, _ := succeed(t, client, named(t, srv, "op", c.corrected))
				require.NotEqual(t, e.Key, redo.KeyOf(resp))
				srv.Ledger().AssertEffects(t, e.Key, 0)
				srv.Ledger().AssertEffects(t, redo.KeyOf(resp), 1)
			})
		})
	}
}

func TestAnotherPayloadFailsLocallyAndSendsNothing(t *testing.T) {
	for _, settled := range []bool{false, true} {
		name := map[bool]string{false: "while pending", true: "when complete"}[settled]
		for _, c := range []struct {
			name string
			req  func(*testing.T, *servertest.Server) *http.Request
		}{
			{
				"other body",
				func(t *testing.T, s *servertest.Server) *http.Request { return named(t, s, "op", `{"amount":1}`) },
			},
			{"other path", func(t *testing.T, s *servertest.Server) *http.Request {
				return post(t, redo.WithOperation(t.Context(), "op"), s.URL+"/voids", payment)
			}},
			{"other query", func(t *testing.T, s *servertest.Server) *http.Request {
				return post(t, redo.WithOperation(t.Context(), "op"), s.URL+"/refunds?n=2", payment)
			}},
			{"other server", func(t *testing.T, _ *servertest.Server) *http.Request {
				return post(t, redo.WithOperation(t.Context(), "op"), "http://other.test/refunds", payment)
			}},
			{"other method", func(t *testing.T, s *servertest.Server) *http.Request {
				req := named(t, s, "op", payment)
				req.Method = http.MethodPatch
				return req
			}},
		} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fault := servertest.Status(503)
					if settled {
						fault = servertest.OK()
					}
					srv := servertest.NewInMemory(t, servertest.ScriptNext(fault))
					st := openStore(t)
					client := connect(t, srv.Transport(), redo.WithStore(st),
						redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
					resp, err := client.Do(named(t, srv, "op", payment))
					if settled {
						require.NoError(t, err)
						drain(t, resp)
					}
					before := record(t, st, "op")
					e := fail(t, client, c.req(t, srv))
					require.Equal(t, taxonomy.PayloadMismatch, e.Code)
					require.Equal(t, redo.NotApplied, e.Effect)
					require.Equal(t, srv.Requests()[0].Key, e.Key, "the error names the key that the operation has")
					require.False(t, redo.SafeToRetry(e))
					require.Empty(t, e.Attempts)
					require.Len(t, srv.Requests(), 1)
					after := record(t, st, "op")
					before.ReadAt, after.ReadAt = time.Time{}, time.Time{}
					require.Equal(t, before, after)
				})
			})
		}
	}
}

func TestFinalAnswerThatLeavesTheEffectUnknownIsKeptUntilForget(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault servertest.Fault
		code  taxonomy.Code
	}{
		{
			"a replayed 500", servertest.Status(500).With(servertest.Field("Idempotent-Replayed", "true")),
			taxonomy.Internal,
		},
		{"a stored 503", servertest.Status(503).With(stored), taxonomy.Unavailable},
		{"a first request that ended without an outcome", coded(taxonomy.OutcomeUnknown), taxonomy.OutcomeUnknown},
		{"a key that is older than the server's retention", coded(taxonomy.KeyExpired), taxonomy.KeyExpired},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.fault))
				st := openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st))
				first := fail(t, client, named(t, srv, "op", payment))
				require.Equal(t, c.code, first.Code)
				require.Equal(t, redo.EffectUnknown, first.Effect)
				require.False(t, redo.SafeToRetry(first))
				require.Len(t, first.Attempts, 1, "the server will say nothing else for that key")

				again := fail(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
				require.Equal(t, []any{first.Code, first.StatusCode, first.Effect, first.Key, first.Said()},
					[]any{again.Code, again.StatusCode, again.Effect, again.Key, again.Said()})
				require.Equal(t, drain(t, first.Response), drain(t, again.Response))
				require.Empty(t, again.Attempts)
				require.False(t, redo.SafeToRetry(again))
				require.Len(t, srv.Requests(), 1, "nothing was sent")

				require.NoError(t, client.Forget(t.Context(), "op"))
				resp, _ := succeed(t, client, named(t, srv, "op", payment))
				require.NotEqual(t, first.Key, redo.KeyOf(resp), "after Forget the operation starts anew")
			})
		})
	}
}

func TestErrorBodyOverTheCapIsNotKeptInPart(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		opts []redo.Option
		kept bool
	}{
		{"at the cap", 64, []redo.Option{redo.WithMaxStoredBody(64)}, true},
		{"over the cap", 65, []redo.Option{redo.WithMaxStoredBody(64)}, false},
		{"beyond the part that is read of an error", 64 << 10, []redo.Option{redo.WithMaxStoredBody(256 << 10)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				page := strings.Repeat("x", c.size)
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					return answer(r, 500, page, "Idempotency-Status", "stored"), nil
				}), append(c.opts, redo.WithStore(openStore(t)))...)
				req := func() *http.Request {
					return post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment)
				}
				require.Equal(t, page, drain(t, fail(t, client, req()).Response))
				again := drain(t, fail(t, client, req()).Response)
				require.Equal(t, c.kept, again == page)
				require.Equal(t, c.kept, again != "", "all of it, or nothing")
			})
		})
	}
}

func TestKeyThatTheServerMayHaveForgottenIsNotResent(t *testing.T) {
	short := redo.RedoProfile()
	short.Retention = 4 * time.Hour // the margin is an eighth of it: half an hour
	for _, c := range []struct {
		name    string
		profile redo.Profile
		age     time.Duration
		sent    bool
	}{
		{"24 hours less a margin of one hour", redo.RedoProfile(), 23*time.Hour - time.Nanosecond, true},
		{"at the margin", redo.RedoProfile(), 23 * time.Hour, false},
		{"long after", redo.RedoProfile(), 1000 * time.Hour, false},
		{"a short retention has a short margin", short, 3*time.Hour + 30*time.Minute - time.Nanosecond, true},
		{"at the short margin", short, 3*time.Hour + 30*time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				st := openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProfile(c.profile),
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
				e := fail(t, client, named(t, srv, "op", payment))
				start := record(t, st, "op").CreatedAt
				time.Sleep(time.Until(start.Add(c.age)))
				if c.sent {
					succeed(t, client, named(t, srv, "op", payment))
					srv.Ledger().AssertEffects(t, e.Key, 1)
					return
				}
				for range 2 {
					late := fail(t, client, named(t, srv, "op", payment))
					require.Equal(t, taxonomy.KeyExpired, late.Code)
					require.Equal(t, redo.EffectUnknown, late.Effect)
					require.Equal(t, e.Key, late.Key)
					require.False(t, redo.SafeToRetry(late))
					require.Empty(t, late.Attempts)
				}
				require.Len(t, srv.Requests(), 1)
				require.Len(t, pending(t, client), 1, "the caller reconciles: it is not lost")
			})
		})
	}
}

func TestEffectIsFoldedOverAllAttempts(t *testing.T) {
	lost, refused := servertest.ResetAfterEffect(), servertest.RateLimited()
	for _, c := range []struct {
		name   string
		faults []servertest.Fault
		code   taxonomy.Code
		effect redo.Effect
		state  store.State
	}{
		{
			"401 alone was not applied, and waits for a fresh token", []servertest.Fault{servertest.Status(401)},
			taxonomy.Unauthenticated, redo.NotApplied, store.StatePending,
		},
		{
			"401 that the server keeps for the key", []servertest.Fault{servertest.Status(401).With(stored)},
			taxonomy.Unauthenticated, redo.NotApplied, store.StateFailed,
		},
		{
			"401 after a lost response proves nothing", []servertest.Fault{lost, servertest.Status(401)},
			taxonomy.Unauthenticated, redo.EffectUnknown, store.StatePending,
		},
		{
			"422 after a lost response, from in front of the record", []servertest.Fault{lost, servertest.Status(422)},
			taxonomy.Unprocessable, redo.EffectUnknown, store.StatePending,
		},
		{
			"422 after a lost response, from the record",
			[]servertest.Fault{servertest.ResetBeforeRead(), servertest.Status(422).With(stored)},
			taxonomy.Unprocessable, redo.NotApplied, store.StateFailed,
		},
		{
			"404 after a rate limit was not applied", []servertest.Fault{refused, servertest.Status(404)},
			taxonomy.NotFound, redo.NotApplied, store.StateFailed,
		},
		{
			"a rate limit after a lost response", []servertest.Fault{lost, refused, refused, refused, refused},
			taxonomy.RateLimited, redo.EffectUnknown, store.StatePending,
		},
		{
			"rate limits alone were not applied, and stay pending",
			[]servertest.Fault{refused, refused, refused, refused, refused}, taxonomy.RateLimited, redo.NotApplied,
			store.StatePending,
		},
		{
			"412 is terminal", []servertest.Fault{servertest.Status(412)}, taxonomy.Precondition, redo.NotApplied,
			store.StateFailed,
		},
		{
			"501 is configuration", []servertest.Fault{servertest.Status(501)}, taxonomy.NotImplemented,
			redo.NotApplied, store.StateFailed,
		},
		{
			"a result that the server did not keep was applied",
			[]servertest.Fault{coded(taxonomy.ResultNotStored)},
			taxonomy.ResultNotStored, redo.Applied, store.StateComplete,
		},
		{
			"a provider's duplicate was applied",
			[]servertest.Fault{coded(taxonomy.Duplicate)},
			taxonomy.Duplicate, redo.Applied, store.StateComplete,
		},
		{
			"a mismatch that the server found",
			[]servertest.Fault{coded(taxonomy.PayloadMismatch)},
			taxonomy.PayloadMismatch, redo.NotApplied, store.StateFailed,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.faults...))
				st := openStore(t)
				e := fail(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
				require.Equal(t, c.code, e.Code)
				require.Equal(t, c.effect, e.Effect)
				require.Equal(t, c.state, record(t, st, "op").State)
				require.Len(t, e.Attempts, len(c.faults))
			})
		})
	}
}

func TestRefusalAfterARestartSaysNothingOfTheEarlierCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect(), servertest.Status(403)))
		st := openStore(t)
		once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})
		e := fail(t, connect(t, srv.Transport(), redo.WithStore(st), once), named(t, srv, "op", payment))
		after := connect(t, srv.Transport(), redo.WithStore(st), once)
		forbidden := fail(t, after, named(t, srv, "op", payment))
		require.Equal(t, taxonomy.Forbidden, forbidden.Code)
		require.Equal(t, redo.EffectUnknown, forbidden.Effect)
		resp, _ := succeed(t, after, named(t, srv, "op", payment))
		require.Equal(t, e.Key, redo.KeyOf(resp))
		srv.Ledger().AssertEffects(t, e.Key, 1)
	})
}

func TestRefusedConnectionLeavesTheOperationPendingAndNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		srv.Close()
		client := connect(t, srv.Transport(), redo.WithStore(st))
		e := fail(t, client, named(t, srv, "op", payment))
		require.Equal(t, taxonomy.Unavailable, e.Code)
		require.Equal(t, redo.NotApplied, e.Effect)
		require.True(t, redo.SafeToRetry(e))
		require.Equal(t, store.StatePending, record(t, st, "op").State)
	})
}

func TestForget(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault servertest.Fault
	}{
		{"a pending operation", servertest.Status(503)},
		{"a complete operation", servertest.OK()},
		{"a failed operation", servertest.Status(422)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.fault))
				st := openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st),
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
				if resp, err := client.Do(named(t, srv, "op", payment)); err == nil {
					drain(t, resp)
				}
				require.NoError(t, client.Forget(t.Context(), "op"))
				requireAbsent(t, st, "op")
				require.ErrorIs(t, client.Forget(t.Context(), "op"), store.ErrNotFound)
				resp, _ := succeed(t, client, named(t, srv, "op", `{"amount":2}`))
				require.NotEqual(t, srv.Requests()[0].Key, redo.KeyOf(resp))
			})
		})
	}
	t.Run("an operation that can't be forgotten is an error", func(t *testing.T) {
		st := &faultyStore{Store: openStore(t)}
		ok := tripper(func(r *http.Request) (*http.Response, error) { return answer(r, 201, "{}"), nil })
		client := connect(t, ok, redo.WithStore(st))
		succeed(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
		down := errors.New("disk full")
		st.set(nil, nil, down)
		require.ErrorIs(t, client.Forget(t.Context(), "op"), down)
		require.ErrorIs(t, client.Forget(t.Context(), "never called"), store.ErrNotFound)
		require.Error(t, client.Forget(t.Context(), ""))
		require.Error(t, connect(t, ok).Forget(t.Context(), "op"), "there is no store")
		require.NoError(t, client.Close())
		require.ErrorIs(t, client.Forget(t.Context(), "op"), redo.ErrClosed)
	})
}

func TestFailedOperationThatCannotBeForgottenSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(422)))
		st := &faultyStore{Store: openStore(t)}
		client := connect(t, srv.Transport(), redo.WithStore(st))
		fail(t, client, named(t, srv, "op", payment))
		st.set(nil, nil, store.ErrUnavailable)
		e := fail(t, client, named(t, srv, "op", `{"amount":2}`))
		require.Equal(t, taxonomy.Unavailable, e.Code)
		require.ErrorContains(t, e, "starting a failed operation anew")
		require.Len(t, srv.Requests(), 1)
		// Another caller made room first: the client reads the record again, and not for ever.
		st.set(nil, nil, store.ErrLost)
		e = fail(t, client, named(t, srv, "op", `{"amount":2}`))
		require.Equal(t, taxonomy.Unavailable, e.Code)
		require.Len(t, srv.Requests(), 1)
		require.Equal(t, store.StateFailed, record(t, st, "op").State)
	})
}

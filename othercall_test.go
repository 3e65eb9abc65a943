package redo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// One failed call often cancels the others, with its error as the cause: errgroup.WithContext does so. A claim in that
// error is about the failed call and not about those that it cancels.
func TestTheErrorOfTheCallThatCancelsIsNoClaimAboutThisOne(t *testing.T) {
	for name, refuse := range map[string]func(t *testing.T, srv *servertest.Server) error{
		"a redirect that is not followed": func(t *testing.T, _ *servertest.Server) error {
			away := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				return answer(r, 307, "", "Location", "https://elsewhere.test/"), nil
			}))
			return fail(t, away, post(t, redo.WithKey(t.Context(), "k"), "https://bank.test/", payment))
		},
		"a limiter": func(t *testing.T, srv *servertest.Server) error {
			full := connect(t, srv.Transport(), redo.WithLimiter(limiterFunc(func(context.Context) error {
				return errors.New("full")
			})))
			return fail(t, full, post(t, t.Context(), srv.URL, payment))
		},
		"a response that is too large": func(t *testing.T, _ *servertest.Server) error {
			large := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				return answer(r, 200, `"long"`), nil
			}), redo.WithMaxResponse(1))
			_, err := redo.Call[any](t.Context(), large, "POST", "https://bank.test/", nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.DelayAfterEffect(time.Hour)))
				client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
				other := refuse(t, srv)
				require.Error(t, other)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(other) })
				e := fail(t, client, post(t, redo.WithOperation(ctx, "op"), srv.URL+"/refunds", payment))
				require.ErrorIs(t, e, taxonomy.CallerCanceled)
				require.NotErrorIs(t, e, redo.CodeOf(other))
				require.ErrorIs(t, e, context.Canceled)
				require.ErrorContains(t, e, other.Error())
				require.Equal(t, redo.EffectUnknown, e.Effect)
				op, err := client.Find(t.Context(), "op")
				require.NoError(t, err)
				require.Equal(t, store.StatePending, op.State)
				succeed(t, client, named(t, srv, "op", payment))
				require.Len(t, srv.Requests(), 2)
				require.Equal(t, keys(srv)[0], keys(srv)[1])
				srv.Ledger().AssertEffects(t, e.Key, 1)
			})
		})
	}
}

type limiterFunc func(context.Context) error

func (f limiterFunc) Wait(ctx context.Context) error { return f(ctx) }

// A client may be the transport of another one. What the inner one refuses is no refusal of the outer one: an attempt
// of the inner one before may have been applied.
func TestARefusalOfAnInnerClientIsNoneOfTheOuterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptEach(servertest.ResetAfterEffect()))
		calls := 0
		inner := connect(t, srv.Transport(), redo.WithKeys(redo.TimeOrderedKeys),
			redo.WithLimiter(limiterFunc(func(context.Context) error {
				if calls++; calls == 2 {
					return errors.New("full")
				}
				return nil
			})))
		outer := connect(t, inner.Transport(), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
		e := fail(t, outer, post(t, t.Context(), srv.URL, payment))
		require.Len(t, srv.Requests(), 1)
		require.Equal(t, redo.EffectUnknown, e.Effect)
	})
}

// A refusal in front of the server's record claims nothing about another call, which took the operation over and was
// applied.
func TestAContradictedRefusalLeavesTheEffectUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		first := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return answer(r, 400, "a gateway's"), nil
		}), redo.WithStore(st))
		second := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			return answer(r, 500, "", "Idempotency-Status", "stored"), nil
		}), redo.WithStore(st), redo.WithProbe(func(context.Context, redo.Operation) (redo.Finding, error) {
			return redo.Finding{Effect: redo.Applied, Evidence: "GET /payments/1"}, nil
		}))
		request := func() *http.Request {
			return post(t, redo.WithOperation(t.Context(), "op"), "https://bank.test/pay", payment)
		}
		time.AfterFunc(time.Millisecond, func() { _ = fail(t, second, request()) })
		e := fail(t, first, request())
		require.ErrorIs(t, e, redo.ErrContradiction)
		require.Equal(t, redo.EffectUnknown, e.Effect)
	})
}

// The last attempt that a key's age allows may still be under way when the first probe is due. A probe that then finds
// nothing would give the operation a second key.
func TestNoProbeWhileTheLastAttemptMayBeUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		effects := map[string]bool{}
		sent := 0
		bank := tripper(func(r *http.Request) (*http.Response, error) {
			if sent++; sent == 1 {
				return nil, io.EOF // nothing was applied
			}
			time.Sleep(8 * time.Second)
			effects[r.Header.Get("Idempotency-Key")] = true
			return nil, io.EOF
		})
		probes := 0
		process := func() *redo.Client {
			return connect(t, bank, redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}),
				redo.WithProbe(func(context.Context, redo.Operation) (redo.Finding, error) {
					probes++
					if len(effects) > 0 {
						return redo.Finding{Effect: redo.Applied, Evidence: "GET /payments/1"}, nil
					}
					return redo.Finding{Effect: redo.NotApplied, Evidence: "GET /payments/1"}, nil
				}))
		}
		request := func() *http.Request {
			return post(t, redo.WithOperation(t.Context(), "op"), "https://bank.test/pay", payment)
		}
		fail(t, process(), request())
		time.Sleep(23*time.Hour - 5*time.Second)
		done := make(chan error)
		go func() {
			resp, err := process().Do(request())
			if err == nil {
				err = resp.Body.Close()
			}
			done <- err
		}()
		time.Sleep(6 * time.Second)
		e := fail(t, process(), request())
		require.ErrorIs(t, e, taxonomy.KeyExpired)
		require.Zero(t, probes)
		require.Error(t, <-done)
		time.Sleep(time.Until(e.RetryAt))
		fail(t, process(), request())
		require.Equal(t, 1, probes)
		require.Len(t, effects, 1)
	})
}

// Calls under way continue when the client is closed.
func TestAClosedClientStillSeesAContradiction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		operator := connect(t, unused(), redo.WithStore(st))
		var client *redo.Client
		client = connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			require.NoError(t, operator.Settle(t.Context(), "op", notAppliedBy("ana")))
			require.NoError(t, client.Close())
			return answer(r, 200, ""), nil
		}), redo.WithStore(st))
		e := fail(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
		require.ErrorIs(t, e, redo.ErrContradiction)
	})
}

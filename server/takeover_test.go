package server_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// seeing is a Recover policy that records the checkpoints that it gets. find returns the handler.
func seeing(metas *[]string, find func(ctx context.Context) http.Handler) server.Option {
	return server.TakeOver(server.Recover(
		func(ctx context.Context, _ *http.Request, _ string, meta []byte) (http.Handler, error) {
			*metas = append(*metas, string(meta))
			return find(ctx), nil
		}))
}

// A second owner that reports the effect must leave the first one's checkpoint: Recover finds the effect by it.
func TestAppliedAfterATakeOverLeavesTheCheckpoint(t *testing.T) {
	for rule, find := range map[string]func(context.Context) http.Handler{
		"in the function given to Recover": func(ctx context.Context) http.Handler {
			applied(ctx)
			panic("dies")
		},
		"in the handler that it returns": func(context.Context) http.Handler {
			return after(applied, func(http.ResponseWriter, *http.Request) { panic("dies") })
		},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, metas := memstore.New(), []string(nil)
				diesAfter(t, mem, func(_ http.ResponseWriter, r *http.Request) {
					require.NoError(t, server.Checkpoint(r.Context(), []byte("pay_1")))
				})
				st := newFaultsOver(mem)
				st.on = func(method string, _ int, do func() error) error {
					if method == "Complete" {
						return context.DeadlineExceeded // the process dies
					}
					return do()
				}
				g := newRig(t, st, nil, seeing(&metas, find))
				require.Panics(t, func() { g.do() })
				g.shutdown()
				time.Sleep(server.DefaultLeaseTTL)
				g = newRig(t, mem, nil, seeing(&metas, func(context.Context) http.Handler { return answer(200, "found") }))
				requireStored(t, g.do(), 200, "found")
				require.Equal(t, []string{"pay_1", "pay_1"}, metas)
			})
		})
	}
}

func TestARefusalThatPanicsLeavesTheMarkOfApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		diesAfter(t, mem, func(_ http.ResponseWriter, r *http.Request) { applied(r.Context()) })
		g := newRig(t, mem, nil, server.Refusal(func(http.ResponseWriter, *http.Request, server.Problem) { panic("x") }))
		require.Panics(t, func() { g.do() })
		g = newRig(t, mem, nil)
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
		require.Zero(t, g.ran())
	})
}

// A dead owner may have made its effect. A second owner that does not know leaves that to the third.
func TestATakeOverWithoutAnOutcomeIsNotForgotten(t *testing.T) {
	ends := map[string]http.HandlerFunc{
		"a 503":                           answer(503, "x"),
		"a 401":                           answer(401, "x"),
		"a 503 that is too large to hold": answer(503, "too large"),
		"a timeout":                       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a panic":                         func(http.ResponseWriter, *http.Request) { panic("x") },
	}
	try := func(g *rig) {
		defer func() { _ = recover() }()
		g.do()
	}
	for rule, end := range ends {
		t.Run(rule+" leaves TakenOver and the checkpoint", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, seen := memstore.New(), []bool(nil)
				diesAfter(t, mem, func(_ http.ResponseWriter, r *http.Request) {
					require.NoError(t, server.Checkpoint(r.Context(), []byte("pay_1")))
				})
				g := newRig(t, mem, func(w http.ResponseWriter, r *http.Request) {
					seen = append(seen, server.TakenOver(r.Context()))
					end(w, r)
				}, server.MaxResponse(3))
				try(g)
				try(g)
				require.Equal(t, []bool{true, true}, seen)
				var metas []string
				g = newRig(t, mem, nil, seeing(&metas, func(context.Context) http.Handler { return answer(200, "") }))
				requireStored(t, g.do(), 200, "")
				require.Equal(t, []string{"pay_1"}, metas)
			})
		})
		t.Run(rule+" of Recover's handler leaves Applied", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, metas := memstore.New(), []string(nil)
				diesAfter(t, mem, func(_ http.ResponseWriter, r *http.Request) { applied(r.Context()) })
				g := newRig(t, mem, nil, seeing(&metas, func(context.Context) http.Handler { return end }),
					server.MaxResponse(3))
				try(g)
				try(g)
				require.Len(t, metas, 2)
				require.Zero(t, g.ran())
			})
		})
		t.Run(rule+" after Release forgets it", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, seen := memstore.New(), []bool(nil)
				diesAfter(t, mem, func(http.ResponseWriter, *http.Request) {})
				g := newRig(t, mem, after(server.Release, func(w http.ResponseWriter, r *http.Request) {
					seen = append(seen, server.TakenOver(r.Context()))
					end(w, r)
				}))
				try(g)
				try(g)
				require.Equal(t, []bool{true, false}, seen)
			})
		})
	}
}

package redo_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// A deafStore can neither be written nor be read.
type deafStore struct{ store.Store }

func (deafStore) Reserve(context.Context, store.Claim) (store.Grant, error) {
	return store.Grant{}, store.ErrUnavailable
}

func (deafStore) Find(context.Context, store.ID) (store.Record, error) {
	return store.Record{}, store.ErrUnavailable
}

func TestAnOperationThatWasNeverSentIsNotApplied(t *testing.T) {
	lost := servertest.ResetAfterEffect()
	for _, c := range []struct {
		name    string
		earlier []servertest.Fault // of an earlier call; none: there was none
		before  func(*faultyStore, context.CancelFunc) store.Store
		given   bool
		code    taxonomy.Code
		effect  redo.Effect
	}{
		{"the store refuses to write", nil, refusesToWrite, false, taxonomy.Unavailable, redo.NotApplied},
		{"the store refuses to write, after a lost response", []servertest.Fault{lost}, refusesToWrite, false,
			taxonomy.Unavailable, redo.EffectUnknown},
		{"the store refuses to write, after a rate limit", []servertest.Fault{servertest.RateLimited()}, refusesToWrite,
			false, taxonomy.Unavailable, redo.NotApplied},
		{"the store refuses to write, after a success", []servertest.Fault{servertest.OK()}, refusesToWrite, false,
			taxonomy.Unavailable, redo.Applied},
		{"the store can't be read", nil, cannotBeRead, false, taxonomy.Unavailable, redo.EffectUnknown},
		{"the context has ended", nil, contextEnded, false, taxonomy.CallerCanceled, redo.NotApplied},
		{"the context has ended, after a lost response", []servertest.Fault{lost}, contextEnded, false,
			taxonomy.CallerCanceled, redo.EffectUnknown},
		{"the key was given, and may have been sent from elsewhere", nil, refusesToWrite, true, taxonomy.Unavailable,
			redo.EffectUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t)
				if c.earlier != nil {
					srv = servertest.NewInMemory(t, servertest.ScriptNext(c.earlier...))
				}
				st := &faultyStore{Store: openStore(t)}
				if c.earlier != nil {
					earlier := connect(t, srv.Transport(), redo.WithStore(st),
						redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
					if resp, err := earlier.Do(named(t, srv, "op", payment)); err == nil {
						drain(t, resp)
					}
				}
				ctx, cancel := context.WithCancel(redo.WithOperation(t.Context(), "op"))
				defer cancel()
				if c.given {
					ctx = redo.WithKey(ctx, "k1")
				}
				client := connect(t, srv.Transport(), redo.WithStore(c.before(st, cancel)))
				e := fail(t, client, post(t, ctx, srv.URL+"/refunds", payment))
				require.Equal(t, []any{c.code, c.effect, 0}, []any{e.Code, e.Effect, len(e.Attempts)})
				require.True(t, redo.SafeToRetry(e))
				require.Len(t, srv.Requests(), len(c.earlier), "nothing was sent")
			})
		})
	}
}

// "Not applied" needs certainty (contract, section 2). A store that can't be read hides whether an earlier call sent
// the operation, so a call that sent nothing itself must not claim it. Both sides are shown on the same operation.
func TestAStoreThatCannotBeReadLeavesTheEffectUnknown(t *testing.T) {
	for _, sent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t)
			st := &faultyStore{Store: openStore(t)}
			if sent {
				srv = servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})
				fail(t, connect(t, srv.Transport(), redo.WithStore(st), once), named(t, srv, "op", payment))
			}
			e := fail(t, connect(t, srv.Transport(), redo.WithStore(deafStore{st})), named(t, srv, "op", payment))
			require.Equal(t, redo.EffectUnknown, e.Effect, "the client can't tell the two apart")
			require.True(t, redo.SafeToRetry(e))

			st.set(store.ErrUnavailable, nil, nil)
			e = fail(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
			want := redo.NotApplied
			if sent {
				want = redo.EffectUnknown
			}
			require.Equal(t, want, e.Effect, "the twin: a store that can be read shows it")
		})
	}
}

// A Reserve whose response was lost is settled by the claim's owner: the call goes on, under the key that is recorded.
func TestAClaimWhoseResponseWasLostGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		lossy := &lossyReserve{Store: st, lost: 1}
		resp, _ := succeed(t, connect(t, srv.Transport(), redo.WithStore(lossy)), named(t, srv, "op", payment))
		require.Len(t, srv.Requests(), 1)
		require.Contains(t, string(record(t, st, "op").Meta), redo.KeyOf(resp))
	})
}

// A lossyReserve makes a claim and loses the response, as often as lost counts.
type lossyReserve struct {
	store.Store
	lost int
}

func (s *lossyReserve) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	grant, err := s.Store.Reserve(ctx, c)
	if s.lost--; s.lost >= 0 {
		return store.Grant{}, store.ErrUnknown
	}
	return grant, err
}

func TestARequestThatMustNotBeStoredIsNot(t *testing.T) {
	srv, st := servertest.NewInMemory(t), openStore(t)
	ctx := redo.WithKey(redo.WithOperation(t.Context(), "op"), "k1")
	succeed(t, connect(t, srv.Transport(), redo.WithStore(st), redo.WithoutStoredRequests()),
		post(t, ctx, srv.URL, payment))
	require.JSONEq(t, `{"v":1,"key":"k1","body":null,"whole":false}`, string(record(t, st, "op").Meta))
}

func refusesToWrite(st *faultyStore, _ context.CancelFunc) store.Store {
	st.set(store.ErrUnavailable, nil, nil)
	return st
}

func cannotBeRead(st *faultyStore, _ context.CancelFunc) store.Store { return deafStore{st} }

func contextEnded(st *faultyStore, cancel context.CancelFunc) store.Store {
	cancel()
	return st
}

func TestADamagedRecordDoesNotHideTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptEach(servertest.Status(503)))
		st := openStore(t)
		for _, name := range []string{"a", "b", "c", "d"} {
			crash(t, srv, st, named(t, srv, name, payment))
		}
		for name, meta := range map[string]string{"b": "garbage", "c": `{"v":7,"key":"k"}`} {
			rec := record(t, st, name)
			require.NoError(t, st.Extend(t.Context(), rec.Lease(), 0, []byte(meta)))
		}
		client := connect(t, srv.Transport(), redo.WithStore(st))
		got := map[string]bool{}
		for op, err := range client.Pending(t.Context()) {
			got[op.Name] = err == nil
			if err != nil {
				require.ErrorContains(t, err, fmt.Sprintf("%q", op.Name))
				_, resumed := client.Resume(t.Context(), op)
				require.Equal(t, taxonomy.InvalidOperation, failure(t, resumed).Code)
			}
		}
		require.Equal(t, map[string]bool{"a": true, "b": false, "c": false, "d": true}, got)
		require.Len(t, srv.Requests(), 4)

		// A call of the damaged operation sends nothing either: its key is not known.
		e := fail(t, client, named(t, srv, "b", payment))
		require.Equal(t, []any{taxonomy.Unavailable, redo.EffectUnknown}, []any{e.Code, e.Effect})
		require.Len(t, srv.Requests(), 4)
	})
}

// A store itself may name a record that it can't read.
func TestARecordThatTheStoreCannotReadIsNamed(t *testing.T) {
	srv, st := servertest.NewInMemory(t, servertest.ScriptEach(servertest.Status(503))), openStore(t)
	crash(t, srv, st, named(t, srv, "a", payment))
	client := connect(t, srv.Transport(), redo.WithStore(&brokenLister{Store: st}))
	var got []string
	for op, err := range client.Pending(t.Context()) {
		got = append(got, op.Name)
		if op.Name != "a" {
			require.ErrorIs(t, err, store.ErrDamaged)
			require.ErrorContains(t, err, `"z"`)
		}
	}
	require.Equal(t, []string{"z", "a"}, got)
}

type brokenLister struct{ *memstore.Store }

func (s *brokenLister) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if !yield(store.Record{ID: store.ID{Scope: scope, Key: "z"}}, store.ErrDamaged) {
			return
		}
		s.Store.Pending(ctx, scope)(yield)
	}
}

func TestANameWithoutAnyEffectIsAnErrorThatNamesTheWays(t *testing.T) {
	srv := servertest.NewInMemory(t)
	named := func(ctx context.Context) *http.Request {
		return post(t, redo.WithOperation(ctx, "op"), srv.URL+"/refunds", payment)
	}
	for name, opts := range map[string][]redo.Option{"by default": nil,
		"with random keys": {redo.WithKeys(redo.RandomKeys)}} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, srv.Transport(), opts...)
			_, sdk := client.Transport().RoundTrip(named(t.Context()))
			_, do := client.Do(named(t.Context()))
			for _, err := range []error{do, sdk} {
				e := failure(t, err)
				require.Equal(t, []any{taxonomy.InvalidOperation, redo.NotApplied}, []any{e.Code, e.Effect})
				for _, way := range []string{"WithStore", "DerivedKeys", "WithKey"} {
					require.ErrorContains(t, err, way)
				}
			}
			require.Empty(t, srv.Requests())
		})
	}
	for name, c := range map[string]struct {
		ctx context.Context
		opt redo.Option
	}{
		"a store":      {t.Context(), redo.WithStore(openStore(t))},
		"derived keys": {t.Context(), redo.WithKeys(redo.DerivedKeys("test"))},
		"a given key":  {redo.WithKey(t.Context(), "k1"), redo.WithScope("s")},
	} {
		t.Run(name+" gives the name its effect", func(t *testing.T) {
			client := connect(t, srv.Transport(), c.opt)
			first, _ := succeed(t, client, named(c.ctx))
			again, _ := succeed(t, client, named(c.ctx))
			require.NotEmpty(t, redo.KeyOf(first))
			require.Equal(t, redo.KeyOf(first), redo.KeyOf(again))
		})
	}
	t.Run("a safe request takes no name", func(t *testing.T) {
		req := named(t.Context())
		req.Method, req.Body, req.GetBody, req.ContentLength = http.MethodGet, nil, nil, 0
		resp, _ := succeed(t, connect(t, srv.Transport()), req)
		require.Empty(t, redo.KeyOf(resp))
	})
}

func TestAKeyThatTheNextCallMayNotSendIsNotSafeToRetry(t *testing.T) {
	for _, c := range []struct {
		name  string
		ctx   func(context.Context) context.Context
		own   string // the request's own header
		opt   redo.Option
		again bool
	}{
		{"the request's own header", nil, "k1", nil, false},
		{"a key that redo made", nil, "", nil, false},
		{"the request's own header, under a name",
			func(ctx context.Context) context.Context { return redo.WithOperation(ctx, "op") }, "k1", nil, true},
		{"WithKey", func(ctx context.Context) context.Context { return redo.WithKey(ctx, "k1") }, "", nil, true},
		{"WithKey over the request's own header",
			func(ctx context.Context) context.Context { return redo.WithKey(ctx, "k1") }, "k2", nil, true},
		{"derived keys", func(ctx context.Context) context.Context { return redo.WithOperation(ctx, "op") }, "",
			redo.WithKeys(redo.DerivedKeys("test")), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			lost := errors.New("lost")
			opts := []redo.Option{redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})}
			if c.opt != nil {
				opts = append(opts, c.opt)
			}
			client := connect(t, tripper(func(*http.Request) (*http.Response, error) { return nil, lost }), opts...)
			ctx := t.Context()
			if c.ctx != nil {
				ctx = c.ctx(ctx)
			}
			req := post(t, ctx, "http://api.test/", payment)
			if c.own != "" {
				req.Header.Set("Idempotency-Key", c.own)
			}
			e := fail(t, client, req)
			require.ErrorIs(t, e, lost)
			require.NotEmpty(t, e.Key)
			require.Equal(t, redo.EffectUnknown, e.Effect)
			require.Equal(t, c.again, redo.SafeToRetry(e))
			require.Equal(t, c.again, e.Temporary())
		})
	}
}

// A repetition of a request that is idempotent by its method has no second effect, with any key or none.
func TestAnIdempotentRequestIsSafeToRetry(t *testing.T) {
	for method, again := range map[string]bool{"GET": true, "PUT": true, "DELETE": true, "POST": false} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)))
				req, err := http.NewRequestWithContext(t.Context(), method, srv.URL, nil)
				require.NoError(t, err)
				e := fail(t, connect(t, srv.Transport(), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})), req)
				require.Equal(t, again, redo.SafeToRetry(e))
			})
		})
	}
}

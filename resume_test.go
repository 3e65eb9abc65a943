package redo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// crash leaves the operation pending: its response was lost, and no client tried again.
func crash(t *testing.T, srv *servertest.Server, st store.Store, req *http.Request, opts ...redo.Option) *redo.Error {
	t.Helper()
	opts = append([]redo.Option{redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})}, opts...)
	return fail(t, connect(t, srv.Transport(), opts...), req)
}

func TestPendingListsWhatACrashLeftBehindOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptEach(servertest.ResetAfterEffect()))
		st := openStore(t)
		start := time.Now()
		names := []string{"refund:3", "refund:1", "refund:2"}
		for _, name := range names {
			crash(t, srv, st, named(t, srv, name, payment))
			time.Sleep(time.Minute)
		}
		client := connect(t, srv.Transport(), redo.WithStore(st))
		ops := pending(t, client)
		require.Len(t, ops, 3)
		sent := keys(srv)
		for i, op := range ops {
			require.Equal(t, names[i], op.Name)
			require.Equal(t, sent[i], op.Key)
			require.Equal(t, http.MethodPost, op.Method)
			require.Equal(t, srv.URL+"/refunds", op.URL)
			require.Equal(t, store.Raw("POST", srv.URL+"/refunds", "", []byte(payment)), op.Fingerprint)
			require.Equal(t, start.Add(time.Duration(i)*time.Minute), op.CreatedAt)
			require.Equal(t, time.Duration(3-i)*time.Minute, op.Age)
			require.True(t, op.Resumable)
		}
		n := 0
		for op, err := range client.Pending(t.Context()) { // the loop's body may call the client
			require.NoError(t, err)
			resp, err := client.Resume(t.Context(), op)
			require.NoError(t, err)
			require.Equal(t, op.Key, redo.KeyOf(resp))
			drain(t, resp)
			n++
		}
		require.Equal(t, 3, n)
		require.Empty(t, pending(t, client))
		require.Empty(t, srv.Ledger().Duplicates())
		require.Equal(t, 3, srv.Ledger().Total())
	})
}

func TestPendingStopsWhenItsLoopDoes(t *testing.T) {
	srv := servertest.NewInMemory(t, servertest.ScriptEach(servertest.Status(503)))
	st := openStore(t)
	crash(t, srv, st, named(t, srv, "a", payment))
	crash(t, srv, st, named(t, srv, "b", payment))
	n := 0
	for range connect(t, srv.Transport(), redo.WithStore(st)).Pending(t.Context()) {
		n++
		break
	}
	require.Equal(t, 1, n)
}

func TestPendingYieldsItsErrorLast(t *testing.T) {
	srv, st := servertest.NewInMemory(t), openStore(t)
	without := connect(t, srv.Transport())
	shut := connect(t, srv.Transport(), redo.WithStore(st))
	require.NoError(t, shut.Close())
	gone := openStore(t)
	require.NoError(t, gone.Close())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		client *redo.Client
		ctx    context.Context
		is     error
		text   string
	}{
		{"no store", without, t.Context(), nil, "redo: Pending: the client has no store"},
		{"closed client", shut, t.Context(), redo.ErrClosed, "redo: Pending: "},
		{
			"closed store", connect(t, srv.Transport(), redo.WithStore(gone)), t.Context(), store.ErrUnavailable,
			"redo: listing pending operations: ",
		},
		{
			"ended context", connect(t, srv.Transport(), redo.WithStore(st)), ended, context.Canceled,
			"redo: listing pending operations: ",
		},
		{
			"store that can't list", connect(t, srv.Transport(), redo.WithStore(struct{ store.Store }{st})),
			t.Context(), nil, "redo: Pending: struct",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var errs []error
			for op, err := range c.client.Pending(c.ctx) {
				require.Zero(t, op)
				errs = append(errs, err)
			}
			require.Len(t, errs, 1)
			require.ErrorContains(t, errs[0], c.text)
			if c.is != nil {
				require.ErrorIs(t, errs[0], c.is)
			}
		})
	}
}

func TestResumeSendsTheStoredRequestUnderItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetBeforeRead()))
		st := openStore(t)
		profile := redo.RedoProfile()
		profile.StoredHeaders = []string{"x-account"}
		req := post(t, redo.WithOperation(t.Context(), "op"), "http://user:pa55@memory.test/refunds/a%2Fb?n=1&m=%20x",
			payment)
		req.Host = "api.provider.test"
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "X-Account": {"acct_1"}, "User-Agent": {"shop/1"},
			"Authorization": {"Bearer t0ken"}, "Cookie": {"session=t0ken"}, "X-Api-Key": {"t0ken"},
		}
		e := crash(t, srv, st, req, redo.WithProfile(profile))

		raw := record(t, st, "op").Meta
		require.NotContains(t, string(raw), "t0ken", "credentials are never at rest")
		require.NotContains(t, string(raw), "pa55")

		calls := 0
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProfile(profile),
			redo.WithCredentials(func(r *http.Request) error {
				calls++
				require.Equal(t, e.Key, r.Header.Get("Idempotency-Key"), "credentials are added after the key")
				r.Header.Set("Authorization", "Bearer fresh")
				return nil
			}))
		ops := pending(t, client)
		require.Len(t, ops, 1)
		require.Equal(t, "http://memory.test/refunds/a%2Fb?n=1&m=%20x", ops[0].URL)
		resp, err := client.Resume(t.Context(), ops[0])
		require.NoError(t, err)
		drain(t, resp)
		require.Equal(t, 1, calls)

		last := srv.Requests()[1]
		require.Equal(t, e.Key, last.Key)
		require.Equal(t, http.MethodPost, last.Method)
		require.Equal(t, "/refunds/a/b", last.Path)
		require.Equal(t, " x", last.Query.Get("m"))
		require.Equal(t, "api.provider.test", last.Host)
		require.Equal(t, payment, string(last.Body))
		require.Equal(t, "application/json", last.Header.Get("Content-Type"))
		require.Equal(t, "acct_1", last.Header.Get("X-Account"))
		require.Equal(t, "Bearer fresh", last.Header.Get("Authorization"))
		require.Empty(t, last.Header.Get("Cookie"))
		srv.Ledger().AssertEffects(t, e.Key, 1)
	})
}

func TestCredentialsThatCannotBeHadSendNothingAndLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		expired := errors.New("the token server is down")
		e := fail(t, connect(t, srv.Transport(), redo.WithStore(st), redo.WithCredentials(func(*http.Request) error {
			return expired
		})),
			named(t, srv, "op", payment))
		require.ErrorIs(t, e, expired)
		require.ErrorIs(t, e, taxonomy.Auth)
		require.Equal(t, redo.NotApplied, e.Effect)
		require.Empty(t, srv.Requests())
		succeed(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
		require.Equal(t, 1, srv.Ledger().Total())
	})
}

func TestResumeNeverMintsANewKey(t *testing.T) {
	meanwhile := map[string]func(*testing.T, *servertest.Server, *redo.Client){
		"the operation was completed": func(t *testing.T, srv *servertest.Server, c *redo.Client) {
			succeed(t, c, named(t, srv, "op", payment))
		},
		"nothing happened": func(*testing.T, *servertest.Server, *redo.Client) {},
	}
	for name, happened := range meanwhile {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				st := openStore(t)
				e := crash(t, srv, st, named(t, srv, "op", payment))
				client := connect(t, srv.Transport(), redo.WithStore(st))
				op := pending(t, client)[0]
				happened(t, srv, client)
				resp, err := client.Resume(t.Context(), op)
				require.NoError(t, err)
				drain(t, resp)
				require.Equal(t, e.Key, redo.KeyOf(resp))
				for _, key := range keys(srv) {
					require.Equal(t, e.Key, key)
				}
				srv.Ledger().AssertEffects(t, e.Key, 1)
				require.Equal(t, store.StateComplete, record(t, st, "op").State)
			})
		})
	}
}

// The age of the key is gone with the record, so that the server may have forgotten the key.
func TestResumeOfAnOperationThatIsGoneSendsNothing(t *testing.T) {
	for name, change := range map[string]func(context.Context, *redo.Client) error{
		"forgotten": func(ctx context.Context, c *redo.Client) error { return c.Forget(ctx, "op") },
		"settled as not applied": func(ctx context.Context, c *redo.Client) error {
			return c.Settle(ctx, "op", redo.Finding{Effect: redo.NotApplied, Evidence: "GET /refunds", By: "ops"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				st := openStore(t)
				crash(t, srv, st, named(t, srv, "op", payment))
				client := connect(t, srv.Transport(), redo.WithStore(st))
				op := pending(t, client)[0]
				require.NoError(t, change(t.Context(), client))
				_, err := client.Resume(t.Context(), op)
				e := failure(t, err)
				require.ErrorIs(t, e, taxonomy.InvalidOperation)
				require.ErrorIs(t, e, store.ErrNotFound)
				require.Len(t, srv.Requests(), 1)
				succeed(t, client, named(t, srv, "op", payment))
				require.NotEqual(t, keys(srv)[0], keys(srv)[1], "a call starts it anew")
			})
		})
	}
}

func TestResumeOfAnOperationThatStartedAnewIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptEach(servertest.Status(503)))
		st := openStore(t)
		first := crash(t, srv, st, named(t, srv, "op", payment))
		client := connect(t, srv.Transport(), redo.WithStore(st))
		op := pending(t, client)[0]
		require.NoError(t, client.Forget(t.Context(), "op"))
		second := crash(t, srv, st, named(t, srv, "op", payment))
		require.NotEqual(t, first.Key, second.Key)

		_, err := client.Resume(t.Context(), op)
		e := failure(t, err)
		require.Equal(t, taxonomy.InvalidOperation, e.Code)
		require.Equal(t, second.Key, e.Key)
		require.Len(t, srv.Requests(), 2, "nothing was sent")
	})
}

func TestResumeSendsNothingOnceTheKeyIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		st := openStore(t)
		crash(t, srv, st, named(t, srv, "op", payment))
		time.Sleep(24 * time.Hour)
		client := connect(t, srv.Transport(), redo.WithStore(st))
		_, err := client.Resume(t.Context(), pending(t, client)[0])
		require.Equal(t, taxonomy.KeyExpired, failure(t, err).Code)
		require.Len(t, srv.Requests(), 1)
	})
}

func TestWhatIsNotResumableSaysSo(t *testing.T) {
	for _, c := range []struct {
		name string
		body string
		opt  redo.Option
	}{
		{"requests are not stored", payment, redo.WithoutStoredRequests()},
		{"the body is over the cap", strings.Repeat("4242", 10), redo.WithMaxStoredBody(39)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				st := openStore(t)
				e := crash(t, srv, st, named(t, srv, "op", c.body), c.opt)
				require.NotContains(t, string(record(t, st, "op").Meta), "NDI0Mj", "the body, in base64")
				client := connect(t, srv.Transport(), redo.WithStore(st), c.opt)
				op := pending(t, client)[0]
				require.Equal(t, e.Key, op.Key)
				require.False(t, op.Resumable)
				_, err := client.Resume(t.Context(), op)
				refused := failure(t, err)
				require.Equal(t, taxonomy.BodyNotReplayable, refused.Code)
				require.Equal(t, "op", refused.Operation)
				require.Contains(t, refused.Error(), "run the same code again")
				require.Len(t, srv.Requests(), 1)

				resp, _ := succeed(t, client, named(t, srv, "op", c.body))
				require.Equal(t, e.Key, redo.KeyOf(resp))
				require.Equal(t, c.body, string(srv.Requests()[1].Body))
				srv.Ledger().AssertEffects(t, e.Key, 1)
			})
		})
	}
}

func TestResumeRefusesWhatPendingDidNotList(t *testing.T) {
	srv, st := servertest.NewInMemory(t), openStore(t)
	client := connect(t, srv.Transport(), redo.WithStore(st))
	for _, op := range []redo.Operation{
		{}, {Name: "op"}, {Key: "k"}, {Name: "op", Key: "k"}, {Name: "op", Key: "k", Resumable: true},
	} {
		_, err := client.Resume(t.Context(), op)
		require.Equal(t, taxonomy.InvalidOperation, failure(t, err).Code)
	}
	_, err := connect(t, srv.Transport()).Resume(t.Context(), redo.Operation{Name: "op", Key: "k", Resumable: true})
	require.Equal(t, taxonomy.InvalidOperation, failure(t, err).Code)
	require.Empty(t, srv.Requests())

	fault := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
	crash(t, fault, st, named(t, fault, "op", payment))
	nameless, keyless := pending(t, client)[0], pending(t, client)[0]
	nameless.Name, keyless.Key = "", ""
	_, err = client.Resume(t.Context(), nameless)
	require.Equal(t, taxonomy.InvalidOperation, failure(t, err).Code)
	_, err = client.Resume(t.Context(), keyless)
	require.Equal(t, taxonomy.KeyMalformed, failure(t, err).Code)
	require.Len(t, fault.Requests(), 1, "neither is sent")
}

// Not even the stored request is the operation's own under options that fingerprint it otherwise.
func TestResumeUnderOtherOptionsClaimsNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect())), openStore(t)
		crash(t, srv, st, named(t, srv, "op", payment))
		client := connect(t, srv.Transport(), redo.WithStore(st),
			redo.WithFingerprint(func(*http.Request, io.Reader) ([]byte, error) { return []byte("other"), nil }))
		op := pending(t, client)[0]
		_, err := client.Resume(t.Context(), op)
		e := failure(t, err)
		require.Equal(t, taxonomy.InvalidOperation, e.Code)
		require.Equal(t, redo.EffectUnknown, e.Effect)
		require.Equal(t, op.Key, e.Key)
		require.ErrorContains(t, e, "another fingerprint")
		require.Len(t, srv.Requests(), 1)
	})
}

func TestTwoProcessesThatResumeOneOperationSendOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetBeforeRead()), slow(time.Second))
		st := openStore(t)
		e := crash(t, srv, st, named(t, srv, "op", payment))
		var group sync.WaitGroup
		var codes sync.Map
		for range 2 {
			client := connect(t, srv.Transport(), redo.WithStore(st))
			op := pending(t, client)[0]
			group.Go(func() {
				resp, err := client.Resume(t.Context(), op)
				if err != nil { // the other process has it
					codes.Store(failure(t, err).Code, true)
					return
				}
				drain(t, resp)
				codes.Store(taxonomy.Code("success"), true)
			})
		}
		group.Wait()
		codes.Range(func(code, _ any) bool {
			require.Contains(t, []taxonomy.Code{"success", taxonomy.InFlight}, code)
			return true
		})
		_, ok := codes.Load(taxonomy.Code("success"))
		require.True(t, ok, "one of them ends the operation")
		for _, key := range keys(srv) {
			require.Equal(t, e.Key, key)
		}
		srv.Ledger().AssertEffects(t, e.Key, 1)
		require.Equal(t, store.StateComplete, record(t, st, "op").State)
	})
}

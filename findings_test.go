package redo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/taxonomy"
)

func appliedBy(who string, resp *http.Response) redo.Finding {
	return redo.Finding{Effect: redo.Applied, Response: resp, Evidence: "GET /refunds returned rf_9", By: who}
}

func notAppliedBy(who string) redo.Finding {
	return redo.Finding{Effect: redo.NotApplied, Evidence: "no refund has the reference", By: who}
}

func TestAPersonSettlesAnOperationAsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		st := openStore(t)
		e := crash(t, srv, st, named(t, srv, "op", payment))
		client := connect(t, srv.Transport(), redo.WithStore(st))
		body := &watchedBody{Reader: strings.NewReader("rf_9")}
		resp := found(201, "", "Etag", `"7"`, "Set-Cookie", "session=1")
		resp.Body = body
		require.NoError(t, client.Settle(t.Context(), "op", appliedBy("ana", resp)))
		require.Equal(t, int32(1), body.closed.Load())
		require.Empty(t, pending(t, client))

		resp, text := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, []any{201, "rf_9", `"7"`, ""},
			[]any{resp.StatusCode, text, resp.Header.Get("Etag"), resp.Header.Get("Set-Cookie")})
		require.Equal(t, e.Key, redo.KeyOf(resp))
		require.True(t, redo.Replayed(resp))
		require.Len(t, srv.Requests(), 1, "nothing was sent")
	})
}

func TestAnOperationSettledAsAppliedWithoutAResponseHasNone(t *testing.T) {
	for name, resp := range map[string]*http.Response{
		"none was found":               nil,
		"it must not be kept":          found(201, "rf_9", "Cache-Control", "private, no-store"),
		"server replay calls no probe": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				st := openStore(t)
				crash(t, srv, st, named(t, srv, "op", payment))
				client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithServerReplay())
				require.NoError(t, client.Settle(t.Context(), "op", appliedBy("ana", resp)))
				require.NotContains(t, string(record(t, st, "op").Result), "no-store")
				e := fail(t, client, named(t, srv, "op", payment))
				require.Equal(t, []any{taxonomy.ResultNotStored, redo.Applied}, []any{e.Code, e.Effect})
				require.False(t, redo.SafeToRetry(e))
				require.Len(t, srv.Requests(), 1)
			})
		})
	}
}

func TestAPersonSettlesAnOperationAsNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetBeforeRead()))
		st := openStore(t)
		e := crash(t, srv, st, named(t, srv, "op", payment))
		client := connect(t, srv.Transport(), redo.WithStore(st))
		unread := &watchedBody{Reader: strings.NewReader("")}
		f := notAppliedBy("ana")
		f.Response = &http.Response{StatusCode: 404, Body: unread}
		require.NoError(t, client.Settle(t.Context(), "op", f))
		require.Equal(t, int32(1), unread.closed.Load(), "a response that is not kept is closed too")
		require.Empty(t, pending(t, client))
		resp, _ := succeed(t, client, named(t, srv, "op", `{"amount":1}`)) // the payload may be corrected
		require.NotEqual(t, e.Key, redo.KeyOf(resp))
	})
}

func TestAFindingThatTheRecordConfirmsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t, servertest.ScriptNext(servertest.OK()),
			servertest.ScriptNext(servertest.Status(422))), openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st))
		succeed(t, client, named(t, srv, "applied", payment))
		fail(t, client, named(t, srv, "refused", payment))
		for name, f := range map[string]redo.Finding{"applied": appliedBy("ana", found(201, "rf_9")),
			"refused": notAppliedBy("ana")} {
			before := record(t, st, name)
			require.NoError(t, client.Settle(t.Context(), name, f))
			require.Equal(t, before.Result, record(t, st, name).Result)
			require.Equal(t, before.Fence, record(t, st, name).Fence)
		}
	})
}

func TestAFindingThatContradictsTheRecordOverwritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.OK()),
			servertest.ScriptNext(servertest.Status(422)),
			servertest.ScriptNext(servertest.StatusAfterEffect(503)))
		st := openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st))
		succeed(t, client, named(t, srv, "applied", payment))
		fail(t, client, named(t, srv, "refused", payment))
		crash(t, srv, st, named(t, srv, "found", payment))
		require.NoError(t, client.Settle(t.Context(), "found", appliedBy("ana", found(201, "rf_9"))))
		for name, f := range map[string]redo.Finding{
			"applied": notAppliedBy("ana"), "refused": appliedBy("ana", nil), "found": notAppliedBy("ben"),
		} {
			before := record(t, st, name)
			err := client.Settle(t.Context(), name, f)
			require.ErrorIs(t, err, redo.ErrContradiction, name)
			require.ErrorContains(t, err, name)
			require.Equal(t, before.Result, record(t, st, name).Result)
			require.Equal(t, before.State, record(t, st, name).State)
		}
	})
}

func TestFindingsThatShowNothingAreRefused(t *testing.T) {
	srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
	st := openStore(t)
	crash(t, srv, st, named(t, srv, "op", payment))
	client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithMaxStoredBody(8))
	for name, c := range map[string]struct {
		change func(*redo.Finding)
		err    string
	}{
		"an unknown effect": {func(f *redo.Finding) { f.Effect = redo.EffectUnknown },
			"must be applied or not applied"},
		"an effect that does not exist": {func(f *redo.Finding) { f.Effect = 9 }, "must be applied or not applied"},
		"no evidence":                   {func(f *redo.Finding) { f.Evidence = "" }, "needs Evidence and By"},
		"no author":                     {func(f *redo.Finding) { f.By = "" }, "needs Evidence and By"},
		"a response of a failure":       {func(f *redo.Finding) { f.Response = found(422, "") }, "status 422"},
		"a response that is a redirect": {func(f *redo.Finding) { f.Response = found(302, "") }, "status 302"},
		"a response without a status":   {func(f *redo.Finding) { f.Response = found(0, "") }, "status 0"},
		"a response that is too long": {func(f *redo.Finding) { f.Response = found(200, "123456789") },
			"more than the 8 bytes"},
		"a response that can't be read": {func(f *redo.Finding) { f.Response.Body = io.NopCloser(cutOff{}) },
			"unexpected EOF"},
		"a response with too many headers": {func(f *redo.Finding) {
			f.Response = found(200, "", "X-Long",
				strings.Repeat("x", 2<<20))
		}, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			f := appliedBy("ana", found(201, "rf_9"))
			c.change(&f)
			before := record(t, st, "op")
			err := client.Settle(t.Context(), "op", f)
			require.ErrorContains(t, err, c.err)
			require.Equal(t, before.State, record(t, st, "op").State)
			require.Equal(t, before.Meta, record(t, st, "op").Meta)
		})
	}
	require.NoError(t, client.Settle(t.Context(), "op", appliedBy("ana", found(201, "rf_9"))), "the twin")
}

func TestAnOperationUnderWayIsNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t, slow(time.Second)), openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st))
		done := make(chan error, 1)
		go func() {
			resp, err := client.Do(named(t, srv, "op", payment))
			if err == nil {
				drain(t, resp)
			}
			done <- err
		}()
		synctest.Wait()
		require.ErrorContains(t, client.Settle(t.Context(), "op", notAppliedBy("ana")), "under way")
		require.NoError(t, <-done)
		require.Equal(t, store.StateComplete, record(t, st, "op").State)
		require.NoError(t, client.Settle(t.Context(), "op", appliedBy("ana", nil)),
			"the twin: after the call it confirms")
	})
}

func TestWhatIsNotThereIsNotSettledAndNotFound(t *testing.T) {
	srv, st := servertest.NewInMemory(t), openStore(t)
	client := connect(t, srv.Transport(), redo.WithStore(st))
	shut := connect(t, srv.Transport(), redo.WithStore(st))
	require.NoError(t, shut.Close())
	for name, c := range map[string]struct {
		client    *redo.Client
		operation string
		is        error
		text      string
	}{
		"no such operation": {client, "op", store.ErrNotFound, `"op"`},
		"a bad name":        {client, "", nil, "empty"},
		"a closed client":   {shut, "op", redo.ErrClosed, ""},
		"no store":          {connect(t, srv.Transport()), "op", nil, "no store: use WithStore"},
	} {
		t.Run(name, func(t *testing.T) {
			settled := c.client.Settle(t.Context(), c.operation, notAppliedBy("ana"))
			_, searched := c.client.Find(t.Context(), c.operation)
			for _, err := range []error{settled, searched} {
				require.ErrorContains(t, err, c.text)
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
			}
		})
	}
}

// The operation is called by one process and settled by another.
func TestASuccessOfWhatWasSettledAsNotAppliedIsAContradiction(t *testing.T) {
	for name, c := range map[string]struct {
		finding redo.Finding
		status  int
		err     bool
		state   store.State
	}{
		"a success, found not applied": {notAppliedBy("ana"), 201, true, store.StateFailed},
		"a refusal, found applied":     {appliedBy("ana", nil), 422, true, store.StateComplete},
		"a success, found applied":     {appliedBy("ana", nil), 201, false, store.StateComplete},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := openStore(t)
				operator := connect(t, unused(), redo.WithStore(st))
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					if err := operator.Settle(t.Context(), "op", c.finding); err != nil {
						return nil, err
					}
					return answer(r, c.status, "rf_1"), nil
				}), redo.WithStore(st))
				ctx, report := redo.WithReport(redo.WithOperation(t.Context(), "op"))
				resp, err := client.Do(post(t, ctx, "http://api.test/", payment))
				require.Len(t, report.Attempts(), 1)
				require.Equal(t, c.state, record(t, st, "op").State)
				if !c.err {
					require.NoError(t, err)
					require.Equal(t, "rf_1", drain(t, resp))
					return
				}
				require.ErrorIs(t, err, redo.ErrContradiction)
				e := failure(t, err)
				require.Equal(t, []any{c.status, 1}, []any{e.StatusCode, len(e.Attempts)})
				require.Equal(t, "rf_1", drain(t, e.Response))
				require.False(t, redo.SafeToRetry(e))
				require.ErrorContains(t, err, "ana")
			})
		})
	}
}

// A streamed success is handed to the caller immediately: its body reports the contradiction in place of its end.
func TestAStreamOfWhatWasSettledAsNotAppliedEndsInAContradiction(t *testing.T) {
	for name, contradicts := range map[string]bool{"not applied": true, "applied": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := openStore(t)
				operator := connect(t, unused(), redo.WithStore(st))
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					resp := answer(r, 200, "data: 1\n\n", "Content-Type", "text/event-stream")
					resp.ContentLength = -1
					return resp, nil
				}), redo.WithStore(st))
				resp, err := client.Do(post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
				require.NoError(t, err)
				f := appliedBy("ana", nil)
				if contradicts {
					f = notAppliedBy("ana")
				}
				require.NoError(t, operator.Settle(t.Context(), "op", f))
				b, err := io.ReadAll(resp.Body)
				require.Equal(t, "data: 1\n\n", string(b))
				require.Equal(t, contradicts, errors.Is(err, redo.ErrContradiction), "%v", err)
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}

// The response of an Error needs no Close.
func TestAContradictionLeavesNoBodyOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		operator := connect(t, unused(), redo.WithStore(st))
		body := &watchedBody{Reader: strings.NewReader(strings.Repeat("x", 1<<20))} // longer than the stored part
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			if err := operator.Settle(t.Context(), "op", notAppliedBy("ana")); err != nil {
				return nil, err
			}
			resp := answer(r, 201, "")
			resp.Body, resp.ContentLength = body, 1<<20
			return resp, nil
		}), redo.WithStore(st))
		e := fail(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
		require.ErrorIs(t, e, redo.ErrContradiction)
		require.Equal(t, int32(1), body.closed.Load())
		require.True(t, strings.HasPrefix(drain(t, e.Response), "xxx"), "its head is readable")
	})
}

// unused is a transport that must not be used.
func unused() http.RoundTripper {
	return tripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("nothing may be sent") })
}

func TestFindShowsAnOperationInEachState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.OK()),
			servertest.ScriptNext(servertest.Status(422)),
			servertest.ScriptNext(servertest.StatusAfterEffect(503)), servertest.ScriptNext(replayed500()),
			servertest.ScriptNext(servertest.RateLimited()))
		st := openStore(t)
		succeed(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "complete", payment))
		for _, name := range []string{"failed", "lost", "rests", "refused"} {
			crash(t, srv, st, named(t, srv, name, payment))
		}
		client := connect(t, srv.Transport(), redo.WithStore(st))
		for i, want := range []struct {
			name      string
			state     store.State
			effect    redo.Effect
			code      taxonomy.Code
			status    int
			resumable bool
		}{
			{"complete", store.StateComplete, redo.Applied, "", 201, false},
			{"failed", store.StateFailed, redo.NotApplied, "VALIDATION.unprocessable", 422, false},
			{"lost", store.StatePending, redo.EffectUnknown, "", 0, true},
			{"rests", store.StatePending, redo.EffectUnknown, taxonomy.Internal, 500, false},
			{"refused", store.StatePending, redo.NotApplied, "", 0, true},
		} {
			op, err := client.Find(t.Context(), want.name)
			require.NoError(t, err)
			require.Equal(t, []any{want.state, want.effect, want.status, want.resumable},
				[]any{op.State, op.Effect, op.StatusCode, op.Resumable}, want.name)
			require.True(t, op.Code == want.code || want.name == "failed" && op.Code.In(taxonomy.Validation), "%s: %s",
				want.name, op.Code)
			require.Equal(t, []any{want.name, srv.Requests()[i].Key, http.MethodPost},
				[]any{op.Name, op.Key, op.Method})
			require.Nil(t, op.Finding)
		}
	})
}

func TestFindingsSurviveARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ops.redo")
	srv := servertest.NewInMemory(t, servertest.ScriptEach(servertest.ResetAfterEffect()))
	open := func() (*redo.Client, func()) {
		st, err := boltstore.Open(file)
		require.NoError(t, err)
		client, err := redo.New(redo.WithTransport(srv.Transport()), redo.WithStore(st),
			redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
		require.NoError(t, err)
		return client, func() {
			require.NoError(t, client.Close())
			require.NoError(t, st.Close())
		}
	}
	client, shut := open()
	for name, f := range map[string]redo.Finding{"applied": appliedBy("ana", found(201, "rf_9")),
		"not applied": notAppliedBy("ben")} {
		fail(t, client, named(t, srv, name, payment))
		require.NoError(t, client.Settle(t.Context(), name, f))
	}
	shut()

	client, shut = open()
	defer shut()
	op, err := client.Find(t.Context(), "applied")
	require.NoError(t, err)
	require.Equal(t, &redo.Finding{Effect: redo.Applied, Evidence: "GET /refunds returned rf_9", By: "ana"}, op.Finding)
	op, err = client.Find(t.Context(), "not applied")
	require.NoError(t, err)
	require.Equal(t, &redo.Finding{Effect: redo.NotApplied, Evidence: "no refund has the reference", By: "ben"},
		op.Finding)
	_, body := succeed(t, client, named(t, srv, "applied", payment))
	require.Equal(t, "rf_9", body)
}

// Another process may claim the operation between Settle's look and its write.
func TestSettleKeepsTheResponseWhenItsFirstWriteIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		st := &rivalStore{Store: openStore(t)}
		crash(t, srv, st, named(t, srv, "op", payment))
		client := connect(t, srv.Transport(), redo.WithStore(st))
		st.rivals = 3
		require.NoError(t, client.Settle(t.Context(), "op", appliedBy("ana", found(201, "rf_9"))))
		require.Zero(t, st.rivals)
		_, body := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, "rf_9", body)
	})
}

func TestATakeOverWithoutAFindingContradictsNoResponse(t *testing.T) {
	// After four claims their own callers settle the operation.
	for rivals, state := range map[int]store.State{1: store.StateComplete, 3: store.StateComplete, 4: store.StatePending} {
		srv, st := servertest.NewInMemory(t), &rivalStore{Store: openStore(t), rivals: rivals}
		client := connect(t, srv.Transport(), redo.WithStore(st))
		_, body := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, `{"id":"rf_1"}`+"\n", body)
		require.Equal(t, state, record(t, st, "op").State)
	}
}

// A rivalStore lets another owner take a record over before each of the first completions.
type rivalStore struct {
	store.Store
	rivals int
}

func (s *rivalStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if s.rivals > 0 {
		s.rivals--
		rec, err := s.Find(ctx, l.ID)
		if err != nil {
			return err
		}
		if _, err := s.Reserve(ctx, store.Claim{ID: l.ID, Fingerprint: rec.Fingerprint,
			Retention: store.Forever}); err != nil {
			return err
		}
	}
	return s.Store.Complete(ctx, l, o)
}

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

// replayed500 is a final response that leaves the effect unknown.
func replayed500() servertest.Fault {
	return servertest.Status(500).With(servertest.Field("Idempotent-Replayed", "true"))
}

// found is a response that a person or a probe supplies.
func found(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// A probe counts its calls, and returns a set finding.
type probe struct {
	asked   []redo.Operation
	finding redo.Finding
	err     error
}

func (p *probe) ask(_ context.Context, op redo.Operation) (redo.Finding, error) {
	p.asked = append(p.asked, op)
	return p.finding, p.err
}

func TestAProbeIsAskedWhenAnOperationComesToRestUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(replayed500()))
		st := openStore(t)
		p := &probe{finding: redo.Finding{Effect: redo.Applied, Response: found(201, "rf_9", "Etag", `"7"`),
			Evidence: "GET /refunds returned rf_9"}}
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProbe(p.ask))

		resp, body := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, []any{201, "rf_9", `"7"`}, []any{resp.StatusCode, body, resp.Header.Get("Etag")})
		require.Len(t, srv.Requests(), 1)
		key := srv.Requests()[0].Key
		require.Equal(t, key, redo.KeyOf(resp))
		require.True(t, redo.Replayed(resp), "it comes from the client's store")

		require.Len(t, p.asked, 1)
		op := p.asked[0]
		require.Equal(t, []any{"op", key, store.StatePending, redo.EffectUnknown, taxonomy.Internal, 500},
			[]any{op.Name, op.Key, op.State, op.Effect, op.Code, op.StatusCode})
		require.Equal(t, []any{http.MethodPost, srv.URL + "/refunds"}, []any{op.Method, op.URL})

		after := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProbe(p.ask)) // a restart
		resp, body = succeed(t, after, named(t, srv, "op", payment))
		require.Equal(t, []any{201, "rf_9", key}, []any{resp.StatusCode, body, redo.KeyOf(resp)})
		require.Len(t, p.asked, 1, "a settled operation is asked about no more")
		require.Len(t, srv.Requests(), 1)

		op, err := after.Find(t.Context(), "op")
		require.NoError(t, err)
		require.Equal(t, &redo.Finding{Effect: redo.Applied, Evidence: "GET /refunds returned rf_9", By: "probe"},
			op.Finding)
		require.Equal(t, []any{store.StateComplete, redo.Applied, 201}, []any{op.State, op.Effect, op.StatusCode})
	})
}

// The twin: no probe is called for an outcome that the server settles, or for an operation that can be sent again.
func TestAProbeIsNotAskedAboutOtherOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		fault servertest.Fault
		state store.State
	}{
		"a success":          {servertest.OK(), store.StateComplete},
		"a refusal":          {servertest.Status(422), store.StateFailed},
		"a 500 of this call": {servertest.Status(500), store.StatePending},
		"a lost response":    {servertest.ResetAfterEffect(), store.StatePending},
		"bad credentials":    {servertest.Status(401), store.StatePending},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, st := servertest.NewInMemory(t, servertest.ScriptNext(c.fault)), openStore(t)
				p := &probe{finding: redo.Finding{Effect: redo.Applied, Evidence: "e"}}
				client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProbe(p.ask),
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
				if resp, err := client.Do(named(t, srv, "op", payment)); err == nil {
					drain(t, resp)
				}
				require.Empty(t, p.asked)
				require.Equal(t, c.state, record(t, st, "op").State)
			})
		})
	}
}

func TestAProbeIsAskedWhenARestingOperationIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(replayed500()))
		st := openStore(t)
		first := fail(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
		p := &probe{finding: redo.Finding{Effect: redo.Applied, Response: found(201, "rf_9"), Evidence: "e",
			By: "reconciler"}}
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProbe(p.ask))
		resp, body := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, []any{"rf_9", first.Key}, []any{body, redo.KeyOf(resp)})
		require.Len(t, p.asked, 1)
		require.Len(t, srv.Requests(), 1, "nothing was sent")
		op, err := client.Find(t.Context(), "op")
		require.NoError(t, err)
		require.Equal(t, "reconciler", op.Finding.By)
	})
}

func TestAProbeIsAskedWhenAnOperationIsPastItsRetention(t *testing.T) {
	for name, resumes := range map[string]bool{"called": false, "resumed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				st := openStore(t)
				e := crash(t, srv, st, named(t, srv, "op", payment))
				time.Sleep(24 * time.Hour)
				p := &probe{finding: redo.Finding{Effect: redo.Applied, Response: found(201, "rf_1"), Evidence: "e"}}
				client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProbe(p.ask))
				var resp *http.Response
				var err error
				if resumes {
					resp, err = client.Resume(t.Context(), pending(t, client)[0])
				} else {
					resp, err = client.Do(named(t, srv, "op", payment))
				}
				require.NoError(t, err)
				require.Equal(t, "rf_1", drain(t, resp))
				require.Equal(t, e.Key, redo.KeyOf(resp))
				require.Len(t, p.asked, 1)
				require.Equal(t, []any{"op", e.Key, 24 * time.Hour},
					[]any{p.asked[0].Name, p.asked[0].Key, p.asked[0].Age})
				require.Len(t, srv.Requests(), 1, "the old key is not sent")
			})
		})
	}
}

func TestAProbeThatFoundNothingAppliedLetsTheNextCallStartAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(replayed500()))
		p := &probe{finding: redo.Finding{Effect: redo.NotApplied, Evidence: "no refund has the reference"}}
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)), redo.WithProbe(p.ask))
		ctx, report := redo.WithReport(redo.WithOperation(t.Context(), "op"))
		e := fail(t, client, post(t, ctx, srv.URL+"/refunds", payment))
		require.Equal(t, redo.NotApplied, e.Effect)
		require.True(t, redo.SafeToRetry(e))
		require.ErrorContains(t, e, "no refund has the reference")
		require.ErrorContains(t, e, "found by probe")
		require.Len(t, e.Attempts, 1, "the attempts still show")
		require.Len(t, report.Attempts(), 1)

		op, err := client.Find(t.Context(), "op")
		require.NoError(t, err)
		require.Equal(t, store.StateFailed, op.State)
		require.Equal(t, &redo.Finding{Effect: redo.NotApplied, Evidence: "no refund has the reference", By: "probe"},
			op.Finding)

		resp, _ := succeed(t, client, named(t, srv, "op", payment))
		require.NotEqual(t, e.Key, redo.KeyOf(resp))
		require.Equal(t, 1, srv.Ledger().Total())
		require.Len(t, p.asked, 1)
	})
}

func TestAnUndecidedProbeLeavesTheOperationUnknown(t *testing.T) {
	down := errors.New("the search is down")
	for name, p := range map[string]*probe{
		"undecided":              {},
		"undecided with reasons": {finding: redo.Finding{Evidence: "not listed yet", By: "search"}},
		"an error":               {err: down},
		"an error beside a find": {finding: redo.Finding{Effect: redo.Applied, Evidence: "e"}, err: down},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(replayed500()))
				st := openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProbe(p.ask))
				for range 2 { // as it comes to rest, and as it rests
					e := fail(t, client, named(t, srv, "op", payment))
					require.Equal(t, []any{taxonomy.Internal, redo.EffectUnknown}, []any{e.Code, e.Effect})
					require.False(t, redo.SafeToRetry(e))
					require.Equal(t, p.err != nil, errors.Is(e, down), "the probe's own error is not lost")
				}
				require.Len(t, p.asked, 2)
				require.Len(t, srv.Requests(), 1)
				op, err := client.Find(t.Context(), "op")
				require.NoError(t, err)
				require.Equal(t, []any{store.StatePending, redo.EffectUnknown, (*redo.Finding)(nil)},
					[]any{op.State, op.Effect, op.Finding})
			})
		})
	}
}

// A probe that searches with a POST would wait for the flight that it is part of.
func TestAProbesOwnRequestsDoNotTakeTheOperationsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(replayed500()))
		var client *redo.Client
		search := func(ctx context.Context, _ redo.Operation) (redo.Finding, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/search", strings.NewReader("{}"))
			if err != nil {
				return redo.Finding{}, err
			}
			resp, err := client.Do(req)
			if err != nil {
				return redo.Finding{}, err
			}
			return redo.Finding{Effect: redo.Applied, Response: resp, Evidence: "POST /search"}, nil
		}
		client = connect(t, srv.Transport(), redo.WithStore(openStore(t)), redo.WithProbe(search))
		start := time.Now()
		succeed(t, client, named(t, srv, "op", payment))
		require.Zero(t, time.Since(start))
		sent := keys(srv)
		require.Len(t, sent, 2)
		require.NotEqual(t, sent[0], sent[1])
	})
}

// Another process may take the operation over before the probe is called. That process then calls its own probe.
func TestAProbeIsNotAskedAboutAnOperationThatAnotherProcessTookOver(t *testing.T) {
	for name, rival := range map[string]bool{"taken over": true, "left alone": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(replayed500()))
				st := &takenOverStore{Store: openStore(t), rival: rival}
				p := &probe{finding: redo.Finding{Effect: redo.Applied, Response: found(201, "rf_1"), Evidence: "e"}}
				client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProbe(p.ask))
				resp, err := client.Do(named(t, srv, "op", payment))
				if rival {
					require.Equal(t, redo.EffectUnknown, failure(t, err).Effect)
					require.Empty(t, p.asked)
					return
				}
				require.NoError(t, err)
				drain(t, resp)
				require.Len(t, p.asked, 1)
			})
		})
	}
}

// A takenOverStore lets another owner take a record over before it is found.
type takenOverStore struct {
	store.Store
	rival bool
}

func (s *takenOverStore) Find(ctx context.Context, id store.ID) (store.Record, error) {
	rec, err := s.Store.Find(ctx, id)
	if err != nil || !s.rival {
		return rec, err
	}
	if _, err = s.Reserve(ctx,
		store.Claim{ID: id, Fingerprint: rec.Fingerprint, Retention: store.Forever}); err != nil {
		return rec, err
	}
	return s.Store.Find(ctx, id)
}

// Another process may settle the operation while the probe looks.
func TestWhatAnotherProcessSettledDuringAProbeWins(t *testing.T) {
	for name, c := range map[string]struct {
		then   servertest.Fault
		effect redo.Effect
	}{
		"as applied":     {servertest.OK(), redo.Applied},
		"as not applied": {servertest.Status(422).With(stored), redo.NotApplied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(replayed500()), servertest.ScriptNext(c.then))
				st := openStore(t)
				var other *redo.Client
				client := connect(t, srv.Transport(), redo.WithStore(st),
					redo.WithProbe(func(ctx context.Context, op redo.Operation) (redo.Finding, error) {
						require.NoError(t, other.Forget(t.Context(), op.Name))
						resp, err := other.Do(named(t, srv, "op", payment))
						if err == nil {
							drain(t, resp)
						}
						return redo.Finding{Effect: redo.Applied, Evidence: "stale"}, nil
					}))
				other = connect(t, srv.Transport(), redo.WithStore(st))
				resp, err := client.Do(named(t, srv, "op", payment))
				if c.effect == redo.Applied {
					require.NoError(t, err)
					drain(t, resp)
				} else {
					require.Equal(t, redo.NotApplied, failure(t, err).Effect)
				}
				op, err := client.Find(t.Context(), "op")
				require.NoError(t, err)
				require.Nil(t, op.Finding, "the stale finding overwrote nothing")
				require.Equal(t, c.effect, op.Effect)
			})
		})
	}
}

func TestAFindingThatIsNotStoredSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(replayed500()))
		st := &faultyStore{Store: openStore(t)}
		st.set(nil, store.ErrUnavailable, nil)
		p := &probe{finding: redo.Finding{Effect: redo.Applied, Response: found(201, "rf_1"), Evidence: "e"}}
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProbe(p.ask))
		e := fail(t, client, named(t, srv, "op", payment))
		require.Equal(t, redo.EffectUnknown, e.Effect)
		require.ErrorIs(t, e, store.ErrUnavailable)
		require.Equal(t, store.StatePending, record(t, st, "op").State)
	})
}

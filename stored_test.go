package redo_test

import (
	"bytes"
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
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

func TestKeyAndFingerprintAreInTheStoreBeforeTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		var during store.Record
		var sent string
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			during = record(t, st, "op")
			sent = r.Header.Get("Idempotency-Key")
			return answer(r, 201, "{}"), nil
		}), redo.WithStore(st))
		succeed(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/refunds?live=1", payment))

		require.Equal(t, store.StatePending, during.State)
		require.Equal(t, store.Raw("POST", "http://api.test/refunds", "live=1", []byte(payment)), during.Fingerprint)
		require.Contains(t, string(during.Meta), sent)
		require.Zero(t, during.ExpiresAt, "a pending operation is never forgotten")
		require.Zero(t, during.LeaseUntil, "a client's claim never excludes")
		require.Equal(t, store.StateComplete, record(t, st, "op").State)
	})
}

func TestEveryCopyOfABodyIsClosed(t *testing.T) {
	for kept, want := range map[int]int{0: 3, len(payment): 2} { // a body over the limit is read and sent as other copies
		var copies []*watchedBody
		copied := func() (io.ReadCloser, error) {
			copies = append(copies, &watchedBody{Reader: strings.NewReader(payment)})
			return copies[len(copies)-1], nil
		}
		srv, st := servertest.NewInMemory(t), openStore(t)
		req := named(t, srv, "op", payment)
		req.Body, _ = copied()
		req.GetBody = copied
		succeed(t, connect(t, srv.Transport(), redo.WithStore(st), redo.WithMaxStoredBody(kept)), req)
		require.Len(t, copies, want)
		for _, body := range copies {
			require.Positive(t, body.closed.Load(), "up to %d bytes are stored", kept)
		}
	}
}

func TestNothingIsSentWhileTheStoreIsDown(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code taxonomy.Code
		safe bool
	}{
		{"unavailable", store.ErrUnavailable, taxonomy.Unavailable, true},
		{"the reservation's fate is unknown", store.ErrUnknown, taxonomy.Unavailable, true},
		{"an error that the contract does not know", io.ErrClosedPipe, taxonomy.Unavailable, true},
		{"the store refuses the claim", store.ErrInvalid, taxonomy.InvalidOperation, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t)
				st := &faultyStore{Store: openStore(t)}
				st.set(c.err, nil, nil)
				client := connect(t, srv.Transport(), redo.WithStore(st))
				body := &watchedBody{Reader: strings.NewReader(payment)}
				req := named(t, srv, "op", payment)
				req.Body = body
				e := fail(t, client, req)
				require.Equal(t, c.code, e.Code)
				require.ErrorIs(t, e, c.err)
				require.Equal(t, c.safe, redo.SafeToRetry(e))
				require.Equal(t, redo.NotApplied, e.Effect, "the store can be read, and has no such operation")
				require.Empty(t, e.Attempts)
				require.Empty(t, srv.Requests())
				require.Positive(t, body.closed.Load())
				requireAbsent(t, st, "op")

				st.set(nil, nil, nil)
				succeed(t, client, named(t, srv, "op", payment))
			})
		})
	}
}

func TestClosedStoreSendsNothing(t *testing.T) {
	srv, st := servertest.NewInMemory(t), openStore(t)
	require.NoError(t, st.Close())
	e := fail(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
	require.Equal(t, taxonomy.Unavailable, e.Code)
	require.ErrorIs(t, e, store.ErrUnavailable)
	require.Empty(t, srv.Requests())
}

func TestOutcomeThatCannotBeWrittenLeavesTheOperationPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		st := &faultyStore{Store: openStore(t)}
		st.set(nil, store.ErrUnavailable, nil)
		client := connect(t, srv.Transport(), redo.WithStore(st))
		first, body := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, `{"id":"rf_1"}`+"\n", body, "the caller gets the response all the same")
		require.Len(t, pending(t, client), 1)

		st.set(nil, nil, nil)
		second, again := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, body, again)
		require.True(t, redo.Replayed(second), "the server replays its record")
		require.Equal(t, redo.KeyOf(first), redo.KeyOf(second))
		srv.Ledger().AssertEffects(t, redo.KeyOf(first), 1)
		require.Empty(t, pending(t, client))
	})
}

func TestRefusalThatCannotBeWrittenIsNoClaimAboutTheOperation(t *testing.T) {
	for code, want := range map[taxonomy.Code]redo.Effect{
		"VALIDATION.amount": redo.EffectUnknown, // another call may have taken the operation over
		taxonomy.Duplicate:  redo.Applied,
	} {
		synctest.Test(t, func(t *testing.T) {
			fault := servertest.Status(http.StatusConflict).With(servertest.Field("Error-Code", string(code)))
			st := &faultyStore{Store: openStore(t)}
			st.set(nil, store.ErrUnavailable, nil)
			srv := servertest.NewInMemory(t, servertest.ScriptNext(fault))
			e := fail(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
			require.Equal(t, []any{code, want}, []any{e.Code, e.Effect})
			require.Equal(t, want == redo.EffectUnknown, redo.SafeToRetry(e))
			require.Equal(t, want == redo.EffectUnknown, errors.Is(e, store.ErrUnavailable))
		})
	}
}

func TestCompletedOperationIsAnsweredFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		first, body := succeed(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
		require.False(t, redo.Replayed(first))
		srv.Close()

		again := connect(t, srv.Transport(), redo.WithStore(st)) // a restart
		second, kept := succeed(t, again, named(t, srv, "op", payment))
		require.Equal(t, body, kept)
		require.Equal(t, "201 Created", second.Status)
		require.Equal(t, http.StatusCreated, second.StatusCode)
		require.Equal(t, int64(len(body)), second.ContentLength)
		require.True(t, redo.Replayed(second))
		require.Equal(t, redo.KeyOf(first), redo.KeyOf(second))
		require.Len(t, srv.Requests(), 1, "nothing was sent")
		require.Empty(t, pending(t, again))
	})
}

func TestServerReplayAsksTheServerUnderTheSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithServerReplay())
		first, body := succeed(t, client, named(t, srv, "op", payment))
		second, again := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, body, again)
		require.True(t, redo.Replayed(second))
		require.Equal(t, []string{redo.KeyOf(first), redo.KeyOf(first)}, keys(srv))

		time.Sleep(23 * time.Hour) // the server is about to forget the key: asking would apply it again
		third, kept := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, body, kept)
		require.True(t, redo.Replayed(third))
		require.Len(t, srv.Requests(), 2)
	})
}

func TestOutcomeOnRecord(t *testing.T) {
	long := strings.Repeat("x", 65)
	for _, c := range []struct {
		name   string
		status int
		body   string
		chunks bool
	}{
		{"a body", 201, `{"id":"rf_1"}`, false},
		{"a body of exactly the cap", 200, long[:64], false},
		{"an empty body", 200, "", false},
		{"no content", 204, "", false},
		{"a body of unknown length", 202, "streamed", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := openStore(t)
				sent := 0
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					sent++
					resp := answer(r, c.status, c.body,
						"Content-Type", "application/json", "Location", "/refunds/1", "ETag", `"v1"`, "X-Multi", "a",
						"X-Multi", "b",
						"Set-Cookie", "session=s3cr3t", "Date", "Mon, 02 Jan 2006 15:04:05 GMT", "Connection", "X-Hop",
						"X-Hop", "1", "X-Request-Id", "r1")
					if c.chunks {
						resp.ContentLength = -1
					}
					return resp, nil
				}), redo.WithStore(st), redo.WithMaxStoredBody(64))
				call := func() (*http.Response, string) {
					return succeed(t, client,
						post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
				}
				_, body := call()
				require.Equal(t, c.body, body)
				resp, kept := call()
				require.Equal(t, 1, sent)
				require.Equal(t, c.status, resp.StatusCode)
				require.Equal(t, c.body, kept)
				require.Equal(t, http.Header{
					"Content-Type": {"application/json"}, "Location": {"/refunds/1"}, "Etag": {`"v1"`},
					"X-Multi": {"a", "b"},
				}, resp.Header, "end-to-end headers, and no others")
				require.NotContains(t, string(record(t, st, "op").Result), "s3cr3t")
			})
		})
	}
}

func TestResultOverTheCapIsAskedOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 1000)
		srv := servertest.NewInMemory(t,
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = servertest.Effect(r.Context())
				_, _ = io.WriteString(w, long)
			})))
		st := openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithMaxStoredBody(64))
		first, body := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, long, body, "the caller gets all of it")
		require.False(t, bytes.Contains(record(t, st, "op").Result, []byte("xx")))

		second, again := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, long, again)
		require.Equal(t, []string{redo.KeyOf(first), redo.KeyOf(first)}, keys(srv))
		require.True(t, redo.Replayed(second))
		require.Equal(t, 1, srv.Ledger().Total())

		time.Sleep(24 * time.Hour)
		e := fail(t, client, named(t, srv, "op", payment))
		require.Equal(t, taxonomy.ResultNotStored, e.Code)
		require.ErrorContains(t, e, "the response was not stored")
		require.Equal(t, redo.Applied, e.Effect)
		require.Equal(t, http.StatusOK, e.StatusCode)
		require.False(t, redo.SafeToRetry(e))
		require.Len(t, srv.Requests(), 2, "the server may have forgotten the key")
	})
}

func TestEventStreamIsNotHeldBackForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		st := openStore(t)
		client := connect(t, tripper(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, 200, "", "Content-Type", "text/event-stream; charset=utf-8")
			resp.Body, resp.ContentLength = r, -1
			return resp, nil
		}), redo.WithStore(st))
		resp, err := client.Do(post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
		require.NoError(t, err)
		go func() {
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = w.Close()
		}()
		require.Equal(t, "data: 1\n\n", drain(t, resp))
		require.Equal(t, store.StateComplete, record(t, st, "op").State)
	})
}

func TestSettledOutcomeIsForgottenAfterItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithOutcomeRetention(time.Hour))
		first, _ := succeed(t, client, named(t, srv, "op", payment))
		time.Sleep(time.Hour - time.Nanosecond)
		succeed(t, client, named(t, srv, "op", payment))
		require.Len(t, srv.Requests(), 1)
		time.Sleep(time.Nanosecond)
		second, _ := succeed(t, client, named(t, srv, "op", payment))
		require.NotEqual(t, redo.KeyOf(first), redo.KeyOf(second), "called again after that, it is a new operation")
	})
}

func TestScopesSeparateOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		a := connect(t, srv.Transport(), redo.WithStore(st), redo.WithScope("a"))
		b := connect(t, srv.Transport(), redo.WithStore(st), redo.WithScope("b"))
		first, _ := succeed(t, a, named(t, srv, "op", payment))
		second, _ := succeed(t, b, named(t, srv, "op", payment))
		require.NotEqual(t, redo.KeyOf(first), redo.KeyOf(second))
		require.Equal(t, 2, srv.Ledger().Total())
	})
}

func TestConcurrentCallsOfOneOperationHaveOneEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t, slow(50*time.Millisecond)), openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st))
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				resp, err := client.Do(named(t, srv, "op", payment))
				if err != nil {
					t.Error(err)
					return
				}
				if body := drain(t, resp); body != "rf_1" {
					t.Errorf("body %q", body)
				}
			})
		}
		group.Wait()
		require.Equal(t, 1, srv.Ledger().Total())
		sent := keys(srv)
		for _, key := range sent {
			require.Equal(t, sent[0], key)
		}
		require.Empty(t, pending(t, client))
	})
}

func TestCallerWhoGivesUpBeforeTheReservationLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		ctx, cancel := context.WithCancel(redo.WithOperation(t.Context(), "op"))
		cancel()
		e := fail(t, connect(t, srv.Transport(), redo.WithStore(st)), post(t, ctx, srv.URL, payment))
		require.Equal(t, taxonomy.CallerCanceled, e.Code)
		require.ErrorIs(t, e, context.Canceled)
		require.True(t, redo.SafeToRetry(e))
		require.Empty(t, srv.Requests())
		requireAbsent(t, st, "op")
	})
}

func TestOutcomeIsWrittenAlsoWhenTheCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		ctx, cancel := context.WithCancel(redo.WithOperation(t.Context(), "op"))
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			cancel() // while the response is on its way
			return answer(r, 201, "{}"), nil
		}), redo.WithStore(st))
		resp, err := client.Do(post(t, ctx, "http://api.test/", payment))
		require.NoError(t, err, "a response that came in whole is still a response")
		require.Equal(t, "{}", drain(t, resp))
		require.Equal(t, store.StateComplete, record(t, st, "op").State)
	})
}

// An unstable store calls before, once, before a call of the method.
type unstable struct {
	*memstore.Store
	method string
	before func() error
}

func (s *unstable) once(method string) error {
	before := s.before
	if method != s.method || before == nil {
		return nil
	}
	s.before = nil
	return before()
}

func (s *unstable) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := s.once("Reserve"); err != nil {
		return store.Grant{}, err
	}
	return s.Store.Reserve(ctx, c)
}

func (s *unstable) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := s.once("Extend"); err != nil {
		return err
	}
	return s.Store.Extend(ctx, l, d, meta)
}

// Before the first byte the record must show that the effect may be unknown from now on.
func TestAnUnappliedOperationIsMarkedBeforeItIsSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		sent int // by the second call
	}{
		"it is marked":            {nil, 1},
		"another caller was here": {store.ErrLost, 1},
		"the store is down":       {store.ErrUnavailable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := []servertest.Fault{servertest.Status(http.StatusTooManyRequests), servertest.Status(500)}
				srv := servertest.NewInMemory(t, servertest.ScriptNext(script[:1+c.sent]...))
				once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})
				st := &unstable{Store: openStore(t)}
				client := connect(t, srv.Transport(), redo.WithStore(st), once)
				require.Equal(t, redo.NotApplied, fail(t, client, named(t, srv, "op", payment)).Effect)
				require.Len(t, srv.Requests(), 1)

				st.method, st.before = "Extend", func() error { return c.err }
				e := fail(t, client, named(t, srv, "op", payment))
				require.Len(t, srv.Requests(), 1+c.sent)
				op, err := client.Find(t.Context(), "op")
				require.NoError(t, err)
				want := redo.EffectUnknown
				if c.sent == 0 {
					want = redo.NotApplied
					require.Equal(t, taxonomy.Unavailable, e.Code)
				}
				require.Equal(t, []redo.Effect{want, want}, []redo.Effect{e.Effect, op.Effect})
			})
		})
	}
}

func TestAStoreWithoutAVerdictSendsNothing(t *testing.T) {
	srv := servertest.NewInMemory(t)
	e := fail(t, connect(t, srv.Transport(), redo.WithStore(mute{openStore(t)})), named(t, srv, "op", payment))
	require.Equal(t, taxonomy.Unavailable, e.Code)
	require.Empty(t, srv.Requests())
}

// A mute store gives no verdict.
type mute struct{ *memstore.Store }

func (mute) Reserve(context.Context, store.Claim) (store.Grant, error) { return store.Grant{}, nil }

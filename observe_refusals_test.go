package redo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A call that ends before its first attempt is a call: the observer sees its start and its end, and the log has a
// warning.
func TestObserverAndLogSeeCallsThatSendNothing(t *testing.T) {
	type world struct {
		srv *servertest.Server
		st  *faultyStore
		req *http.Request // the call to be seen; its operation "op" may be on record
		ctx context.Context
	}
	begin := func(t *testing.T, w *world) { // leaves the operation pending under k1
		t.Helper()
		crash(t, w.srv, w.st, post(t, redo.WithKey(w.ctx, "k1"), w.srv.URL, payment))
	}
	for _, c := range []struct {
		name    string
		prepare func(*testing.T, *world)
		code    taxonomy.Code
		effect  redo.Effect
		key     string
		resumed bool
		sent    int
	}{
		{"another payload", func(t *testing.T, w *world) {
			begin(t, w)
			w.req = post(t, w.ctx, w.srv.URL, `{"amount":1}`)
		}, taxonomy.PayloadMismatch, redo.NotApplied, "k1", false, 1},
		{"another key than the operation's", func(t *testing.T, w *world) {
			begin(t, w)
			w.req = post(t, redo.WithKey(w.ctx, "k2"), w.srv.URL, payment)
		}, taxonomy.InvalidOperation, redo.EffectUnknown, "k1", true, 1},
		{"a key that the server may have forgotten", func(t *testing.T, w *world) {
			begin(t, w)
			time.Sleep(25 * time.Hour)
		}, taxonomy.KeyExpired, redo.EffectUnknown, "k1", true, 1},
		{"a store that is down", func(_ *testing.T, w *world) {
			w.st.set(store.ErrUnavailable, nil, nil)
		}, taxonomy.Unavailable, redo.NotApplied, "", false, 0},
		{"a disk that is full", func(_ *testing.T, w *world) {
			w.st.set(fmt.Errorf("%w: %w", store.ErrUnavailable, syscall.ENOSPC), nil, nil)
		}, taxonomy.Unavailable, redo.NotApplied, "", false, 0},
		{"a key that is none", func(_ *testing.T, w *world) {
			w.req.Header.Set("Idempotency-Key", `"unfinished`)
		}, taxonomy.KeyMalformed, redo.NotApplied, "", false, 0},
		{"an operation without a name", func(t *testing.T, w *world) {
			w.req = post(t, redo.WithOperation(t.Context(), ""), w.srv.URL, payment)
		}, taxonomy.InvalidOperation, redo.NotApplied, "", false, 0},
		{"a header that can't be sent", func(_ *testing.T, w *world) {
			w.req.Header.Set("X-Note", "a\nb")
		}, taxonomy.InvalidRequest, redo.NotApplied, "", false, 0},
		{"a policy that contradicts itself", func(t *testing.T, w *world) {
			w.req = post(t, redo.WithPolicy(w.ctx, redo.RetryPolicy{MaxAttempts: -1}), w.srv.URL, payment)
		}, taxonomy.InvalidRequest, redo.NotApplied, "", false, 0},
		{"a body that can't be sent twice", func(_ *testing.T, w *world) {
			w.req.GetBody, w.req.ContentLength = nil, 2<<20
			w.req.Body = brokenAfter(2<<20, syscall.EIO) // beyond WithMaxBufferedBody
		}, taxonomy.BodyNotReplayable, redo.NotApplied, "", false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{srv: servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)),
					servertest.Lenient())}
				w.st = &faultyStore{Store: openStore(t)}
				w.ctx = redo.WithOperation(t.Context(), "op")
				w.req = post(t, w.ctx, w.srv.URL, payment)
				c.prepare(t, w)
				var out bytes.Buffer
				log := &eventLog{}
				client := connect(t, w.srv.Transport(), redo.WithStore(w.st), redo.WithObserver(log),
					redo.WithLogger(slog.New(slog.NewJSONHandler(&out, nil))))
				e := fail(t, client, w.req)
				require.Equal(t, []any{c.code, c.effect}, []any{e.Code, e.Effect})
				require.Len(t, w.srv.Requests(), c.sent)

				require.Len(t, log.events, 2, "a start and an end, and no attempt")
				start, ok := log.events[0].what.(redo.OperationStart)
				require.True(t, ok)
				require.Equal(t, []string{"POST", "memory.test"}, []string{start.Method, start.Host})
				require.Equal(t, "operation", log.events[1].span, "the end gets the start's context")
				end, ok := log.events[1].what.(redo.OperationEnd)
				require.True(t, ok)
				require.Same(t, e, end.Err)
				require.Equal(t,
					redo.OperationEnd{Operation: e.Operation, Key: c.key, Effect: c.effect, Resumed: c.resumed,
						Err: e}, end)

				require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
				var line map[string]any
				require.NoError(t, json.Unmarshal(out.Bytes(), &line))
				delete(line, "time")
				delete(line, "error")
				require.Equal(t, map[string]any{"level": "WARN", "msg": "call refused", "operation": e.Operation,
					"idempotency_key": c.key, "error_code": string(c.code)}, line)
			})
		})
	}
}

func TestCallThatIsSentIsNotLoggedAsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(422)))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)),
			redo.WithLogger(slog.New(slog.NewJSONHandler(&out, nil))))
		fail(t, client, named(t, srv, "op", payment))
		succeed(t, client, named(t, srv, "op", payment))
		succeed(t, client, named(t, srv, "op", payment)) // from the store
		require.Empty(t, out.String())
	})
}

// A call that is refused before there is a request is seen too.
func TestRefusalsWithoutARequestAreObserved(t *testing.T) {
	log := &eventLog{}
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) { return answer(r, 201, "{}"), nil }),
		redo.WithStore(openStore(t)), redo.WithObserver(log))
	ctx, report := redo.WithReport(redo.WithOperation(t.Context(), "op"))
	_, err := redo.Call[receipt](ctx, client, http.MethodPost, "http://api.test/", make(chan int))
	require.ErrorIs(t, err, taxonomy.InvalidRequest)
	require.ErrorIs(t, report.Err(), taxonomy.InvalidRequest)
	_, err = client.Resume(t.Context(), redo.Operation{Name: "op"})
	require.ErrorIs(t, err, taxonomy.InvalidOperation)
	var seen []string
	for _, e := range log.events {
		switch what := e.what.(type) {
		case redo.OperationStart:
			seen = append(seen, "start "+what.Operation)
		case redo.OperationEnd:
			seen = append(seen, what.Operation+" "+string(what.Err.Code))
		}
	}
	require.Equal(t, []string{"start op", "op VALIDATION.request", "start op", "op VALIDATION.operation"}, seen)
}

// panicObserver counts the calls that have begun and those that have ended.
type panicObserver struct {
	began int
	ends  []redo.OperationEnd
}

func (o *panicObserver) StartOperation(ctx context.Context, _ redo.OperationStart) context.Context {
	o.began++
	return ctx
}

func (o *panicObserver) EndOperation(_ context.Context, e redo.OperationEnd) {
	o.ends = append(o.ends, e)
}

func TestTheObserverSeesTheEndOfACallThatPanics(t *testing.T) {
	for name, fault := range map[string]func(){
		"a panic": func() { panic("a bug in the transport") }, "a Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			o := &panicObserver{}
			c := connect(t, tripper(func(*http.Request) (*http.Response, error) { fault(); return nil, nil }),
				redo.WithObserver(o), redo.WithStore(openStore(t)))
			var value any
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { value = recover() }()
				ctx := redo.WithOperation(t.Context(), "op")
				_, _ = c.Do(post(t, ctx, "http://api.test/", payment))
			})
			wg.Wait()
			require.Equal(t, name == "a panic", value != nil, "the caller gets it")
			require.Equal(t, 1, o.began)
			require.Len(t, o.ends, 1)
			require.Equal(t, "op", o.ends[0].Operation)
			require.Equal(t, redo.EffectUnknown, o.ends[0].Effect)
			require.ErrorIs(t, o.ends[0].Err, taxonomy.Configuration)
			require.ErrorContains(t, o.ends[0].Err, "redo: the call panicked")
		})
	}
}

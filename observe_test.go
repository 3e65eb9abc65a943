package redo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
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

// An attemptLog keeps how attempts ended.
type attemptLog struct{ ends *[]redo.AttemptEnd }

func (l *attemptLog) StartOperation(ctx context.Context, _ redo.OperationStart) context.Context {
	return ctx
}
func (l *attemptLog) EndOperation(context.Context, redo.OperationEnd) {}
func (l *attemptLog) StartAttempt(ctx context.Context, _ redo.AttemptStart) context.Context {
	return ctx
}
func (l *attemptLog) EndAttempt(_ context.Context, end redo.AttemptEnd) {
	*l.ends = append(*l.ends, end)
}

type spanKey struct{}

// An eventLog is an observer that notes every call with the span that its context carries.
type eventLog struct {
	mu     sync.Mutex
	events []event
}

type event struct {
	what any
	span string
}

func (l *eventLog) note(ctx context.Context, what any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	span, _ := ctx.Value(spanKey{}).(string)
	l.events = append(l.events, event{what, span})
}

func (l *eventLog) StartOperation(ctx context.Context, s redo.OperationStart) context.Context {
	l.note(ctx, s)
	return context.WithValue(ctx, spanKey{}, "operation")
}
func (l *eventLog) EndOperation(ctx context.Context, e redo.OperationEnd) { l.note(ctx, e) }
func (l *eventLog) StartAttempt(ctx context.Context, s redo.AttemptStart) context.Context {
	l.note(ctx, s)
	return context.WithValue(ctx, spanKey{}, "attempt")
}
func (l *eventLog) EndAttempt(ctx context.Context, e redo.AttemptEnd) { l.note(ctx, e) }

func TestObserverIsToldOfEveryStepInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, log := openStore(t), &eventLog{}
		var spans []string
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			span, _ := r.Context().Value(spanKey{}).(string)
			spans = append(spans, span)
			time.Sleep(time.Second)
			if len(spans) == 1 {
				return answer(r, 503, ""), nil
			}
			return answer(r, 201, "{}", "Idempotent-Replayed", "true"), nil
		}), redo.WithStore(st), redo.WithObserver(log))
		call := func() {
			ctx := context.WithValue(redo.WithKey(redo.WithOperation(t.Context(), "op"), "k1"), spanKey{}, "caller")
			succeed(t, client, post(t, ctx, "http://api.test/refunds", payment))
		}
		call()
		require.Equal(t, []string{"attempt", "attempt"}, spans, "requests carry the attempt's context")
		require.Equal(t, []event{
			{redo.OperationStart{Operation: "op", Key: "k1", Method: "POST", Host: "api.test"}, "caller"},
			{redo.AttemptStart{Operation: "op", Key: "k1", Number: 1}, "operation"},
			{redo.AttemptEnd{Operation: "op", Key: "k1", Class: taxonomy.ClassTransient, Attempt: redo.Attempt{
				Number: 1, Status: 503, Code: taxonomy.Unavailable, Wait: rest, Elapsed: time.Second, WireSends: 1,
			}}, "attempt"},
			{redo.AttemptStart{Operation: "op", Key: "k1", Number: 2}, "operation"},
			{redo.AttemptEnd{Operation: "op", Key: "k1", Class: taxonomy.ClassSuccess, Attempt: redo.Attempt{
				Number: 2, Status: 201, Elapsed: time.Second, WireSends: 1,
			}}, "attempt"},
			{
				redo.OperationEnd{
					Operation: "op", Key: "k1", Attempts: 2, Elapsed: 2*time.Second + rest, Effect: redo.Applied,
					Replayed: true,
				},
				"operation",
			},
		}, log.events)

		log.events = nil
		call()
		require.Equal(t, []event{
			{redo.OperationStart{Operation: "op", Key: "k1", Method: "POST", Host: "api.test"}, "caller"},
			{
				redo.OperationEnd{
					Operation: "op", Key: "k1", Effect: redo.Applied, Resumed: true, Stored: true, Replayed: true,
				},
				"operation",
			},
		}, log.events, "returned from the store")
	})
}

func TestObserverIsToldOfAFailureAndOfAResumption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.ResetAfterEffect()))
		st, log := openStore(t), &eventLog{}
		once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})
		req := func() *http.Request {
			return post(t, redo.WithKey(redo.WithOperation(t.Context(), "op"), "k1"), srv.URL, payment)
		}
		e := fail(t, connect(t, srv.Transport(), redo.WithStore(st), redo.WithObserver(log), once), req())
		end, ok := log.events[len(log.events)-1].what.(redo.OperationEnd)
		require.True(t, ok)
		require.Same(t, e, end.Err)
		require.Equal(t, redo.EffectUnknown, end.Effect)
		require.Equal(t, 1, end.Attempts)

		log.events = nil
		succeed(t, connect(t, srv.Transport(), redo.WithStore(st), redo.WithObserver(log), once), req())
		require.Equal(t, redo.OperationStart{Operation: "op", Key: "k1", Method: "POST", Host: "memory.test"},
			log.events[0].what)
	})
}

func TestObserverSeesAnAttemptForEveryOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []redo.AttemptEnd
		srv := servertest.NewInMemory(t, servertest.Script("k1",
			servertest.ResetBeforeRead(), servertest.Delay(time.Minute), servertest.RateLimited(),
			servertest.TruncatedBody(2)))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)), redo.WithObserver(&attemptLog{&ends}),
			redo.WithRetry(redo.RetryPolicy{AttemptTimeout: time.Second, BaseDelay: rest, Jitter: redo.ConstantDelay}))
		succeed(t, client, post(t, redo.WithKey(redo.WithOperation(t.Context(), "op"), "k1"), srv.URL, payment))
		var codes []taxonomy.Code
		for _, end := range ends {
			codes = append(codes, end.Attempt.Code)
		}
		require.Equal(t,
			[]taxonomy.Code{taxonomy.Reset, taxonomy.Timeout, taxonomy.RateLimited, taxonomy.Truncated, ""}, codes)
		require.Equal(t, time.Second, ends[1].Attempt.Elapsed)
		require.ErrorIs(t, ends[1].Attempt.Err, redo.ErrAttemptTimeout)
		srv.Ledger().AssertEffects(t, "k1", 1)
	})
}

func TestLogHasTheContractsAttributesAndNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		srv := servertest.NewInMemory(t,
			servertest.Script("k1", servertest.Status(503), servertest.Status(422).With(stored)))
		st := &faultyStore{Store: openStore(t)}
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithLogger(logger))
		send := func(key, name string) error {
			ctx := redo.WithKey(redo.WithOperation(t.Context(), name), key)
			req := post(t, ctx, "http://user:pa55w0rd@memory.test/refunds?token=qu3ry", `{"card":"b0dy"}`)
			req.Header.Set("Authorization", "Bearer h34der")
			resp, err := client.Do(req)
			if err == nil {
				drain(t, resp)
			}
			return err
		}
		require.ErrorIs(t, send("k1", "first"), taxonomy.Unprocessable)
		require.NoError(t, send("k2", "second"))
		st.set(nil, store.ErrUnavailable, nil)
		require.NoError(t, send("k3", "third"))

		hash := record(t, st, "second").Fingerprint.String()
		type line map[string]any
		var lines []line
		for l := range strings.Lines(out.String()) {
			var m line
			require.NoError(t, json.Unmarshal([]byte(l), &m))
			delete(m, "time")
			lines = append(lines, m)
		}
		transition := func(name, key, from, to string) line {
			return line{
				"level": "DEBUG", "msg": "operation changed state", "operation": name, "idempotency_key": key,
				"payload_hash": hash, "from_state": from, "to_state": to,
			}
		}
		require.Equal(t, []line{
			transition("first", "k1", "none", "pending"),
			{"level": "INFO", "msg": "retrying", "operation": "first", "idempotency_key": "k1", "attempt": 1.0,
				"status": 503.0, "error_code": string(taxonomy.Unavailable), "retry_delay": float64(rest)},
			transition("first", "k1", "pending", "failed"),
			transition("second", "k2", "none", "pending"),
			transition("second", "k2", "pending", "complete"),
			transition("third", "k3", "none", "pending"),
			{
				"level": "WARN", "msg": "outcome not stored: the operation stays pending", "operation": "third",
				"idempotency_key": "k3", "error": "store: unavailable",
			},
		}, lines)
		for _, secret := range []string{"pa55w0rd", "qu3ry", "b0dy", "h34der", "token", "rf_"} {
			require.NotContains(t, out.String(), secret)
		}
	})
}

func TestErrorNeverShowsBodyCredentialsOrQuery(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault servertest.Fault
	}{
		{"a response", servertest.Status(422)},
		{"a reset", servertest.ResetBeforeRead()},
		{"a bad redirect", servertest.Redirect(307, "ftp://other.test/?token=qu3ry")},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.fault))
				req := post(t, t.Context(), "http://user:pa55w0rd@memory.test/refunds?token=qu3ry", `{"card":"b0dy"}`)
				req.Header.Set("Authorization", "Bearer h34der")
				e := fail(t, connect(t, srv.Transport(), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})), req)
				for _, secret := range []string{"pa55w0rd", "qu3ry", "b0dy", "h34der"} {
					require.NotContains(t, e.Error(), secret)
				}
			})
		})
	}
}

func TestNothingIsLoggedByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		defer slog.SetDefault(before)
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)))
		succeed(t, connect(t, srv.Transport(), redo.WithStore(openStore(t))), named(t, srv, "op", payment))
		require.Empty(t, out.String())
	})
}

func TestTheLogHasTheCallersCorrelationID(t *testing.T) {
	for header, want := range map[string]string{
		"X-Correlation-Id": "correlation_id=c1", "X-Request-Id": "correlation_id=c1", "X-Other": "",
	} {
		var out bytes.Buffer
		srv := servertest.NewInMemory(t)
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)), redo.WithLogger(slog.New(
			slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		req := named(t, srv, "op", payment)
		req.Header.Set(header, "c1")
		succeed(t, client, req)
		require.Equal(t, want != "", strings.Contains(out.String(), "correlation_id="), header)
		require.Contains(t, out.String(), want)
	}
}

package otelredo_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/otelredo"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// call sends an operation, with a secret in each part that no output may have.
func call(t *testing.T, client *redo.Client, base, operation string) error {
	t.Helper()
	ctx := redo.WithOperation(t.Context(), operation)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/refunds?token=hunter2",
		strings.NewReader("hunter2"))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer hunter2")
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

func TestOneOperationIsOneTree(t *testing.T) {
	r := newReceiver(t)
	up := servertest.New(t, servertest.ScriptNext(servertest.ResetAfterEffect(), servertest.OK()),
		servertest.WithMiddleware(server.Observe(otelredo.Server(r.options()...))))
	client, err := redo.New(redo.WithStore(memstore.New()), redo.WithObserver(otelredo.Client(r.options()...)))
	require.NoError(t, err)
	require.NoError(t, call(t, client, up.URL, "refund:1"))
	up.Close() // the requests have ended
	r.flush()

	operation := r.named("redo POST")
	require.Len(t, operation, 1)
	require.Equal(t, "refund:1", attribute(operation[0], "operation"))
	require.Equal(t, trace.Status_STATUS_CODE_UNSET, operation[0].Status.GetCode())
	key := attribute(operation[0], "idempotency_key")
	require.NotEmpty(t, key)

	attempts := r.named("redo attempt")
	require.Len(t, attempts, 2)
	slices.SortFunc(attempts, func(a, b *trace.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	for _, a := range attempts {
		require.Equal(t, operation[0].SpanId, a.ParentSpanId)
		require.Equal(t, key, attribute(a, "idempotency_key"))
	}
	require.Equal(t, trace.Status_STATUS_CODE_ERROR, attempts[0].Status.GetCode())
	require.Equal(t, "TRANSIENT.reset", attribute(attempts[0], "error.type"))
	require.Equal(t, trace.Status_STATUS_CODE_UNSET, attempts[1].Status.GetCode())

	kinds := map[string]bool{}
	for _, s := range r.spans {
		if kind := attribute(s, "redo.kind"); kind != "" {
			kinds[kind] = true
			require.Equal(t, key, attribute(s, "idempotency_key"), "one key goes all the way")
		}
	}
	require.Equal(t, map[string]bool{"created": true, "replayed": true}, kinds)

	require.EqualValues(t, 1, r.sum("idempotent.created"))
	require.EqualValues(t, 1, r.sum("idempotent.replayed"))
	require.Zero(t, r.sum("idempotent.operation.active"))
	require.Zero(t, r.sum("idempotent.request.active"))
	exemplars := r.metrics["idempotent.operation.duration"].GetHistogram().DataPoints[0].Exemplars
	require.NotEmpty(t, exemplars)
	require.Equal(t, operation[0].TraceId, exemplars[0].TraceId)
}

// Each path of client and server is taken once: the emitted metrics are exactly those of Metrics.
func TestEveryMetricIsEmitted(t *testing.T) {
	r := newReceiver(t)
	st := &failing{Store: memstore.New()}
	release := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
		w.WriteHeader(http.StatusCreated)
	})
	guarded := server.Middleware(st, server.SharedKeys(), server.Required(), server.Wait(time.Minute),
		server.StoreTimeout(50*time.Millisecond), server.Observe(otelredo.Server(r.options()...)))(handler)
	hung := server.Middleware(st, server.SharedKeys(), server.HandlerTimeout(time.Millisecond),
		server.Observe(otelredo.Server(r.options()...)))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	open := server.Middleware(st, server.SharedKeys(), server.FailOpen(),
		server.StoreTimeout(50*time.Millisecond), server.Observe(otelredo.Server(r.options()...)))(handler)

	up := servertest.New(t, servertest.Bare(), servertest.Handler(guarded))
	post := func(h http.Handler, path, key, body string) { serve(t, h, path, key, body) }
	post(guarded, "/", "k1", "a") // created
	post(guarded, "/", "k1", "a") // replayed
	post(guarded, "/", "k1", "b") // conflict
	post(guarded, "/", "", "a")   // refused
	dead := claimOf(t, "k2", "a")
	dead.Lease = 0 // its owner is gone
	_, err := st.Reserve(t.Context(), dead)
	require.NoError(t, err)
	post(guarded, "/", "k2", "a") // taken over
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { post(guarded, "/slow", "k3", "") }) // one waits
	}
	require.Eventually(t, func() bool {
		r.flush()
		return r.sum("idempotent.request.waiting") == 1
	}, 10*time.Second, time.Millisecond)
	close(release)
	both.Wait()
	post(hung, "/", "k7", "") // timed out
	st.set("Reserve", store.ErrUnavailable)
	post(guarded, "/", "k4", "") // unavailable
	post(open, "/", "k5", "")    // failed open
	st.set("Reserve", nil)
	st.set("Complete", store.ErrLost)
	post(guarded, "/", "k6", "") // a lost lease
	st.set("Complete", nil)

	breaker, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 1, Cooldown: time.Hour})
	require.NoError(t, err)
	client, err := redo.New(redo.WithStore(memstore.New()), redo.WithBreaker(breaker),
		redo.WithRetry(redo.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: time.Millisecond}),
		redo.WithObserver(otelredo.Client(r.options()...)))
	require.NoError(t, err)
	pending, err := otelredo.Pending(client, r.options()...)
	require.NoError(t, err)
	require.NoError(t, call(t, client, up.URL, "refund:1"))
	up.Close()
	require.Error(t, call(t, client, up.URL, "refund:2")) // nothing listens: a wait, then the open breaker
	backlog := events(t, r)
	r.flush()
	require.NoError(t, pending.Unregister())
	require.NoError(t, backlog.Unregister())

	var want, got []string
	for _, m := range otelredo.Metrics() {
		want = append(want, m.Name)
		emitted := r.metrics[m.Name]
		require.NotNil(t, emitted, "%s is not emitted", m.Name)
		require.Equal(t, m.Unit, emitted.Unit, m.Name)
		require.Equal(t, m.Description, emitted.Description, m.Name)
	}
	for name := range r.metrics {
		got = append(got, name)
	}
	require.ElementsMatch(t, want, got)
	require.EqualValues(t, 1, r.metrics["idempotent.pending"].GetGauge().DataPoints[0].GetAsInt())
	require.EqualValues(t, 1, r.sum("idempotent.lease.lost"))
	require.EqualValues(t, 2, r.sum("idempotent.event.attempts"))
	require.EqualValues(t, 2, r.sum("idempotent.inbox.deliveries"))
	require.EqualValues(t, 1, r.metrics["idempotent.destination.disabled"].GetGauge().DataPoints[0].GetAsInt())
	require.NotContains(t, r.raw.String(), "hunter2")
	require.Contains(t, r.raw.String(), "refund:1", "the twin: the operation's name is there")
}

func TestPendingWithoutAStore(t *testing.T) {
	_, err := otelredo.Pending(nil)
	require.ErrorContains(t, err, "nil")
	r := newReceiver(t)
	client, err := redo.New()
	require.NoError(t, err)
	_, err = otelredo.Pending(client, r.options()...)
	require.NoError(t, err)
	require.Error(t, r.meters.ForceFlush(t.Context()), "the collection reports the error of the client")
}

// failing is a store whose methods fail while they are set to.
type failing struct {
	*memstore.Store
	mu  sync.Mutex
	err map[string]error
}

func (f *failing) set(method string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = map[string]error{}
	}
	f.err[method] = err
}

func (f *failing) get(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err[method]
}

func (f *failing) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := f.get("Reserve"); err != nil {
		return store.Grant{}, errors.Join(err)
	}
	return f.Store.Reserve(ctx, c)
}

func (f *failing) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := f.get("Complete"); err != nil {
		return err
	}
	return f.Store.Complete(ctx, l, o)
}

package inbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// A watcher keeps the deliveries that it observes.
type watcher struct {
	mu   sync.Mutex
	seen []inbox.Delivery
}

func (w *watcher) ObserveDelivery(_ context.Context, d inbox.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, d)
}

// last returns the only delivery since the last call.
func (w *watcher) last(t *testing.T) inbox.Delivery {
	t.Helper()
	require.Len(t, w.seen, 1)
	d := w.seen[0]
	w.seen = nil
	return d
}

// An observed delivery has the fields that a test expects.
type observed struct {
	Source, ID string
	Status     inbox.Status
	Code       taxonomy.Code
	Attempt    int
	RetryAfter time.Duration
	Elapsed    time.Duration
	Redriven   bool
	Err        error
}

func TestEachDeliveryIsObservedAndLoggedOnce(t *testing.T) {
	secret := inbox.Event{Source: event.Source, ID: event.ID, Payload: []byte("the secret payload")}
	other := inbox.Event{Source: event.Source, ID: event.ID, Payload: []byte("another secret payload")}
	hash := store.Raw("", "", "", secret.Payload)
	fails := returns(errHandler)
	bubble(t, func(t *testing.T, st *memstore.Store) {
		var w watcher
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		in := newInbox(t, st, inbox.Observe(&w), inbox.Logger(logger), inbox.MaxAttempts(2))
		receive := func(ev inbox.Event, h inbox.Handler) func() error {
			return func() error {
				_, err := in.Receive(t.Context(), ev, h)
				return err
			}
		}
		for _, step := range []struct {
			name    string
			deliver func() error
			want    observed
			level   string
		}{
			{"a failure", receive(secret, func(context.Context, inbox.Event) error {
				time.Sleep(second)
				return errHandler
			}), observed{
				Code: inbox.HandlerFailed, Attempt: 1, RetryAfter: second, Elapsed: second, Err: errHandler,
			}, "INFO"},
			{
				"a rest", receive(secret, unused), observed{Code: taxonomy.InFlight, Attempt: 1, RetryAfter: second},
				"DEBUG",
			},
			{"a conflict", receive(other, unused), observed{Code: taxonomy.PayloadMismatch, Attempt: 1}, "WARN"},
			{"a dead letter", func() error {
				time.Sleep(second)
				return receive(secret, fails)()
			}, observed{
				Status: inbox.DeadLettered, Code: inbox.HandlerFailed, Attempt: 2, Err: errHandler,
			}, "WARN"},
			{"a replay of it", receive(secret, unused), observed{
				Status: inbox.Replayed, Code: inbox.HandlerFailed, Attempt: 2, Err: errHandler,
			}, "DEBUG"},
			{"another payload of it", receive(other, unused), observed{
				Status: inbox.Replayed, Code: taxonomy.PayloadMismatch, Attempt: 2, Err: errHandler,
			}, "WARN"},
			{"a redrive", func() error {
				_, err := in.Redrive(t.Context(), event.Source, event.ID, (&scripted{}).handle)
				return err
			}, observed{Redriven: true, Status: inbox.Processed, Attempt: 3}, "DEBUG"},
			{"a replay", receive(secret, unused), observed{Status: inbox.Replayed, Attempt: 3}, "DEBUG"},
			{"another payload", receive(other, unused), observed{
				Status: inbox.Replayed, Code: taxonomy.PayloadMismatch, Attempt: 3,
			}, "WARN"},
			{"a broken limit", receive(inbox.Event{Source: "s"}, unused), observed{
				Source: "s", Code: taxonomy.BadRequest, Err: store.ErrInvalid,
			}, "WARN"},
		} {
			log.Reset()
			err := step.deliver()
			got := w.last(t)
			if step.want.Source == "" {
				step.want.Source, step.want.ID = event.Source, event.ID
			}
			if step.want.Err == nil {
				require.NoError(t, got.Err, step.name)
			} else {
				require.ErrorContains(t, got.Err, step.want.Err.Error(), step.name)
			}
			require.Equal(t, step.want, observed{
				got.Source, got.ID, got.Status, got.Code, got.Attempts, got.RetryAfter, got.Elapsed, got.Redriven,
				step.want.Err,
			}, step.name)
			require.Equal(t, step.want.Status != 0, got.PayloadHash == hash, step.name)
			require.Equal(t, step.want.Status == 0, err != nil, step.name)
			require.Equal(t, 1, strings.Count(log.String(), "\n"), step.name)
			require.Contains(t, log.String(), "level="+step.level, step.name)
			require.Contains(t, log.String(), "idempotency_key="+step.want.ID, step.name)
			require.Contains(t, log.String(), "source="+step.want.Source, step.name)
			require.NotContains(t, log.String(), "secret", step.name)
			settled := step.want.Status != 0 && step.want.Code == taxonomy.PayloadMismatch
			require.Equal(t, settled, strings.Contains(log.String(), "settled event came"), step.name)
			for attr, logged := range map[string]bool{
				" payload_hash=": step.want.Status != 0, " error_code=": step.want.Code != "",
				" retry_delay=": step.want.RetryAfter > 0, " error=": step.want.Err != nil,
			} {
				require.Equal(t, logged, strings.Contains(log.String(), attr), "%s:%s", step.name, attr)
			}
		}
	})
}

// A handler that does not return has an outcome too.
func TestAHandlerThatDoesNotReturnIsObserved(t *testing.T) {
	for name, h := range map[string]inbox.Handler{
		"panic":  func(context.Context, inbox.Event) error { panic("boom") },
		"Goexit": func(context.Context, inbox.Event) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st *memstore.Store) {
				var w watcher
				in := newInbox(t, st, inbox.Observe(&w), inbox.MaxAttempts(2))
				deliver := func() {
					gone := make(chan struct{})
					go func() {
						defer close(gone)
						defer func() { _ = recover() }()
						_, _ = in.Receive(t.Context(), event, h)
					}()
					<-gone
				}
				deliver()
				d := w.last(t)
				require.Equal(t, inbox.HandlerFailed, d.Code)
				require.Equal(t, 1, d.Attempts)
				require.ErrorContains(t, d.Err, "the handler ")
				time.Sleep(second)
				deliver()
				d = w.last(t)
				require.Equal(t, inbox.DeadLettered, d.Status, "the last attempt")
				require.Equal(t, 2, d.Attempts)
				require.Equal(t, event.Payload, letters(t, in, "")[0].Payload)
			})
		})
	}
}

func TestAFaultIsLoggedAsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		var log bytes.Buffer
		logger := inbox.Logger(slog.New(slog.NewTextHandler(&log, nil)))
		_, err := newInbox(t, mortal(st, 0), logger).Receive(t.Context(), event, unused)
		refused(t, err, taxonomy.Unavailable)
		require.Contains(t, log.String(), "level=ERROR")
		log.Reset()

		e := newEngine(st)
		in, err := inbox.NewTransactional(e, logger)
		require.NoError(t, err)
		e.refuse = store.ErrTxEnded // a refused Rollback
		_, err = in.Receive(t.Context(), event, credit(nil))
		refused(t, err, inbox.HandlerFailed)
		require.Contains(t, log.String(), "level=ERROR")
		require.Contains(t, log.String(), store.ErrTxEnded.Error())
	})
}

// A request that names no event is seen too.
func TestARequestThatIsNotIdentifiedIsObserved(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		var w watcher
		h := newInbox(t, st, inbox.Observe(&w)).Handler(identify, (&scripted{}).handle)
		require.Equal(t, http.StatusBadRequest, deliver(t, h, "", "p").status)
		d := w.last(t)
		require.Equal(t, taxonomy.BadRequest, d.Code)
		require.EqualError(t, d.Err, "X-Event is missing")
		require.Equal(t, http.StatusOK, deliver(t, h, "a", "p").status)
		require.Equal(t, inbox.Processed, w.last(t).Status)
	})
}

// The producer, or the sender of a broker's message, chooses the id.
func TestARefusedEventMakesNoLongLine(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		var log bytes.Buffer
		in := newInbox(t, st, inbox.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		long := strings.Repeat("x", 1<<20)
		for _, ev := range []inbox.Event{{Source: "bank", ID: long}, {Source: long, ID: "e1"}} {
			log.Reset()
			_, err := in.Receive(t.Context(), ev, unused)
			refused(t, err, taxonomy.BadRequest)
			require.Contains(t, log.String(), "delivery refused")
			require.Less(t, log.Len(), 4096)
		}
	})
}

package server_test

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

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// recorder is an observer that keeps its observations.
type recorder struct {
	mu     sync.Mutex
	events []server.Event
	calls  []server.StoreCall
}

func (r *recorder) ObserveRequest(_ context.Context, e server.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) ObserveStore(_ context.Context, s server.StoreCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, s)
}

func (r *recorder) kinds() (kinds []server.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (r *recorder) methods() (methods []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range r.calls {
		methods = append(methods, call.Method)
	}
	return methods
}

func TestObserver(t *testing.T) {
	t.Run("sees each request once, with the end of its record", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			g := newRig(t, memstore.New(), slow(time.Second), server.Required(), server.Observe(&seen))
			g.do()
			g.do()
			g.do(withBody("x"))
			g.do(without("Idempotency-Key"))
			want := []server.Event{
				{Kind: server.Created, Status: 201, Key: "k1", To: store.StateComplete, Elapsed: time.Second},
				{Kind: server.Replayed, Status: 201, Key: "k1", From: store.StateComplete, To: store.StateComplete},
				{
					Kind: server.Conflicted, Status: 409, Key: "k1", Code: taxonomy.PayloadMismatch,
					From: store.StateComplete, To: store.StateComplete,
				},
				{Kind: server.Refused, Status: 400, Code: taxonomy.KeyMissing},
			}
			require.Len(t, seen.events, len(want))
			for i, got := range seen.events {
				require.Equal(t, "/refunds/{id}", got.Operation)
				require.Equal(t, got.Kind != server.Refused, !got.Payload.IsZero())
				got.Operation, got.Payload = "", store.Fingerprint{}
				require.Equal(t, want[i], got)
			}
			var methods []string
			for _, call := range seen.calls {
				methods = append(methods, call.Method)
				require.NoError(t, call.Err)
			}
			require.Equal(t, []string{"Reserve", "Complete", "Reserve", "Reserve"}, methods)
		})
	})
	t.Run("sees how long each call to the store took", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for i, st := range []store.Store{
				newFaults(func(_ string, _ int, do func() error) error { time.Sleep(3 * time.Second); return do() }),
				newBook(func(_ string, _ int, do func() error) error { time.Sleep(3 * time.Second); return do() }),
			} {
				var seen recorder
				opts := []server.Option{server.Observe(&seen)}
				if i == 1 {
					opts = append(opts, server.Transactional[*pen]())
				}
				newRig(t, st, nil, opts...).do()
				require.Len(t, seen.calls, 2)
				for _, call := range seen.calls {
					require.Equal(t, 3*time.Second, call.Elapsed, call.Method)
				}
			}
		})
	})
	t.Run("sees a release, a panic and the store's error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			st := newFaults(failing("Complete", store.ErrLost))
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				switch server.Key(r.Context()) {
				case "panics":
					panic("boom")
				case "fails":
					w.WriteHeader(500)
				}
			}, server.Observe(&seen))
			g.do(withKey("fails"))
			require.Panics(t, func() { g.do(withKey("panics")) })
			g.do(withKey("lost"))
			require.Equal(t, []server.Kind{server.Created, server.Created, server.Unavailable}, seen.kinds())
			for _, e := range seen.events[:2] {
				require.Equal(t, 500, e.Status)
				require.Zero(t, e.To)
			}
			require.Equal(t, taxonomy.Unavailable, seen.events[2].Code)
			require.Equal(t, store.StatePending, seen.events[2].To)
			require.ErrorIs(t, seen.calls[len(seen.calls)-1].Err, store.ErrLost)
		})
	})
}

func TestObserverTellsAHandlersTimeoutFromAFailedStore(t *testing.T) {
	for name, c := range map[string]struct {
		policy server.TakeOverPolicy
	}{
		"the key is released":    {policy: server.Reexecute()},
		"the key is handed back": {policy: server.Refuse()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen recorder
				var log bytes.Buffer
				g := newRig(t, memstore.New(), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
					server.HandlerTimeout(time.Second), server.Observe(&seen), server.TakeOver(c.policy),
					server.Logger(slog.New(slog.NewTextHandler(&log, nil))))
				requireProblem(t, g.do(), 504, "DEPENDENCY.timeout")
				require.Equal(t, []server.Kind{server.TimedOut}, seen.kinds())
				require.Contains(t, log.String(), `level=WARN msg="idempotent request timed out"`)
			})
		})
	}
}

func TestLogger(t *testing.T) {
	lines := func(t *testing.T, edits []func(*http.Request), opts ...server.Option) (lines []map[string]any,
		text string) {
		t.Helper()
		var out bytes.Buffer
		opts = append(opts, server.Logger(slog.New(slog.NewJSONHandler(&out, nil))))
		g := newRig(t, memstore.New(), nil, opts...)
		g.do(edits...)
		g.do(append(edits, withBody("secret-body-2"))...)
		text = out.String()
		for d := json.NewDecoder(&out); d.More(); {
			var line map[string]any
			require.NoError(t, d.Decode(&line))
			lines = append(lines, line)
		}
		return lines, text
	}
	edits := []func(*http.Request){
		withBody("secret-body-1"), withHeader("Authorization", "Bearer secret-token"),
		withHeader("X-Correlation-Id", "c-1"),
		func(r *http.Request) { r.URL.RawQuery = "card=secret-query" },
	}
	t.Run("writes one line for a request, in the contract's words", func(t *testing.T) {
		got, _ := lines(t, edits)
		require.Len(t, got, 2)
		for _, line := range got {
			require.Equal(t, "k1", line["idempotency_key"])
			require.Equal(t, "/refunds/{id}", line["operation"])
			require.Equal(t, "c-1", line["correlation_id"])
			require.Len(t, line["payload_hash"], 66)
		}
		require.Equal(t, "INFO", got[0]["level"])
		require.EqualValues(t, 201, got[0]["status"])
		require.Equal(t, "absent", got[0]["from_state"])
		require.Equal(t, "complete", got[0]["to_state"])
		require.NotContains(t, got[0], "error_code")
		require.Equal(t, "WARN", got[1]["level"])
		require.EqualValues(t, 409, got[1]["status"])
		require.Equal(t, "CONFLICT.idempotency.payload_mismatch", got[1]["error_code"])
	})
	t.Run("writes no ID of a client that is longer than 128 bytes", func(t *testing.T) {
		most := strings.Repeat("c", 128)
		got, _ := lines(t, []func(*http.Request){withHeader("X-Correlation-Id", most)})
		require.Equal(t, most, got[0]["correlation_id"])
		got, _ = lines(t, []func(*http.Request){
			withHeader("X-Correlation-Id", most+"c"), withHeader("X-Request-Id", "r-1"),
		})
		require.Equal(t, "r-1", got[0]["correlation_id"])
	})
	t.Run("writes the key of a request that is refused before it reaches the store", func(t *testing.T) {
		got, _ := lines(t, edits, server.MaxBody(3))
		require.EqualValues(t, 413, got[0]["status"])
		require.Equal(t, "k1", got[0]["idempotency_key"])
	})
	t.Run("never writes bodies, credentials or query strings", func(t *testing.T) {
		_, text := lines(t, edits)
		require.NotContains(t, text, "secret")
	})
	t.Run("never writes the key where there is a pepper", func(t *testing.T) {
		got, text := lines(t, append(edits, withKey("secret-key")), server.Pepper([]byte("0123456789abcdef")))
		require.NotContains(t, text, "secret")
		require.Len(t, got[0]["idempotency_key"], 64)
	})
}

// starter is a RequestObserver.
type starter struct {
	recorder
	started []string
	ended   []any // the values of the contexts that ObserveRequest received
	waits   []int
}

type startKey struct{}

func (s *starter) StartRequest(ctx context.Context, operation string) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, operation)
	return context.WithValue(ctx, startKey{}, len(s.started))
}

func (s *starter) ObserveRequest(ctx context.Context, e server.Event) {
	s.recorder.ObserveRequest(ctx, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, ctx.Value(startKey{}))
}

func (s *starter) ObserveWait(_ context.Context, change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, change)
}

func TestRequestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen starter
		var inside any
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inside = r.Context().Value(startKey{})
			time.Sleep(time.Second)
			w.WriteHeader(http.StatusCreated)
		})
		g := newRig(t, memstore.New(), h, server.Wait(time.Minute), server.Observe(&seen))
		g.do()
		require.Equal(t, 1, inside, "the handler runs on the context of StartRequest")
		require.Equal(t, []any{1}, seen.ended)
		require.Empty(t, seen.waits, "a request that does not wait")

		g.do(without("Idempotency-Key")) // runs plainly, and is not observed
		require.Len(t, seen.started, 1)

		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { g.do(withKey("k2")) })
		}
		both.Wait()
		require.Equal(t, []int{1, -1}, seen.waits)
		require.Len(t, seen.ended, 3)
	})
}

func TestALevelThatIsNotEnabledIsNotLogged(t *testing.T) {
	var out bytes.Buffer
	errorsOnly := &slog.HandlerOptions{Level: slog.LevelError}
	g := newRig(t, newFaults(failing("Complete", store.ErrLost)), func(w http.ResponseWriter, r *http.Request) {
		if server.Key(r.Context()) == "k1" {
			w.WriteHeader(500)
		}
	}, server.Logger(slog.New(slog.NewTextHandler(&out, errorsOnly))))
	g.do()
	require.Empty(t, out.String())
	g.do(withKey("k2"))
	require.Contains(t, out.String(), "level=ERROR")
}

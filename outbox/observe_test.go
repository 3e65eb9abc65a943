package outbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// recorder is an observer that keeps its observations.
type recorder struct {
	mu       sync.Mutex
	attempts []outbox.Attempt
	methods  map[string]int // the calls
	counts   map[string]int // their events
}

func (r *recorder) ObserveAttempt(_ context.Context, a outbox.Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, a)
}

func (r *recorder) ObserveQueue(_ context.Context, q outbox.QueueCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.methods == nil {
		r.methods, r.counts = map[string]int{}, map[string]int{}
	}
	r.methods[q.Method]++
	r.counts[q.Method] += q.Count
}

func TestObserverSeesTheEventsOfEachCall(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen recorder
		g.enqueue(outbox.Event{ID: "a", Destination: "gone"}, outbox.Event{ID: "b", Destination: "hooks"})
		stop := g.relay(g.queue, func(_ context.Context, ev outbox.Event) error {
			if ev.Destination == "gone" {
				return &redo.Error{Code: taxonomy.NotFound, StatusCode: http.StatusGone}
			}
			return nil
		}, outbox.Observe(&seen), outbox.PollInterval(time.Hour))
		synctest.Wait()
		stop()
		require.Equal(g, 1, seen.methods["Disable"])
		require.Equal(g, map[string]int{"Claim": 2, "Settle": 2, "Disable": 0}, seen.counts)
	})
}

func TestObserverSeesEachAttempt(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen recorder
		g.enqueue(outbox.Event{ID: "k", Type: "refund.created", Destination: "hooks", OrderingKey: "a"})
		time.Sleep(5 * time.Second) // its wait for a relay
		refusal, tries := errors.New("later"), 0
		stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
			time.Sleep(time.Second)
			if tries++; tries == 1 {
				return refusal
			}
			return nil
		}, outbox.Observe(&seen), constant(9, time.Minute), outbox.PollInterval(time.Minute))
		defer stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		common := outbox.Attempt{
			ID: "k", Type: "refund.created", Destination: "hooks", OrderingKey: "a", Elapsed: time.Second,
		}
		first, second := common, common
		first.Number, first.Result, first.Code, first.Wait, first.Err = 1, outbox.Waiting, taxonomy.Transient,
			time.Minute, refusal
		first.Lag = 6 * time.Second
		second.Number, second.Result, second.Lag = 2, outbox.Sent, seen.attempts[1].Lag
		require.Equal(g, []outbox.Attempt{first, second}, seen.attempts)
		require.GreaterOrEqual(g, second.Lag, 67*time.Second)
		require.Equal(g, 2, seen.methods["Settle"])
		require.NotZero(g, seen.methods["Claim"])
	})
}

// The queue did not keep the failure and its wait, so that the observer gets neither.
func TestObserverSeesAnAttemptThatWasNotSettledWithoutAResult(t *testing.T) {
	for _, lost := range []error{store.ErrLost, store.ErrInvalid} {
		inBubble(t, func(g *rig) {
			var seen recorder
			g.enqueue(outbox.Event{ID: "k"})
			refusal := errors.New("later")
			stop := g.relay(spoiled{Queue: g.queue, settle: func() error { return lost }},
				func(context.Context, outbox.Event) error { return refusal }, outbox.Observe(&seen))
			synctest.Wait()
			stop()
			require.Len(g, seen.attempts, 1)
			require.ErrorIs(g, seen.attempts[0].Err, lost)
			require.ErrorIs(g, seen.attempts[0].Err, refusal)
			seen.attempts[0].Err = nil
			require.Equal(g, []outbox.Attempt{{ID: "k", Number: 1}}, seen.attempts)
		})
	}
}

// Attempts that end during one write to the queue are settled together, with the events that return to it.
func TestObserverSeesTheAttemptsBehindAReleasedEvent(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "first"}, outbox.Event{ID: "fails", OrderingKey: "a"},
			outbox.Event{ID: "returns", OrderingKey: "a"}, outbox.Event{ID: "last"})
		waits := map[string]time.Duration{"fails": 500 * time.Millisecond, "last": 600 * time.Millisecond}
		var seen recorder
		q := spoiled{Queue: g.queue, settle: func() error { time.Sleep(time.Second); return nil }}
		stop := g.relay(q, func(_ context.Context, ev outbox.Event) error {
			time.Sleep(waits[ev.ID])
			if ev.ID == "fails" {
				return errors.New("unavailable")
			}
			return nil
		}, constant(2, time.Hour), outbox.Observe(&seen))
		time.Sleep(time.Minute)
		stop()
		var ids []string
		for _, a := range seen.attempts {
			ids = append(ids, a.ID)
		}
		require.Equal(g, []string{"first", "fails", "last"}, ids)
	})
}

func TestLogIsInTheContractsWordsAndShowsNoPayload(t *testing.T) {
	inBubble(t, func(g *rig) {
		var out bytes.Buffer
		g.enqueue(outbox.Event{
			ID: "k", Type: "refund.created", Destination: "https://u:secret@h/?secret",
			Header: http.Header{"X": {"secret"}}, Payload: []byte("secret"),
		})
		tries := 0
		stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
			if tries++; tries == 1 {
				return taxonomy.Unavailable
			}
			return outbox.Reject(taxonomy.Gone)
		}, outbox.Logger(slog.New(slog.NewJSONHandler(&out, nil))), constant(9, time.Minute))
		time.Sleep(5 * time.Minute)
		stop()
		require.NotContains(g, out.String(), "secret")
		var lines []map[string]any
		for d := json.NewDecoder(&out); d.More(); {
			var line map[string]any
			require.NoError(g, d.Decode(&line))
			lines = append(lines, line)
		}
		require.Len(g, lines, 2)
		for i, want := range []map[string]any{
			{
				"level": "INFO", "attempt": 1.0, "to_state": "waiting", "error_code": "DEPENDENCY.unavailable",
				"retry_delay": 6e10,
			},
			{"level": "WARN", "attempt": 2.0, "to_state": "dead", "error_code": "VALIDATION.gone"},
		} {
			for name, value := range want {
				require.Equal(g, value, lines[i][name], name)
			}
			require.Equal(g, "k", lines[i]["idempotency_key"])
			require.Equal(g, "refund.created", lines[i]["operation"])
			require.Equal(g, "waiting", lines[i]["from_state"])
			require.Len(g, lines[i]["payload_hash"], 66)
		}
	})
}

// A reader of the log finds a failed attempt by its attributes. No other line has them.
func TestEachLineOfTheLogHasTheAttributesOfItsResult(t *testing.T) {
	common := []string{
		"time", "level", "msg", "idempotency_key", "payload_hash", "operation", "attempt", "from_state", "to_state",
	}
	for rule, c := range map[string]struct {
		err  error
		more []string
	}{
		"sent":     {nil, nil},
		"waiting":  {taxonomy.Unavailable, []string{"error_code", "retry_delay", "error"}},
		"dead":     {outbox.Reject(taxonomy.Gone), []string{"error_code", "error"}},
		"released": {outbox.NotSent(taxonomy.Unavailable), []string{"error_code", "error"}},
	} {
		inBubble(t, func(g *rig) {
			var out bytes.Buffer
			g.enqueue(outbox.Event{ID: "k"})
			stop := g.relay(g.queue, func(context.Context, outbox.Event) error { return c.err },
				outbox.Logger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))))
			synctest.Wait()
			stop()
			var line map[string]any
			require.NoError(g, json.Unmarshal(out.Bytes(), &line), "one line: %s", &out)
			require.ElementsMatch(g, slices.Concat(common, c.more), slices.Collect(maps.Keys(line)), rule)
		})
	}
}

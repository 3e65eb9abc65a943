package outbox

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestPrepare(t *testing.T) {
	t.Run("an id is made when there is none", func(t *testing.T) {
		a, err := Prepare(Event{})
		require.NoError(t, err)
		b, err := Prepare(Event{})
		require.NoError(t, err)
		require.NotEqual(t, a.ID, b.ID)
		require.Len(t, a.ID, 36)
	})
	t.Run("the caller's header is neither changed nor kept", func(t *testing.T) {
		h := http.Header{"content-type": {"a/b"}, "X-A": {"1", "2"}}
		ev, err := Prepare(Event{ID: "k", Header: h})
		require.NoError(t, err)
		require.Equal(t, http.Header{"Content-Type": {"a/b"}, "X-A": {"1", "2"}}, ev.Header)
		ev.Header.Set("X-A", "3")
		require.Equal(t, http.Header{"content-type": {"a/b"}, "X-A": {"1", "2"}}, h)
		ev, err = Prepare(Event{ID: "k", Header: http.Header{"X-A": {"1"}}})
		require.NoError(t, err)
		require.Equal(t, http.Header{"X-A": {"1"}}, ev.Header)
		ev, err = Prepare(Event{ID: "k", Header: http.Header{}})
		require.NoError(t, err)
		require.Nil(t, ev.Header, "as an event without headers comes back from a queue")
	})
	t.Run("an event that can't be delivered is refused, and not shown", func(t *testing.T) {
		header := func(name, value string) Event { return Event{ID: "k", Header: http.Header{name: {value}}} }
		for rule, ev := range map[string]Event{
			"without spaces":              {ID: "a secret"},
			"printable ASCII":             {ID: "ü"},
			"id has 256 bytes":            {ID: strings.Repeat("k", 256)},
			"type has":                    {ID: "k", Type: strings.Repeat("t", MaxType+1)},
			"destination has":             {ID: "k", Destination: strings.Repeat("d", MaxDestination+1)},
			"ordering key has":            {ID: "k", OrderingKey: strings.Repeat("o", MaxOrderingKey+1)},
			"payload has":                 {ID: "k", Payload: make([]byte, MaxPayload+1)},
			"type must be UTF-8":          {ID: "k", Type: "\xff"},
			"ordering key must be UTF-8":  {ID: "k", OrderingKey: "a\x00b"},
			"destination must be UTF-8":   {ID: "k", Destination: "a\nb"},
			"no name of a header":         header("a b", "v"),
			"Idempotency-Key is not":      header("Idempotency-Key", "v"),
			"webhook-id is not":           header("webhook-id", "v"),
			"Connection is not":           header("Connection", "v"),
			"value of X has a control":    header("X", "secret\r\nY: z"),
			"header: it has 16385 bytes,": header("X", strings.Repeat("s", MaxHeader)),
		} {
			_, err := Prepare(ev)
			require.ErrorIs(t, err, store.ErrInvalid, rule)
			require.ErrorContains(t, err, rule)
			if ev.Header != nil {
				require.NotContains(t, err.Error(), "secret")
			}
		}
		require.ErrorContains(t, Event{}.Validate(), "id is empty", "Prepare would make one")
	})
	t.Run("the limits themselves are allowed", func(t *testing.T) {
		_, err := Prepare(Event{
			ID: strings.Repeat("k", MaxID), Type: strings.Repeat("t", MaxType),
			Destination: strings.Repeat("d", MaxDestination),
			OrderingKey: strings.Repeat("o", MaxOrderingKey), Payload: make([]byte, MaxPayload),
		})
		require.NoError(t, err)
	})
}

func TestOptions(t *testing.T) {
	q, p := Queue(nil), PublisherFunc(nil)
	_, err := NewRelay(q, p)
	require.ErrorContains(t, err, "queue is nil")
	_, err = newConfig([]Option{nil})
	require.ErrorContains(t, err, "an option is nil")
	_, err = newConfig([]Option{Workers(-3), PollInterval(-1)})
	require.ErrorContains(t, err, "Workers")
	require.ErrorContains(t, err, "PollInterval", "every wrong option is named")
	require.NotContains(t, err.Error(), "PerDestination", "its default is the number of workers")
}

func TestTheLimitsOfAnOptionAreAllowedAndNoMore(t *testing.T) {
	for _, c := range []struct {
		opt  Option
		rule string
	}{
		{Workers(0), "Workers: 0, it must be from 1 to 1000"},
		{Workers(MaxClaim + 1), "Workers: 1001, it must be from 1 to 1000"},
		{PerDestination(-1), "PerDestination: -1 is negative"},
		{Breaker(-1), "Breaker: -1 is negative"},
		{LeaseTTL(time.Millisecond - 1), "LeaseTTL: 999.999µs, it must be from 1ms to 8784h0m0s"},
		{LeaseTTL(maxWait + 1), "LeaseTTL: 8784h0m0.000000001s, it must be from 1ms to 8784h0m0s"},
		{PollInterval(0), "PollInterval: 0s, it must be positive and at most 8784h0m0s"},
		{PollInterval(maxWait + 1), "PollInterval: 8784h0m0.000000001s, it must be positive and at most 8784h0m0s"},
		{Drain(-1), "Drain: -1ns is negative"},
		{QueueTimeout(0), "QueueTimeout: 0s is not positive"},
		{AttemptTimeout(0), "AttemptTimeout: 0s is not positive"},
		{Retry(0, -1), "Retry: -1ns, a wait must be from 0 to 4392h0m0s"},
		{Retry(maxWait/2 + 1), "Retry: 4392h0m0.000000001s, a wait must be from 0 to 4392h0m0s"},
		{HintCap(-1), "HintCap: -1ns, it must be from 0 to 8784h0m0s"},
		{HintCap(maxWait + 1), "HintCap: 8784h0m0.000000001s, it must be from 0 to 8784h0m0s"},
		{Retention(-1), "Retention: -1ns is negative"},
	} {
		_, err := newConfig([]Option{c.opt})
		require.EqualError(t, err, "outbox: option "+c.rule)
	}
	for i, opt := range []Option{
		Workers(1), Workers(MaxClaim), PerDestination(0), Breaker(0), LeaseTTL(time.Millisecond), LeaseTTL(maxWait),
		PollInterval(1), PollInterval(maxWait), Drain(0), QueueTimeout(1), AttemptTimeout(1), Retry(), Retry(0, maxWait/2),
		HintCap(0), HintCap(maxWait), Retention(0), Retention(store.Forever),
	} {
		_, err := newConfig([]Option{opt})
		require.NoError(t, err, i)
	}
}

func TestBatchHasNoEventTwice(t *testing.T) {
	evs, ids, err := PrepareBatch([]Event{{ID: "a"}, {}, {ID: "a", Destination: "d"}, {}})
	require.NoError(t, err)
	require.Len(t, evs, 4)
	for i, ev := range evs {
		require.Equal(t, ids[i], ev.ID)
	}
	require.Equal(t, []string{"a", "a"}, []string{ids[0], ids[2]})
	require.NotEqual(t, ids[1], ids[3])

	_, _, err = PrepareBatch([]Event{{ID: "a", Destination: "d"}, {ID: "b"}, {ID: "a", Destination: "d"}})
	require.ErrorIs(t, err, ErrDuplicate)
	require.ErrorContains(t, err, `"a"`)
	_, _, err = PrepareBatch([]Event{{ID: "a"}, {ID: "\n"}})
	require.ErrorIs(t, err, store.ErrInvalid)
}

func TestClaimsAndOutcomesHaveLimits(t *testing.T) {
	claim := Claim{Max: MaxClaim, Lease: time.Millisecond, Room: map[string]int{"d": 0}}
	require.NoError(t, claim.Validate())
	for rule, change := range map[string]func(*Claim){
		"maximum is 0":               func(c *Claim) { c.Max = 0 },
		"maximum is 1001":            func(c *Claim) { c.Max = MaxClaim + 1 },
		"limit for a destination":    func(c *Claim) { c.PerDestination = -1 },
		"room for a destination":     func(c *Claim) { c.Room = map[string]int{"d": -1} },
		"the lease is 999.999µs":     func(c *Claim) { c.Lease-- },
		"the lease is 8784h0m0.0000": func(c *Claim) { c.Lease = maxWait + 1 },
	} {
		wrong := claim
		change(&wrong)
		err := wrong.Validate()
		require.ErrorIs(t, err, store.ErrInvalid, rule)
		require.ErrorContains(t, err, rule)
	}
	claim.Lease = maxWait
	require.NoError(t, claim.Validate(), "the longest lease")
	failure := Failure{
		Code: taxonomy.Code(strings.Repeat("c", maxCode)), Response: strings.Repeat("r", MaxResponse),
		Reason: strings.Repeat("t", MaxReason),
	}
	outcome := Outcome{Result: Dead, Wait: maxWait, Failure: failure}
	require.NoError(t, outcome.Validate())
	require.NoError(t, Outcome{Result: Sent}.Validate())
	require.NoError(t, Outcome{Result: Released}.Validate())
	for rule, change := range map[string]func(*Outcome){
		"the outcome is none":      func(o *Outcome) { o.Result = 0 },
		"the outcome is Result(5)": func(o *Outcome) { o.Result = Released + 1 },
		"the wait is -1ns":         func(o *Outcome) { o.Wait = -1 },
		"the wait is 8784h0m0.0":   func(o *Outcome) { o.Wait = maxWait + 1 },
		"code has 256 bytes":       func(o *Outcome) { o.Failure.Code += "c" },
		"response has 513 bytes":   func(o *Outcome) { o.Failure.Response += "r" },
		"reason has 1025 bytes":    func(o *Outcome) { o.Failure.Reason += "t" },
	} {
		wrong := outcome
		change(&wrong)
		err := wrong.Validate()
		require.ErrorIs(t, err, store.ErrInvalid, rule)
		require.ErrorContains(t, err, rule)
	}
}

func TestResultHasAName(t *testing.T) {
	require.Equal(t, "none", Result(0).String())
	require.Equal(t, "released", Released.String())
	require.Equal(t, "Result(5)", (Released + 1).String())
}

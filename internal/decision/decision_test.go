package decision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

const ms = time.Millisecond

// TestDecide states the rules of the contract's section 3 one by one. Each is a change to a keyed POST that was refused
// with 503, with time left.
func TestDecide(t *testing.T) {
	transient := taxonomy.Verdict{Code: taxonomy.Unavailable, Class: taxonomy.ClassTransient}
	retry := func(wait time.Duration) Decision { return Decision{Retry: true, Again: true, Wait: wait} }
	later := func(wait time.Duration, why error) Decision { return Decision{Again: true, Wait: wait, Why: why} }
	keyless := Decision{Why: ErrKeyless}
	for _, c := range []struct {
		name   string
		change func(*Evidence)
		want   Decision
	}{
		{"a transient failure is retried after the schedule's wait", func(*Evidence) {}, retry(50 * ms)},
		{"a success is not retried", func(s *Evidence) { s.Verdict.Class = taxonomy.ClassSuccess }, Decision{}},
		{
			"a terminal failure is not retried",
			func(s *Evidence) { s.Verdict.Class = taxonomy.ClassTerminal }, Decision{},
		},
		{
			"a terminal failure is not retried with any hint",
			func(s *Evidence) { s.Verdict.Class, s.Hint = taxonomy.ClassTerminal, ms }, Decision{},
		},

		{
			"a hint wins over a shorter schedule",
			func(s *Evidence) { s.Hint = 7 * time.Second }, retry(7 * time.Second),
		},
		{
			"the schedule is a shorter hint's lower bound",
			func(s *Evidence) { s.Hint = ms }, retry(50 * ms),
		},
		{"a hint of zero means by the schedule", func(s *Evidence) { s.Hint = 0 }, retry(50 * ms)},
		{
			"a hint without a schedule is the wait",
			func(s *Evidence) { s.Schedule, s.Hint = 0, ms }, retry(ms),
		},
		{
			"a hint is not capped by the policy's largest wait",
			func(s *Evidence) { s.Hint = 8 * time.Second }, retry(8 * time.Second),
		},
		{
			"a hint that does not fit is not shortened and not slept",
			func(s *Evidence) { s.Hint = time.Hour }, later(time.Hour, ErrTooLate),
		},

		{"a wait that just fits is slept", func(s *Evidence) { s.Left = 50*ms + 1 }, retry(50 * ms)},
		{
			"a wait that ends at the deadline is not slept",
			func(s *Evidence) { s.Left = 50 * ms }, later(50*ms, ErrTooLate),
		},
		{
			"no time left ends even a retry without a wait",
			func(s *Evidence) { s.Schedule, s.Left = 0, 0 }, later(0, ErrTooLate),
		},
		{
			"a deadline that has passed ends it",
			func(s *Evidence) { s.Left = -time.Second }, later(50*ms, ErrTooLate),
		},

		{"the last attempt is the last", func(s *Evidence) { s.Last = true }, later(50*ms, ErrAttempts)},

		{
			"a body that can't be replayed is not",
			func(s *Evidence) { s.Body = ErrNotReplayable }, later(50*ms, ErrNotReplayable),
		},
		{
			"a body that can't be replayed is not even when nothing was sent",
			func(s *Evidence) { s.Body, s.Sent = ErrNotReplayable, false }, later(50*ms, ErrNotReplayable),
		},

		{"POST without a key is not retried once it was sent", func(s *Evidence) { s.Keyed = false }, keyless},
		{
			"PATCH without a key is not retried once it was sent",
			func(s *Evidence) { s.Keyed, s.Method = false, "PATCH" }, keyless,
		},
		{
			"POST without a key that was refused before any work makes sense later, in another call",
			func(s *Evidence) { s.Keyed, s.Hint, s.Verdict.Effect = false, time.Second, taxonomy.NotApplied },
			later(time.Second, ErrKeyless),
		},
		{
			"an unknown method without a key is not retried once it was sent",
			func(s *Evidence) { s.Keyed, s.Method = false, "REFUND" }, keyless,
		},
		{"a method in lower case is another method", func(s *Evidence) { s.Keyed, s.Method = false, "put" }, keyless},
		{
			"no hint makes a keyless POST safe",
			func(s *Evidence) { s.Keyed, s.Hint = false, ms }, keyless,
		},
		{
			"POST without a key is retried when nothing was sent",
			func(s *Evidence) { s.Keyed, s.Sent = false, false }, retry(50 * ms),
		},
		{"GET needs no key", func(s *Evidence) { s.Keyed, s.Method = false, "GET" }, retry(50 * ms)},
		{"the empty method is GET", func(s *Evidence) { s.Keyed, s.Method = false, "" }, retry(50 * ms)},
		{"HEAD needs no key", func(s *Evidence) { s.Keyed, s.Method = false, "HEAD" }, retry(50 * ms)},
		{"OPTIONS needs no key", func(s *Evidence) { s.Keyed, s.Method = false, "OPTIONS" }, retry(50 * ms)},
		{"TRACE needs no key", func(s *Evidence) { s.Keyed, s.Method = false, "TRACE" }, retry(50 * ms)},
		{"QUERY needs no key", func(s *Evidence) { s.Keyed, s.Method = false, "QUERY" }, retry(50 * ms)},
		{"PUT needs no key", func(s *Evidence) { s.Keyed, s.Method = false, "PUT" }, retry(50 * ms)},
		{"DELETE needs no key", func(s *Evidence) { s.Keyed, s.Method = false, "DELETE" }, retry(50 * ms)},

		{
			"the keyless rule comes before the body's",
			func(s *Evidence) { s.Keyed, s.Body = false, ErrNotReplayable }, keyless,
		},
		{
			"the body's rule comes before the attempts'",
			func(s *Evidence) { s.Body, s.Last = ErrNotReplayable, true }, later(50*ms, ErrNotReplayable),
		},
		{
			"the attempts' rule comes before the deadline's",
			func(s *Evidence) { s.Last, s.Left = true, 0 }, later(50*ms, ErrAttempts),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Evidence{
				Verdict: transient, Method: "POST", Keyed: true, Sent: true,
				Schedule: 50 * ms, Left: 10 * time.Second,
			}
			c.change(&s)
			require.Equal(t, c.want, Decide(s))
		})
	}
}

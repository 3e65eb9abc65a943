package redo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

// TestDecide states the rules of the contract's section 3 one by one. Each is a change to a keyed POST that was refused
// with 503, with time left.
func TestDecide(t *testing.T) {
	transient := taxonomy.Verdict{Code: taxonomy.Unavailable, Class: taxonomy.ClassTransient}
	retry := func(wait time.Duration) decision { return decision{retry: true, again: true, wait: wait} }
	later := func(wait time.Duration, why error) decision { return decision{again: true, wait: wait, why: why} }
	keyless := decision{why: ErrKeyless}
	for _, c := range []struct {
		name   string
		change func(*evidence)
		want   decision
	}{
		{"a transient failure is retried after the schedule's wait", func(*evidence) {}, retry(50 * ms)},
		{"the schedule goes by the attempts made", func(s *evidence) { s.attempt = 3 }, retry(200 * ms)},
		{
			"the schedule is given the wait before",
			func(s *evidence) { s.policy.Jitter, s.prev = DecorrelatedJitter, 300*ms }, retry(500 * ms),
		},
		{"a success is not retried", func(s *evidence) { s.verdict.Class = taxonomy.ClassSuccess }, decision{}},
		{
			"a terminal failure is not retried",
			func(s *evidence) { s.verdict.Class = taxonomy.ClassTerminal }, decision{},
		},
		{
			"a terminal failure is not retried whatever the hint",
			func(s *evidence) { s.verdict.Class, s.hint, s.hinted = taxonomy.ClassTerminal, ms, true }, decision{},
		},

		{
			"a hint wins over a shorter schedule",
			func(s *evidence) { s.hint, s.hinted = 7*time.Second, true }, retry(7 * time.Second),
		},
		{
			"the schedule is a shorter hint's lower bound",
			func(s *evidence) { s.hint, s.hinted = ms, true }, retry(50 * ms),
		},
		{"a hint of zero means by the schedule", func(s *evidence) { s.hint, s.hinted = 0, true }, retry(50 * ms)},
		{
			"a hint without a schedule is the wait",
			func(s *evidence) { s.policy.Jitter, s.hint, s.hinted = NoDelay, ms, true }, retry(ms),
		},
		{"no hint is none, whatever its value", func(s *evidence) { s.hint = time.Hour }, retry(50 * ms)},
		{
			"a hint is not capped by the policy's largest wait",
			func(s *evidence) { s.hint, s.hinted = 8*time.Second, true }, retry(8 * time.Second),
		},
		{
			"a hint that does not fit is not shortened and not slept",
			func(s *evidence) { s.hint, s.hinted = time.Hour, true }, later(time.Hour, ErrTooLate),
		},

		{"a wait that just fits is slept", func(s *evidence) { s.left = 50*ms + 1 }, retry(50 * ms)},
		{
			"a wait that ends at the deadline is not slept",
			func(s *evidence) { s.left = 50 * ms }, later(50*ms, ErrTooLate),
		},
		{
			"no time left ends even a retry without a wait",
			func(s *evidence) { s.policy.Jitter, s.left = NoDelay, 0 }, later(0, ErrTooLate),
		},
		{
			"a deadline that has passed ends it",
			func(s *evidence) { s.left = -time.Second }, later(50*ms, ErrTooLate),
		},

		{"the last attempt but one is followed by another", func(s *evidence) { s.attempt = 4 }, retry(400 * ms)},
		{"the last attempt is the last", func(s *evidence) { s.attempt = 5 }, later(800*ms, ErrAttempts)},
		{"one attempt never retries", func(s *evidence) { s.policy.MaxAttempts = 1 }, later(50*ms, ErrAttempts)},

		{
			"a body that can't be replayed is not",
			func(s *evidence) { s.replayable = false }, later(50*ms, ErrNotReplayable),
		},
		{
			"a body that can't be replayed is not even when nothing was sent",
			func(s *evidence) { s.replayable, s.sent = false, false }, later(50*ms, ErrNotReplayable),
		},

		{"POST without a key is not retried once it was sent", func(s *evidence) { s.keyed = false }, keyless},
		{
			"PATCH without a key is not retried once it was sent",
			func(s *evidence) { s.keyed, s.method = false, "PATCH" }, keyless,
		},
		{
			"an unknown method without a key is not retried once it was sent",
			func(s *evidence) { s.keyed, s.method = false, "REFUND" }, keyless,
		},
		{"a method in lower case is another method", func(s *evidence) { s.keyed, s.method = false, "put" }, keyless},
		{
			"no hint makes a keyless POST safe",
			func(s *evidence) { s.keyed, s.hint, s.hinted = false, ms, true }, keyless,
		},
		{
			"POST without a key is retried when nothing was sent",
			func(s *evidence) { s.keyed, s.sent = false, false }, retry(50 * ms),
		},
		{"GET needs no key", func(s *evidence) { s.keyed, s.method = false, "GET" }, retry(50 * ms)},
		{"the empty method is GET", func(s *evidence) { s.keyed, s.method = false, "" }, retry(50 * ms)},
		{"HEAD needs no key", func(s *evidence) { s.keyed, s.method = false, "HEAD" }, retry(50 * ms)},
		{"OPTIONS needs no key", func(s *evidence) { s.keyed, s.method = false, "OPTIONS" }, retry(50 * ms)},
		{"TRACE needs no key", func(s *evidence) { s.keyed, s.method = false, "TRACE" }, retry(50 * ms)},
		{"QUERY needs no key", func(s *evidence) { s.keyed, s.method = false, "QUERY" }, retry(50 * ms)},
		{"PUT needs no key", func(s *evidence) { s.keyed, s.method = false, "PUT" }, retry(50 * ms)},
		{"DELETE needs no key", func(s *evidence) { s.keyed, s.method = false, "DELETE" }, retry(50 * ms)},

		{
			"the keyless rule comes before the body's",
			func(s *evidence) { s.keyed, s.replayable = false, false }, keyless,
		},
		{
			"the body's rule comes before the attempts'",
			func(s *evidence) { s.replayable, s.attempt = false, 5 }, later(800*ms, ErrNotReplayable),
		},
		{
			"the attempts' rule comes before the deadline's",
			func(s *evidence) { s.attempt, s.left = 5, 0 }, later(800*ms, ErrAttempts),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := evidence{
				verdict: transient, policy: RetryPolicy{}.withDefaults(), method: "POST", keyed: true, sent: true,
				replayable: true,
				attempt:    1, left: 10 * time.Second, random: 0.5,
			}
			c.change(&s)
			require.Equal(t, c.want, decide(s))
		})
	}
}

package outbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

func TestDecide(t *testing.T) {
	policy, err := complete(redo.RetryPolicy{MaxAttempts: 4, BaseDelay: 10 * time.Second, MaxDelay: time.Minute, MaxElapsed: time.Hour})
	require.NoError(t, err)
	later := errors.New("later")
	dead := func(code taxonomy.Code, err error) Outcome {
		return Outcome{Result: Dead, Failure: Failure{Code: code, Reason: err.Error()}}
	}
	wait := func(d time.Duration, code taxonomy.Code, err error) Outcome {
		return Outcome{Result: Waiting, Wait: d, Failure: Failure{Code: code, Reason: err.Error()}}
	}
	coded := func(code taxonomy.Code) error { return fmt.Errorf("hook: %w", code) }
	for _, c := range []struct {
		rule string
		a    attempted
		want Outcome
	}{
		{"an acknowledged event is sent", attempted{number: 1}, Outcome{Result: Sent}},
		{"an event that was applied before is sent", attempted{number: 1, err: coded(taxonomy.Duplicate)}, Outcome{Result: Sent}},
		{"an error without a code is transient", attempted{number: 1, random: 0.5, err: later}, wait(5*time.Second, taxonomy.Transient, later)},
		{"the wait doubles", attempted{number: 3, random: 0.5, err: later}, wait(20*time.Second, taxonomy.Transient, later)},
		{"the wait is capped", attempted{number: 3, random: 0.999999999999, policy: redo.RetryPolicy{
			MaxAttempts: 9, BaseDelay: time.Second, MaxDelay: time.Second, MaxElapsed: time.Hour, Jitter: redo.ConstantDelay,
		}, err: later}, wait(time.Second, taxonomy.Transient, later)},
		{"a hint is never shortened", attempted{number: 1, random: 0.5, hint: 3 * time.Minute, err: coded(taxonomy.RateLimited)}, wait(3*time.Minute, taxonomy.RateLimited, coded(taxonomy.RateLimited))},
		{"a hint does not shorten the schedule", attempted{number: 1, random: 0.5, hint: time.Second, err: later}, wait(5*time.Second, taxonomy.Transient, later)},
		{"the last attempt makes a dead letter", attempted{number: 4, err: later}, dead(taxonomy.Transient, later)},
		{"a wait beyond the schedule makes a dead letter", attempted{number: 1, hint: time.Hour, tried: time.Nanosecond, err: later}, dead(taxonomy.Transient, later)},
		{"a wait up to the schedule's end is waited", attempted{number: 1, hint: time.Hour, err: later}, wait(time.Hour, taxonomy.Transient, later)},
		{"a terminal code makes a dead letter at once", attempted{number: 1, err: coded(taxonomy.Gone)}, dead(taxonomy.Gone, coded(taxonomy.Gone))},
		{"a rejection makes a dead letter at once", attempted{number: 1, err: Reject(later)}, dead(Rejected, later)},
		{"a rejection keeps its code", attempted{number: 1, err: Reject(coded(taxonomy.Internal))}, dead(taxonomy.Internal, coded(taxonomy.Internal))},
		{"a closed client says nothing of the event", attempted{number: 1, random: 0.5, err: &redo.Error{Code: taxonomy.ClientClosed}},
			wait(5*time.Second, taxonomy.ClientClosed, &redo.Error{Code: taxonomy.ClientClosed})},
		{"an attempt that took too long is transient", attempted{number: 1, random: 0.5, err: &redo.Error{Code: taxonomy.CallerDeadline}},
			wait(5*time.Second, taxonomy.Timeout, &redo.Error{Code: taxonomy.CallerDeadline})},
		{"an error of the client's that says applied is sent", attempted{number: 1, err: &redo.Error{Code: taxonomy.ResultNotStored, Effect: redo.Applied}}, Outcome{Result: Sent}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if c.a.policy.MaxAttempts == 0 {
				c.a.policy = policy
			}
			got := decide(c.a)
			require.Equal(t, c.want, got)
			require.NoError(t, got.Validate())
		})
	}
}

func TestSchedule(t *testing.T) {
	t.Run("zero fields are the default's", func(t *testing.T) {
		got, err := complete(redo.RetryPolicy{})
		require.NoError(t, err)
		require.NotNil(t, got.Jitter)
		got.Jitter = nil
		want := Schedule()
		want.Jitter = nil
		require.Equal(t, want, got)
	})
	t.Run("the default tries for about three days, and never longer", func(t *testing.T) {
		p := Schedule()
		nominal := time.Duration(0)
		for n := range p.MaxAttempts - 1 {
			nominal += p.Jitter(n, 0, p, 0.5) // on average
		}
		require.Equal(t, 71*time.Hour+20*time.Minute, nominal.Truncate(5*time.Minute))
		require.Equal(t, 72*time.Hour, p.MaxElapsed)
	})
	t.Run("a contradiction is refused", func(t *testing.T) {
		for _, p := range []redo.RetryPolicy{
			{MaxAttempts: -1}, {BaseDelay: -1}, {MaxDelay: -1}, {MaxElapsed: -1}, {AttemptTimeout: -1},
			{BaseDelay: time.Hour, MaxDelay: time.Minute}, {MaxDelay: 1 << 62},
		} {
			_, err := complete(p)
			require.ErrorContains(t, err, "option Retry", "%+v", p)
		}
	})
}

func TestReasonIsCutBetweenCharacters(t *testing.T) {
	got := reason(errors.New("a" + strings.Repeat("ü", MaxReason) + "\xff"))
	require.Len(t, got, MaxReason-1)
	require.True(t, utf8.ValidString(got))
	require.Equal(t, "a\uFFFDb\uFFFD", reason(errors.New("a\x00b\xff")))
}

func TestPauseDoublesWithFailures(t *testing.T) {
	require.Equal(t, time.Second, pause(time.Second, 0, 0.5))
	require.Equal(t, 750*time.Millisecond, pause(time.Second, 0, 0))
	require.Equal(t, 8*time.Second, pause(time.Second, 3, 0.5))
	require.Equal(t, longest, pause(time.Second, 99, 0.5))
	require.Equal(t, time.Hour, pause(time.Hour, 99, 0.5))
}

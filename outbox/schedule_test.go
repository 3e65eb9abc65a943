package outbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

func TestDecide(t *testing.T) {
	waits := []time.Duration{10 * time.Second, time.Minute}
	later := errors.New("later")
	fails := func(r Result, d time.Duration, code taxonomy.Code, err error) Outcome {
		return Outcome{Result: r, Wait: d, Failure: Failure{Code: code, Reason: err.Error()}}
	}
	wait := func(d time.Duration, code taxonomy.Code, err error) Outcome { return fails(Waiting, d, code, err) }
	coded := func(code taxonomy.Code) error { return fmt.Errorf("hook: %w", code) }
	call := func(code taxonomy.Code, status int, sends int) *redo.Error {
		return &redo.Error{
			Code: code, StatusCode: status, Effect: redo.NotApplied, Attempts: []redo.Attempt{{WireSends: sends}},
		}
	}
	for _, c := range []struct {
		rule string
		a    attempted
		want Outcome
		verdict
	}{
		{"an acknowledged event is sent", attempted{number: 1}, Outcome{Result: Sent}, delivered},
		{
			"an event that was applied before is sent", attempted{number: 1, err: coded(taxonomy.Duplicate)},
			Outcome{Result: Sent}, delivered,
		},
		{
			"an error without a code is retried", attempted{number: 1, err: later},
			wait(10*time.Second, taxonomy.Transient, later), failed,
		},
		{"an error with a terminal code is retried", attempted{number: 1, err: coded(taxonomy.NotFound)},
			wait(10*time.Second, taxonomy.NotFound, coded(taxonomy.NotFound)), failed},
		{
			"each attempt has its wait", attempted{number: 2, err: later},
			wait(time.Minute, taxonomy.Transient, later), failed,
		},
		{
			"a wait is 20 % shorter at most", attempted{number: 1, random: -1, err: later},
			wait(8*time.Second, taxonomy.Transient, later), failed,
		},
		{
			"a wait is 20 % longer at most", attempted{number: 1, random: 1, err: later},
			wait(12*time.Second, taxonomy.Transient, later), failed,
		},
		{"a hint is never shortened", attempted{number: 1, hint: 3 * time.Minute, err: coded(taxonomy.RateLimited)},
			wait(3*time.Minute, taxonomy.RateLimited, coded(taxonomy.RateLimited)), failed},
		{
			"a hint does not shorten the schedule", attempted{number: 1, hint: time.Second, err: later},
			wait(10*time.Second, taxonomy.Transient, later), failed,
		},
		{
			"the last attempt makes a dead letter", attempted{number: 3, err: later},
			fails(Dead, 0, taxonomy.Transient, later), failed,
		},
		{
			"a rejection makes a dead letter immediately", attempted{number: 1, err: Reject(later)},
			fails(Dead, 0, Rejected, later), rejected,
		},
		{"a rejection keeps its code", attempted{number: 1, err: Reject(coded(taxonomy.Internal))},
			fails(Dead, 0, taxonomy.Internal, coded(taxonomy.Internal)), rejected},
		{
			"an event of a gone destination waits", attempted{number: 1, err: Gone(later)},
			wait(0, taxonomy.Transient, later), gone,
		},
		{"and does not die of it", attempted{number: 3, err: Gone(later)}, Outcome{Result: Released}, gone},
		{
			"an attempt that sent nothing is not counted", attempted{number: 3, err: NotSent(later)},
			Outcome{Result: Released}, notSent,
		},
		{
			"an open breaker sent nothing", attempted{number: 1, err: call(taxonomy.Unavailable, 0, 0)},
			Outcome{Result: Released}, notSent,
		},
		{
			"an unknown host got nothing", attempted{number: 1, err: call(taxonomy.UnknownHost, 0, 0)},
			Outcome{Result: Released}, notSent,
		},
		{
			"a time limit before the connection sent nothing",
			attempted{number: 1, err: call(taxonomy.CallerDeadline, 0, 0)}, Outcome{Result: Released}, notSent,
		},
		{
			"a closed client sent nothing", attempted{number: 1, err: call(taxonomy.ClientClosed, 0, 0)},
			Outcome{Result: Released}, notSent,
		},
		{"a client that can't send the event ends it", attempted{number: 1, err: call(taxonomy.PayloadMismatch, 0, 0)},
			fails(Dead, 0, taxonomy.PayloadMismatch, call(taxonomy.PayloadMismatch, 0, 0)), rejected},
		{"a connection that broke may have sent it", attempted{number: 1, err: call(taxonomy.Reset, 0, 1)},
			wait(10*time.Second, taxonomy.Reset, call(taxonomy.Reset, 0, 1)), failed},
		{"an attempt that took too long is retried", attempted{number: 1, err: call(taxonomy.CallerDeadline, 0, 1)},
			wait(10*time.Second, taxonomy.Timeout, call(taxonomy.CallerDeadline, 0, 1)), failed},
		{"a call that was applied is sent",
			attempted{number: 1, err: &redo.Error{Code: taxonomy.ResultNotStored, Effect: redo.Applied}},
			Outcome{Result: Sent}, delivered},
	} {
		t.Run(c.rule, func(t *testing.T) {
			c.a.waits = waits
			switch c.a.random {
			case -1:
				c.a.random = 0
			case 0:
				c.a.random = 0.5
			}
			got, v, _ := decide(c.a)
			require.Equal(t, c.want, got)
			require.Equal(t, c.verdict, v)
			require.NoError(t, got.Validate())
		})
	}
}

func TestSchedule(t *testing.T) {
	text, total := "immediately", time.Duration(0)
	for _, w := range Schedule() {
		total += w
		switch {
		case w >= time.Hour:
			text += fmt.Sprintf(", %d h", w/time.Hour)
		case w >= time.Minute:
			text += fmt.Sprintf(", %d min", w/time.Minute)
		default:
			text += fmt.Sprintf(", %d s", w/time.Second)
		}
	}
	require.Equal(t, 75*time.Hour+35*time.Minute+5*time.Second, total)
	for _, page := range []string{"../docs/webhooks.md", "doc.go"} {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		plain := strings.Join(strings.Fields(strings.ReplaceAll(string(b), "//", " ")), " ")
		require.True(t, strings.Contains(plain, text), "%s must show the schedule: %s", page, text)
	}
	require.Equal(t, time.Duration(1<<63-1), span([]time.Duration{1 << 62, 1 << 62}))
	require.Equal(t, 12*time.Second, span([]time.Duration{4 * time.Second, 6 * time.Second}))
}

func TestPauseDoublesWithFailures(t *testing.T) {
	require.Equal(t, time.Second, pause(time.Second, 0, 0.5))
	require.Equal(t, 750*time.Millisecond, pause(time.Second, 0, 0))
	require.Equal(t, 8*time.Second, pause(time.Second, 3, 0.5))
	require.Equal(t, longest, pause(time.Second, 99, 0.5))
	require.Equal(t, time.Hour, pause(time.Hour, 99, 0.5))
}

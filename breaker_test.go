package redo

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

func TestNewBreakerRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy BreakerPolicy
		want   string
	}{
		{"negative failures", BreakerPolicy{Failures: -1}, "redo: breaker: Failures is -1, it must not be negative"},
		{"a negative cooldown", BreakerPolicy{Cooldown: -time.Second}, "redo: breaker: Cooldown is -1s, it must not be negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := NewBreaker(c.policy)
			require.EqualError(t, err, c.want)
			require.Nil(t, b)
		})
	}
}

// circuits drives a breaker of three failures and a minute.
type circuits struct {
	t *testing.T
	Breaker
}

func newCircuits(t *testing.T) circuits {
	b, err := NewBreaker(BreakerPolicy{Failures: 3, Cooldown: time.Minute})
	require.NoError(t, err)
	return circuits{t, b}
}

// begin makes an attempt that has to be allowed.
func (c circuits) begin(destination string) func(AttemptHealth) {
	c.t.Helper()
	done, err := c.Allow(destination)
	require.NoError(c.t, err)
	return done
}

// end makes attempts that end at once.
func (c circuits) end(destination string, health ...AttemptHealth) {
	c.t.Helper()
	for _, h := range health {
		c.begin(destination)(h)
	}
}

func (c circuits) refused(destination string) {
	c.t.Helper()
	done, err := c.Allow(destination)
	require.ErrorIs(c.t, err, ErrBreakerOpen)
	require.Nil(c.t, done)
}

func (c circuits) open(destination string) {
	c.t.Helper()
	c.end(destination, Unhealthy, Unhealthy, Unhealthy)
	c.refused(destination)
}

func TestBreaker(t *testing.T) {
	for name, f := range map[string]func(*testing.T, circuits){
		"opens after so many failures in a row": func(t *testing.T, c circuits) {
			c.end("a", Unhealthy, Unhealthy)
			c.open("b")
			c.end("a", Unhealthy)
			c.refused("a")
		},
		"a success in between starts the count anew": func(t *testing.T, c circuits) {
			c.end("a", Unhealthy, Unhealthy, Healthy, Unhealthy, Unhealthy)
			c.end("a", Healthy)
		},
		"cancelled attempts never trip it": func(t *testing.T, c circuits) { // trap 63
			for range 100 {
				c.end("a", Neutral)
			}
			c.end("a", Healthy)
		},
		"a cancelled attempt does not break a row of failures": func(t *testing.T, c circuits) {
			c.end("a", Unhealthy, Unhealthy, Neutral, Unhealthy)
			c.refused("a")
		},
		"one destination does not close another": func(t *testing.T, c circuits) { // trap 62
			c.open("a")
			c.end("b", Healthy)
			c.refused("a")
		},
		"stays open until the cooldown is over": func(t *testing.T, c circuits) {
			c.open("a")
			time.Sleep(time.Minute - 1)
			c.refused("a")
			time.Sleep(time.Nanosecond)
			c.begin("a")
		},
		"lets one probe through and no second": func(t *testing.T, c circuits) {
			c.open("a")
			time.Sleep(time.Minute)
			c.begin("a")
			c.refused("a")
			time.Sleep(time.Hour)
			c.refused("a")
		},
		"closes when the probe succeeds": func(t *testing.T, c circuits) {
			c.open("a")
			time.Sleep(time.Minute)
			c.end("a", Healthy, Unhealthy, Unhealthy, Healthy)
		},
		"opens for another cooldown when the probe fails": func(t *testing.T, c circuits) {
			c.open("a")
			time.Sleep(time.Minute)
			c.end("a", Unhealthy)
			time.Sleep(time.Minute - 1)
			c.refused("a")
			time.Sleep(time.Nanosecond)
			c.end("a", Healthy)
		},
		"a cancelled probe makes room for another": func(t *testing.T, c circuits) {
			c.open("a")
			time.Sleep(time.Minute)
			probe := c.begin("a")
			c.refused("a")
			probe(Neutral)
			c.end("a", Healthy, Unhealthy, Unhealthy)
			c.begin("a")
		},
		"a straggler's success does not close it": func(t *testing.T, c circuits) {
			straggler := c.begin("a")
			c.open("a")
			straggler(Healthy)
			c.refused("a")
		},
		"a straggler's success does not stand for the probe's": func(t *testing.T, c circuits) {
			straggler := c.begin("a")
			c.open("a")
			time.Sleep(time.Minute)
			probe := c.begin("a")
			straggler(Healthy)
			c.refused("a")
			probe(Unhealthy)
			c.refused("a")
		},
		"a straggler's failure does not prolong it": func(t *testing.T, c circuits) {
			straggler := c.begin("a")
			c.open("a")
			time.Sleep(time.Minute - 1)
			straggler(Unhealthy)
			time.Sleep(time.Nanosecond)
			c.end("a", Healthy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newCircuits(t)) })
		})
	}
}

func TestBreakerDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBreaker(BreakerPolicy{})
		require.NoError(t, err)
		c := circuits{t, b}
		for range 9 {
			c.end("a", Unhealthy)
		}
		c.end("a", Unhealthy)
		c.refused("a")
		time.Sleep(5*time.Second - 1)
		c.refused("a")
		time.Sleep(time.Nanosecond)
		c.end("a", Healthy)
	})
}

func TestBreakerAllowsOneProbeUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuits(t)
		c.open("a")
		time.Sleep(time.Minute)
		var probes atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := c.Allow("a"); err == nil {
					probes.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, probes.Load())
	})
}

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name     string
		verdict  taxonomy.Verdict
		answered bool
		want     AttemptHealth
	}{
		{"a success", taxonomy.Verdict{Class: taxonomy.ClassSuccess}, true, Healthy},
		{"a refusal that is the request's own fault", taxonomy.Verdict{Code: taxonomy.BadRequest}, true, Healthy},
		{"a duplicate", taxonomy.Verdict{Code: taxonomy.Duplicate, Class: taxonomy.ClassSuccess}, true, Healthy},
		{"a first request that is still running", taxonomy.Verdict{Code: taxonomy.InFlight, Class: taxonomy.ClassTransient}, true, Healthy},
		{"an overloaded server", taxonomy.Verdict{Code: taxonomy.Unavailable, Class: taxonomy.ClassTransient}, true, Unhealthy},
		{"too many requests", taxonomy.Verdict{Code: taxonomy.RateLimited, Class: taxonomy.ClassTransient}, true, Unhealthy},
		{"a broken connection", taxonomy.Verdict{Code: taxonomy.Reset, Class: taxonomy.ClassTransient}, false, Unhealthy},
		{"an attempt that timed out", taxonomy.Verdict{Code: taxonomy.Timeout, Class: taxonomy.ClassTransient}, false, Unhealthy},
		{"a cancelled attempt", taxonomy.Verdict{Code: taxonomy.CallerCanceled}, false, Neutral},
		{"the caller's deadline", taxonomy.Verdict{Code: taxonomy.CallerDeadline}, false, Neutral},
		{"an attempt that never reached the server", taxonomy.Verdict{Code: taxonomy.UnknownHost}, false, Neutral},
		{"credentials that could not be made", taxonomy.Verdict{Code: taxonomy.Auth + ".credentials"}, false, Neutral},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, health(c.verdict, c.answered)) })
	}
}

func TestTheClientTellsItsBreaker(t *testing.T) {
	noToken := func(*http.Request) error { return errors.New("no token") }
	for _, c := range []struct {
		name     string
		statuses []int
		options  []Option
		want     []AttemptHealth
	}{
		{"of every attempt", []int{503, broken, 200}, nil, []AttemptHealth{Unhealthy, Unhealthy, Healthy}},
		{"that a terminal answer is an answer", []int{404}, nil, []AttemptHealth{Healthy}},
		{"nothing of an attempt that got no credentials", []int{200}, []Option{WithCredentials(noToken)}, []AttemptHealth{Neutral}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &heard{}
				client, err := New(append(c.options, WithTransport(&scripted{statuses: c.statuses}), WithBreaker(b))...)
				require.NoError(t, err)
				_ = send(t.Context(), t, client)
				require.Equal(t, c.want, b.health)
				require.Equal(t, bank.String(), b.destination)
			})
		})
	}
}

type heard struct {
	destination string
	health      []AttemptHealth
}

func (h *heard) Allow(destination string) (func(AttemptHealth), error) {
	h.destination = destination
	return func(a AttemptHealth) { h.health = append(h.health, a) }, nil
}

func TestAnOpenBreakerEndsTheCallBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &scripted{statuses: []int{503, 503, hang, 200}}
		b, err := NewBreaker(BreakerPolicy{Failures: 2})
		require.NoError(t, err)
		client, err := New(WithTransport(rt), WithBreaker(b), WithRetry(RetryPolicy{MaxAttempts: 2}))
		require.NoError(t, err)
		require.ErrorIs(t, send(t.Context(), t, client), taxonomy.Unavailable)
		require.EqualValues(t, 2, rt.sent.Load())

		err = send(t.Context(), t, client)
		require.ErrorIs(t, err, ErrBreakerOpen)
		require.ErrorIs(t, err, taxonomy.Unavailable)
		require.True(t, SafeToRetry(err))
		require.EqualValues(t, 2, rt.sent.Load())

		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, send(ctx, t, client), context.DeadlineExceeded)
		require.NoError(t, send(t.Context(), t, client), "a cancelled probe makes room for another")
		require.NoError(t, send(t.Context(), t, client), "whose success closes the breaker")
		require.EqualValues(t, 5, rt.sent.Load())
	})
}

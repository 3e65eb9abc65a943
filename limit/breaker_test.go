package limit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNewBreakerRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy BreakerPolicy
		want   string
	}{
		{"negative failures", BreakerPolicy{Failures: -1}, "limit: breaker: Failures is -1, it must not be negative"},
		{"a negative cooldown", BreakerPolicy{Cooldown: -time.Second},
			"limit: breaker: Cooldown is -1s, it must not be negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := NewBreaker(c.policy)
			require.EqualError(t, err, c.want)
			require.Nil(t, b)
		})
	}
}

// circuits drives a breaker with three failures and a cooldown of one minute.
type circuits struct {
	t *testing.T
	Breaker
}

func newCircuits(t *testing.T) circuits {
	b, err := NewBreaker(BreakerPolicy{Failures: 3, Cooldown: time.Minute})
	require.NoError(t, err)
	return circuits{t, b}
}

// begin starts an attempt that must be allowed.
func (c circuits) begin(destination string) func(Health) {
	c.t.Helper()
	done, err := c.Allow(destination)
	require.NoError(c.t, err)
	return done
}

// end makes one attempt for each health.
func (c circuits) end(destination string, health ...Health) {
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
		"stays open for the cooldown": func(t *testing.T, c circuits) {
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
			time.Sleep(time.Minute - 1)
			c.refused("a")
		},
		"a probe that hangs does not keep it open": func(t *testing.T, c circuits) {
			c.open("a")
			time.Sleep(time.Minute)
			hangs := c.begin("a")
			time.Sleep(time.Minute)
			probe := c.begin("a")
			c.refused("a")
			probe(Healthy)
			c.begin("a")
			hangs(Neutral)
			c.begin("a")
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
		"a straggler's success does not count as the probe's": func(t *testing.T, c circuits) {
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

// bounded checks the number of circuits.
func (c circuits) bounded() {
	c.t.Helper()
	requireBounded(c.t, &c.Breaker.(*breaker).circuits)
}

func (c circuits) kept() int { return len(c.Breaker.(*breaker).circuits.rows) }

func host(i int) string { return nth(i).String() }

func TestBreakerOfManyDestinations(t *testing.T) {
	for name, f := range map[string]func(*testing.T, circuits){
		"keeps nothing of healthy destinations": func(t *testing.T, c circuits) {
			for i := range many {
				c.end(host(i), Healthy, Neutral)
			}
			require.Zero(t, c.kept())
		},
		"stays bounded when all fail": func(t *testing.T, c circuits) {
			for i := range many {
				c.end(host(i), Unhealthy)
			}
			c.bounded()
			require.Equal(t, maxDestinations, c.kept())
		},
		"stays bounded when all circuits are open": func(t *testing.T, c circuits) {
			for i := range many {
				c.open(host(i))
			}
			c.bounded()
			c.refused(host(many - 1))
			c.begin(host(0)) // the least recently used circuit is new again
		},
		"keeps an open circuit over those that are closed": func(t *testing.T, c circuits) {
			c.open("a")
			for i := range many {
				c.end(host(i), Unhealthy, Unhealthy)
			}
			c.bounded()
			c.refused("a")
		},
		"keeps the failures of a destination in use": func(t *testing.T, c circuits) {
			c.end("a", Unhealthy, Unhealthy)
			for i := range many {
				c.end(host(i), Unhealthy)
				c.begin("a")
			}
			c.end("a", Unhealthy)
			c.refused("a")
		},
		"a dropped circuit opens again when its probe fails": func(t *testing.T, c circuits) {
			c.open("a")
			time.Sleep(time.Minute)
			probe := c.begin("a")
			for i := range many {
				c.open(host(i))
			}
			c.begin("a") // dropped: a new circuit is closed
			probe(Unhealthy)
			c.refused("a")
			c.bounded()
		},
		"the probe of a dropped circuit does not end another probe": func(t *testing.T, c circuits) {
			for _, h := range []Health{Neutral, Healthy} {
				d := fmt.Sprint("a", h)
				c.open(d)
				time.Sleep(time.Minute)
				old := c.begin(d)
				for i := range many {
					c.open(fmt.Sprint(h, host(i)))
				}
				c.open(d)
				time.Sleep(time.Minute)
				probe := c.begin(d)
				old(h)
				c.refused(d)
				probe(Healthy)
				c.begin(d)
			}
		},
		"a dropped circuit ignores a probe without failure": func(t *testing.T, c circuits) {
			c.open("a")
			time.Sleep(time.Minute)
			probe := c.begin("a")
			for i := range many {
				c.open(host(i))
			}
			probe(Healthy)
			c.end("a", Unhealthy, Unhealthy, Healthy)
		},
		"loses none of a few": func(t *testing.T, c circuits) {
			for i := range 8 {
				c.end(host(i), Unhealthy, Unhealthy)
			}
			for i := range many {
				c.end(host(i%8), Neutral)
				c.end("a", Unhealthy, Healthy)
			}
			for i := range 8 {
				c.end(host(i), Unhealthy)
				c.refused(host(i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newCircuits(t)) })
		})
	}
}

func TestBreakerOfManyDestinationsUnderConcurrency(t *testing.T) {
	b, err := NewBreaker(BreakerPolicy{Failures: 2, Cooldown: time.Nanosecond})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range many {
				if done, err := b.Allow(host(i)); err == nil {
					done(Health((i + g) % 3))
				}
			}
		})
	}
	wg.Wait()
	circuits{t, b}.bounded()
}

package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// A mode is the server's way of keeping an effect to one. Each is a documented way, with the faults that it is
// documented for.
type mode uint8

const (
	transactional mode = iota // record and effect are one transaction
	recovering                // server.Recover reads the effect back, and the fence stops earlier owners
	refusing                  // server.Refuse: a dead owner's key never runs again
	applying                  // the default policy, and one process that does not die
)

// A plan holds the choices that a seed draws before its world starts.
type plan struct {
	mode      mode
	durable   bool // clients and gateways keep operations in a simulated database; otherwise in memstore
	apps      int  // client processes that call the service
	phones    int  // client processes that call the gateway
	ops       int  // of each client process
	together  int  // operations of a client process at a time
	replicas  int  // processes of an app that share its store and its operations
	identity  int  // of every app; negative: drawn
	gateways  int
	servers   int
	relays    int // no events without relays
	consumers int

	window   time.Duration // in which faults happen
	lease    time.Duration
	work     time.Duration // the longest run of a handler
	attempts int           // of one call
	reserve  int           // of the retry budget
	skew     bool          // the database's clock jumps

	refused, lostRequest, lostResponse, twice, cut, limited, hangs int // per mille of requests
	down, unheard, unmade                                          int // per mille of calls to a store
	sick                                                           int // per mille of handler runs
	kills, pauses, outages, failovers                              int // in the window
	synchronous                                                    bool
}

// between draws a duration whose logarithm is uniform, with a resolution of a nanosecond.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	l, h := math.Log(float64(low)), math.Log(float64(high))
	return time.Duration(math.Exp(l + rng.Float64()*(h-l)))
}

// some draws a rate: often zero, otherwise up to most.
func some(rng *rand.Rand, most int) int {
	if rng.IntN(3) == 0 {
		return 0
	}
	return rng.IntN(most + 1)
}

// newPlan draws a plan. One seed in 5,000 has thousands of operations.
func newPlan(rng *rand.Rand, seed uint64) plan {
	p := plan{
		mode: mode(rng.IntN(4)), durable: rng.IntN(2) == 0,
		replicas: 1 + rng.IntN(4)/3, identity: -1,
		apps: 1 + rng.IntN(3), phones: rng.IntN(3), ops: 1 + rng.IntN(4), together: 1 + rng.IntN(4),
		gateways: 1 + rng.IntN(2), servers: 1 + rng.IntN(3), relays: rng.IntN(3), consumers: 1 + rng.IntN(2),
		window:   between(rng, 5*time.Second, 10*time.Minute),
		lease:    between(rng, 2*time.Second, 30*time.Second),
		attempts: 1 + rng.IntN(5), reserve: 1 + rng.IntN(20), skew: rng.IntN(4) == 0,
		refused: some(rng, 200), lostRequest: some(rng, 200), lostResponse: some(rng, 300), twice: some(rng, 200),
		cut: some(rng, 200), limited: some(rng, 200), hangs: some(rng, 100),
		down: some(rng, 100), unheard: some(rng, 100), unmade: some(rng, 100), sick: some(rng, 300),
		kills: rng.IntN(5), pauses: rng.IntN(4), outages: rng.IntN(3), failovers: rng.IntN(3),
		synchronous: rng.IntN(2) == 0,
	}
	p.work = between(rng, 10*time.Millisecond, 2*p.lease)
	if seed%5000 == 4999 {
		p.apps, p.phones, p.ops, p.together = 40, 20, 40, 40
		p.relays, p.consumers, p.servers = 4, 4, 8
		p.window = 2 * time.Minute
	}
	return p
}

// settled adjusts the plan to the documented limits.
func (p plan) settled() plan {
	if p.phones == 0 {
		p.gateways = 0
	}
	if p.mode == applying {
		// An outage hides the owner of a key from other processes, and a crash from its successor.
		p.servers, p.skew = 1, false
	}
	return p
}

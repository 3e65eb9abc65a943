package schedule

import (
	"math/rand/v2"
	"net/http"
)

// rates are the chances of faults, in percent of the steps at which each can happen.
type rates struct {
	store, dial, gateway, lost int
	refusals                   []int // the gateway's statuses
}

// The statuses of a gateway in front of the server's record. After those of passing an operation stays pending.
// After those of lasting it fails, unless an earlier request may have had its effect.
var (
	passing = []int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	lasting = []int{http.StatusNotFound, http.StatusForbidden}
)

// weather draws the rates of faults for some steps.
func weather(rng *rand.Rand) rates {
	return rates{
		store: pick(rng, 0, 0, 2, 8), dial: pick(rng, 0, 0, 30), gateway: pick(rng, 0, 30, 60),
		lost:     pick(rng, 0, 0, 10, 30),
		refusals: pick(rng, passing, lasting, append(passing[:len(passing):len(passing)], lasting...)),
	}
}

// outage is a weather in which nothing reaches the server.
func outage(rng *rand.Rand) rates {
	return rates{dial: pick(rng, 0, 100), gateway: 100, refusals: passing}
}

// pick draws one of from, with equal chances.
func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

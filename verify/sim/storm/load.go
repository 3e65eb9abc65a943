package storm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A scenario is an outage of a server that many processes call.
type scenario struct {
	processes int
	perSecond int // calls of one process
	capacity  int // of the server, requests per second
	from, to  time.Duration
	end       time.Duration
}

// An outcome holds the figures of a policy in a scenario.
type outcome struct {
	policy    policy
	offered   []int // attempts by second
	calls     int
	attempts  int
	inOutage  float64       // attempts to calls, in the outage
	overall   float64       // attempts to calls
	peak      int           // attempts in a second, in the outage
	after     int           // attempts in a second, in the 20 s after it
	recovered time.Duration // the last refusal, after the outage
	failed    float64       // share of the calls, in percent
}

// play runs a policy through a scenario. It must be called in a synctest bubble.
func (sc scenario) play(p policy, seed uint64) (outcome, error) {
	srv := newServer(sc.capacity, sc.from, sc.to, sc.end)
	var calls, down, failed atomic.Int64
	var all sync.WaitGroup
	for n := range sc.processes {
		call, err := p.open(http.RoundTripper(srv))
		if err != nil {
			return outcome{}, fmt.Errorf("storm: %s: %w", p.name, err)
		}
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		all.Go(func() {
			for time.Since(srv.start) < sc.end {
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second) / float64(sc.perSecond)))
				calls.Add(1)
				if at := time.Since(srv.start); sc.from <= at && at < sc.to {
					down.Add(1)
				}
				all.Go(func() {
					if !call(context.Background()) {
						failed.Add(1)
					}
				})
			}
		})
	}
	all.Wait()
	inOutage := 0
	for second := int(sc.from / time.Second); second < int(sc.to/time.Second); second++ {
		inOutage += srv.attempts[second]
	}
	return outcome{
		policy: p, offered: srv.attempts[:int(sc.end/time.Second)], calls: int(calls.Load()), attempts: srv.attemptSum,
		inOutage: ratio(inOutage, int(down.Load())), overall: ratio(srv.attemptSum, int(calls.Load())),
		peak: srv.peak(sc.from, sc.to), after: srv.peak(sc.to, sc.to+20*time.Second), recovered: srv.recovered(),
		failed: 100 * ratio(int(failed.Load()), int(calls.Load())),
	}, nil
}

package schedule

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
)

// A setup holds the parts that all runs of one test share.
type setup struct {
	wait    func()                         // returns when every other goroutine of the bubble is blocked
	connect func(*process) (caller, error) // makes a process's client
	wrap    func(backend) backend          // a mutant of the store, nil for none
	keyless bool                           // a mutant of the server
	only    rule                           // the rule to check; empty for all
}

// A run is one operation's life under one schedule. The scheduler holds mu except while it waits. The goroutine
// whose step it is uses the run alone, since the scheduler then waits for it. A goroutine that parks or returns
// takes mu.
type run struct {
	setup
	seed   uint64
	rng    *rand.Rand
	name   string // of the operation
	faults rates
	calm   bool // no more faults
	store  backend
	server server

	alone    bool // until the first call returns, in an outage
	limit    int  // calls at the same time
	left     int  // calls to start
	attempts int  // of one call
	sticky   int  // percent of the steps in which the process of the last step goes on
	last     *process
	weights  map[string]int // by the kind of the step
	options  []option
	idle     int // ticks since the last step of another kind

	mu sync.Mutex

	over      bool
	ended     chan struct{} // closed when over
	parked    []*turn
	processes []*process
	active    int // calls of living processes
	returned  sync.WaitGroup

	exchanges []*exchange // that were sent
	strays    []*exchange
	keys      map[string]int
	calls     int
	minted    int // keys of reference clients
	steps     int
	trace     []entry
	found     *violation
}

// A turn is a parked goroutine.
type turn struct {
	process  *process
	call     int
	what     string
	exchange *exchange // nil for a call of the store
	next     chan bool // false: the process is dead, and the run is over
}

// newRun draws a run's parameters from its seed.
func newRun(s setup, st backend, seed uint64) *run {
	rng := rand.New(rand.NewPCG(seed, 0))
	r := &run{
		setup: s, seed: seed, rng: rng, name: fmt.Sprintf("op-%d", seed), store: st,
		server: server{records: map[string]*keyRecord{}, unmarked: rng.IntN(4) == 0, keyless: s.keyless},
		faults: weather(rng),
		limit:  1 + rng.IntN(4), left: 3 + rng.IntN(10), attempts: 1 + rng.IntN(3), sticky: pick(rng, 0, 0, 50),
		ended: make(chan struct{}), keys: map[string]int{}, weights: map[string]int{},
	}
	if rng.IntN(2) == 0 {
		r.faults, r.alone = outage(rng), true
	}
	if s.wrap != nil {
		r.store = s.wrap(st)
	}
	return r
}

// play runs the schedule to its end, or to its first violation.
func (r *run) play(ctx context.Context) *violation {
	r.mu.Lock()
	defer r.end()
	r.schedule(ctx)
	if r.found == nil {
		r.settle(ctx)
	}
	return r.found
}

// settle makes the last calls, without faults, and checks that they settle the operation.
func (r *run) settle(ctx context.Context) {
	for _, x := range r.strays {
		if x.stage == working {
			r.stray(x)
		}
	}
	r.calm, r.attempts = true, 10
	p := r.newProcess()
	for last := r.settlers(); r.found == nil && last > 0; last-- {
		p.start(ctx, false)
		r.schedule(ctx)
	}
	switch {
	case r.found != nil:
		return
	case !p.last.ok && !p.last.final:
		r.violate(unsettled, "the last call returned %v", p.last.err)
		return
	case r.stillPending(ctx):
		r.violate(unsettled, "the operation is pending after the last call")
		return
	}
	for _, x := range r.strays {
		for x.stage != gone && r.found == nil {
			r.stray(x)
		}
	}
}

// settlers returns how many calls it takes to settle the operation. A first refusal that bears no marker does
// not prove that it is the server's outcome. Its replay does.
func (r *run) settlers() int {
	if r.server.unmarked {
		return 2
	}
	return 1
}

// stillPending reports whether the operation can still be sent. A pending operation that rests on a final response is
// never sent again.
func (r *run) stillPending(ctx context.Context) bool {
	for rec, err := range r.store.Pending(ctx, "") {
		if err == nil && rec.ID.Key == r.name && !bytes.Contains(rec.Meta, []byte(`"rest":`)) {
			return true
		}
	}
	return false
}

// end unblocks the goroutines of dead processes and waits for all calls to return.
func (r *run) end() {
	r.over = true
	close(r.ended)
	for _, p := range r.processes {
		for _, cancel := range p.running {
			cancel()
		}
	}
	for _, t := range r.parked {
		t.next <- false
	}
	r.parked = nil
	r.mu.Unlock()
	r.returned.Wait()
}

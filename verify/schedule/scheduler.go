package schedule

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// schedule makes steps until no call is left.
func (r *run) schedule(ctx context.Context) {
	for {
		r.mu.Unlock()
		r.wait()
		r.mu.Lock()
		turns, asleep := r.blocked()
		if r.found != nil || len(turns) == 0 && asleep == 0 && r.left == 0 {
			return
		}
		r.steps++
		if r.alone && r.calls > 0 && r.active == 0 {
			r.alone, r.faults = false, weather(r.rng)
		}
		if !r.alone && !r.calm && len(turns) > 0 && r.disturb() {
			continue
		}
		r.step(ctx, turns, asleep)
	}
}

// blocked returns the parked goroutines of living processes in a fixed order, and the number of calls that wait for
// something else. It leaves out paused processes as long as another one can go on.
func (r *run) blocked() (turns []*turn, asleep int) {
	var paused []*turn
	for _, t := range r.parked {
		switch {
		case t.process.dead:
		case t.process.paused > r.steps:
			paused = append(paused, t)
		default:
			turns = append(turns, t)
		}
	}
	if len(turns) == 0 {
		turns, paused = paused, nil
	}
	slices.SortStableFunc(turns, func(a, b *turn) int {
		return cmp.Or(cmp.Compare(a.process.number, b.process.number), cmp.Compare(a.call, b.call))
	})
	return turns, max(0, r.active-len(turns)-len(paused))
}

// Kinds of steps that are no goroutine's.
const (
	strayStep = "stray"
	startStep = "start"
	tickStep  = "tick"
)

// weight returns how often a kind of step is drawn, in this run. Some runs leave processes for long before one
// kind, others before another.
func (r *run) weight(kind string) int {
	w, ok := r.weights[kind]
	if !ok {
		switch w = pick(r.rng, 1, 4, 16); kind {
		case strayStep, tickStep:
			w = 1
		}
		r.weights[kind] = w
	}
	return w
}

// step draws the next step: a parked goroutine, a stray, a new call, or time.
func (r *run) step(ctx context.Context, turns []*turn, asleep int) {
	if r.rng.IntN(100) < r.sticky {
		for _, t := range turns {
			if t.process == r.last {
				r.grant(t)
				return
			}
		}
	}
	r.strays = slices.DeleteFunc(r.strays, func(x *exchange) bool { return x.stage == gone })
	r.options = r.options[:0]
	total := 0
	offer := func(weight int, do func()) {
		total += weight
		r.options = append(r.options, option{total, do})
	}
	for _, t := range turns {
		offer(r.weight(t.what), func() { r.grant(t) })
	}
	if !r.calm {
		for _, x := range r.strays {
			offer(r.weight(strayStep), func() { r.stray(x) })
		}
	}
	if r.left > 0 && r.active < r.limit && (!r.alone || r.calls == 0) {
		offer(r.weight(startStep), func() { r.start(ctx) })
	}
	if asleep > 0 || total == 0 {
		offer(r.weight(tickStep), func() { r.tick(asleep) })
	}
	n := r.rng.IntN(total)
	for _, o := range r.options {
		if n < o.until {
			o.do()
			return
		}
	}
}

// An option is one of the steps that can be drawn.
type option struct {
	until int // the sum of the weights up to this one
	do    func()
}

// A call that makes no step for maxIdle ticks of virtual time is stuck. No timeout of these clients is as long.
const (
	maxIdle  = 1000
	tickTime = 20 * time.Millisecond
)

// tick lets time pass.
func (r *run) tick(asleep int) {
	if r.idle++; r.idle > maxIdle {
		r.violate(stuck, "%d calls neither return nor make a step", asleep)
		return
	}
	r.mu.Unlock()
	time.Sleep(tickTime)
	r.mu.Lock()
}

// grant lets a parked goroutine make its step.
func (r *run) grant(t *turn) {
	r.idle, r.last = 0, t.process
	r.unpark(t)
	t.next <- true
}

func (r *run) unpark(t *turn) {
	r.parked = slices.DeleteFunc(r.parked, func(p *turn) bool { return p == t })
}

// start starts a call, mostly in a new process.
func (r *run) start(ctx context.Context) {
	r.left--
	r.idle = 0
	p := r.living()
	if p == nil || r.rng.IntN(4) > 0 {
		p = r.newProcess()
	}
	if r.found == nil {
		p.start(ctx, r.rng.IntN(5) == 0)
	}
}

func (r *run) newProcess() *process {
	p := &process{run: r, number: len(r.processes) + 1, running: map[int]context.CancelFunc{}}
	var err error
	if p.client, err = r.connect(p); err != nil {
		r.violate(stuck, "the client can't be made: %v", err)
	}
	r.processes = append(r.processes, p)
	return p
}

// living returns a random process that has calls, or nil.
func (r *run) living() *process {
	var all []*process
	for _, p := range r.processes {
		if !p.dead && len(p.running) > 0 {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[r.rng.IntN(len(all))]
}

// disturb now and then kills or pauses a process, ends a call's context, or changes the rates of faults. It
// reports whether it did.
func (r *run) disturb() bool {
	n := r.rng.IntN(1000)
	if n < 60 {
		r.faults = weather(r.rng)
		return true
	}
	if n >= 160 {
		return false
	}
	p := r.living()
	switch {
	case p == nil:
		return false
	case n < 80:
		p.kill()
	case n < 90:
		p.cancel()
	default:
		p.paused = r.steps + 5 + r.rng.IntN(40)
	}
	return true
}

package sim

import (
	"cmp"
	"slices"
	"time"
)

// newLink returns a link with the outages of this world.
func (w *world) newLink(name string) *link {
	l := &link{name: name}
	rng := w.draw("outages of " + name)
	for range w.plan.outages {
		from := time.Duration(rng.Float64() * float64(w.plan.window))
		l.down = append(l.down, outage{from, from + between(rng, time.Millisecond, w.plan.window), rng.IntN(3) == 0})
	}
	return l
}

// A blow is a fault at an instant.
type blow struct {
	at time.Duration
	do func()
}

// weather lets the blows of the plan happen, until the window ends.
func (w *world) weather(posts []*post) {
	p := w.plan
	rng := w.draw("weather")
	var blows []blow
	add := func(n int, do func()) {
		for range n {
			blows = append(blows, blow{time.Duration(rng.Float64() * float64(p.window)), do})
		}
	}
	mortal := slices.DeleteFunc(slices.Clone(posts), func(p *post) bool { return p.stays })
	add(p.kills, func() {
		post := mortal[w.draw("kill").IntN(len(mortal))]
		if post.current().isDead() {
			_ = w.restart(post) // it has started before
			return
		}
		post.current().kill()
		time.AfterFunc(between(w.draw("restart"), 10*time.Millisecond, time.Minute), func() { _ = w.restart(post) })
	})
	add(p.pauses, func() {
		post := mortal[w.draw("pause").IntN(len(mortal))]
		post.current().pause(between(w.draw("pause"), p.lease/16, 4*p.lease))
	})
	add(p.failovers, func() {
		rng := w.draw("failover")
		n := w.operations.failover(1+rng.IntN(4), true) // an outcome of a client is a lazy write
		m := w.service.failover(1+rng.IntN(4), p.synchronous)
		w.note("failover", "loses %d of the clients and %d of the service", n, m)
	})
	if p.skew {
		add(2, func() { w.leap() })
	}
	slices.SortStableFunc(blows, func(a, b blow) int { return cmp.Compare(a.at, b.at) })
	for _, b := range blows {
		if rest := b.at - w.now(); rest > 0 {
			time.Sleep(rest)
		}
		if w.found() != nil {
			return
		}
		b.do()
	}
	if rest := p.window - w.now(); rest > 0 {
		time.Sleep(rest)
	}
}

func (p *process) isDead() bool {
	dead, _ := p.alive()
	return dead
}

// leap sets the clock of the service's database forward or back.
func (w *world) leap() {
	rng := w.draw("leap")
	by := between(rng, 10*time.Millisecond, 20*time.Minute)
	if rng.IntN(2) == 0 {
		by = -by
	}
	w.note("service.db", "the clock leaps by %v", by)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jump += by
}

// calmDown ends all faults. Dead processes start again, and paused ones go on.
func (w *world) calmDown(posts []*post) {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.note("weather", "is calm")
	for i, p := range posts {
		time.Sleep(time.Millisecond + time.Duration(i)*17)
		_ = w.restart(p) // it has started before
	}
}

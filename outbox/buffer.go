package outbox

import "time"

const (
	slowAfter   = 100 * time.Millisecond // an attempt then leaves its worker
	stuckAfter  = time.Second            // the events behind an attempt then return to the queue
	slowPlaces  = 64                     // for each worker
	bufferedFor = 64                     // events for each worker
	heldBytes   = 64 << 20               // of payloads
	mostHeld    = 2 * MaxClaim           // events: while one claim is settled, another one is delivered
	forgetAfter = time.Minute            // an idle lane
)

// capacity returns the maximum number of claimed events that wait in the relay.
func (r *run) capacity() int { return min(bufferedFor*r.workers, mostHeld, heldBytes/r.size) }

// measure learns the size of an event from a claim. It forgets large events slowly.
func (r *run) measure(ds []Delivery) {
	size := 0
	for _, d := range ds {
		size += len(d.Event.Payload)
	}
	if len(ds) > 0 {
		r.size = max(size/len(ds), r.size/2, 1)
	}
}

func (r *run) free() int { return r.capacity() - r.buffered - r.unsettled }

// ask returns the next claim. It returns false if there is no room for events.
func (r *run) ask() (Claim, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	c := Claim{
		Lease: r.lease, HoldKeys: r.hold, PerDestination: min(startWindow, r.perDestination), Room: map[string]int{},
	}
	for name, l := range r.lanes {
		busy := l.buffered > 0 || l.running > 0 || now.Before(l.until)
		if !busy && now.Sub(l.idle) >= r.remember(l) {
			delete(r.lanes, name)
			if !l.delivered.IsZero() {
				r.past[name] = l.delivered
			}
		} else if room := l.room(now); room != c.PerDestination && (busy || l.more || l.rate.last(now) > 0) {
			c.Room[name] = room
		}
	}
	r.prune(now)
	c.Max = min(r.free(), MaxClaim)
	return c, c.Max > 0
}

// prune forgets successes that are older than any event's schedule.
func (r *run) prune(now time.Time) {
	if now.Sub(r.pruned) < time.Hour {
		return
	}
	r.pruned = now
	for name, at := range r.past {
		if now.Sub(at) > span(r.waits)+time.Hour {
			delete(r.past, name)
		}
	}
}

// remember returns the time for which an idle lane is kept. A failing lane is kept for longer than its events may
// rest.
func (r *run) remember(l *lane) time.Duration {
	if l.failing.IsZero() {
		return forgetAfter
	}
	return span(r.waits) + forgetAfter
}

// buffer adds claimed events to their lanes. It reports whether another claim is worth its round trip.
func (r *run) buffer(c Claim, ds []Delivery, claimed time.Time) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measure(ds)
	now := time.Now()
	type line struct{ destination, key string }
	chains, count := map[line]*chain{}, map[*lane]int{}
	for _, d := range ds {
		l := r.lanes[d.Event.Destination]
		if l == nil {
			l = newLane(d.Event.Destination, now, r.perDestination)
			r.lanes[l.name], l.delivered = l, r.past[l.name]
		}
		it := &item{d: d, claimed: claimed, renewed: claimed}
		r.held[d.Lease] = it
		k := line{l.name, d.Event.OrderingKey}
		ch := chains[k]
		if k.key == "" || ch == nil {
			ch = &chain{lane: l}
			chains[k] = ch
			l.chains = append(l.chains, ch)
		}
		ch.items = append(ch.items, it)
		l.buffered++
		r.buffered++
		l.idle, l.disabled = now, false
		count[l]++
	}
	if r.more = len(ds) >= c.Max; !r.more {
		for _, l := range r.lanes {
			if c.Limit(l.name) > 0 {
				l.more = false
			}
		}
	}
	for l, n := range count {
		l.more = n >= c.Limit(l.name)
		if now.Before(l.until) { // it began to rest during the claim
			r.release(l)
		}
		r.enlist(l, now)
	}
	r.dispatch(now)
	again = r.more
	for l := range count {
		again = again || l.hungry(now)
	}
	return again
}

// refill wakes the relay if a claim is worth its round trip, because the lane or the buffer has enough room.
func (r *run) refill(l *lane, now time.Time) {
	if l.hungry(now) && r.free() > 0 || r.more && 2*r.free() >= r.capacity() {
		r.signal()
	}
}

// enlist adds the lane to the ready ones.
func (r *run) enlist(l *lane, now time.Time) {
	if !l.queued && l.ready(now) {
		l.queued = true
		r.ready = append(r.ready, l)
	}
}

// dispatch gives idle workers the chains of ready lanes, one of each lane in turn.
func (r *run) dispatch(now time.Time) {
	for r.busy < r.workers && len(r.ready) > 0 {
		l := r.ready[0]
		r.ready[0] = nil
		r.ready, l.queued = r.ready[1:], false
		if !l.ready(now) {
			continue
		}
		ch := l.chains[0]
		l.chains[0] = nil
		l.chains = l.chains[1:]
		l.running++
		l.blocked = now
		r.busy++
		r.deliveries.Go(func() { r.deliver(ch) })
		r.enlist(l, now)
	}
}

// release returns the unstarted events of a lane to the queue.
func (r *run) release(l *lane) {
	for _, ch := range l.chains {
		r.drop(ch)
	}
	l.chains = nil
}

// drop returns the unstarted events of a chain to the queue.
func (r *run) drop(ch *chain) {
	for _, it := range ch.items {
		r.unbuffer(ch.lane)
		r.post(ended{item: it, outcome: Outcome{Result: Released}})
	}
	ch.items = nil
}

func (r *run) unbuffer(l *lane) {
	l.buffered--
	r.buffered--
}

// releaseAll returns all unstarted events to the queue.
func (r *run) releaseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending, r.ready = true, nil
	for _, l := range r.lanes {
		r.release(l)
	}
}

// late is called when an attempt takes long. The chain leaves its worker, and later the events behind the attempt
// return to the queue.
func (r *run) late(ch *chain) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ch.timer == nil {
		return // it has ended
	}
	now := time.Now()
	took := now.Sub(ch.begun)
	if took < slowAfter {
		return // another attempt has begun, and has set the timer
	}
	if !ch.slow && r.slow < slowPlaces*r.workers {
		ch.slow = true
		r.busy--
		r.slow++
		r.dispatch(now)
	}
	switch {
	case took >= stuckAfter:
		before := r.buffered
		r.drop(ch)
		if ch.lane.running >= ch.lane.window {
			r.release(ch.lane)
		}
		if r.buffered < before {
			r.refill(ch.lane, now)
		}
		if !ch.slow {
			ch.timer.Reset(slowAfter)
		}
	case ch.slow:
		ch.timer.Reset(stuckAfter - took)
	default:
		ch.timer.Reset(slowAfter)
	}
}

// enabled forgets the failures of a destination.
func (r *run) enabled(destination string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.lanes[destination]; l != nil {
		l.reset()
	}
	r.signal()
}

package outbox

import (
	"time"

	"github.com/redo-go/redo/internal/chance"
)

// lane is a relay's own state of one destination. The run's mutex guards it.
type lane struct {
	name     string
	chains   []*chain // claimed, and not started
	buffered int      // unstarted events, in waiting and in running chains
	running  int      // running chains
	window   int      // the limit on running chains; it grows with each success and shrinks with each failure
	queued   bool     // it is in the run's list of ready lanes
	more     bool     // the last claim was full
	idle     time.Time
	blocked  time.Time // since when no attempt has started or ended

	fails     int       // in a row
	misses    int       // attempts in a row that delivered nothing, for any reason
	rests     int       // in a row
	until     time.Time // it rests until then
	asked     time.Time // the end of a rest that the destination or the client requested; no success ends it earlier
	failing   time.Time // since when nothing was delivered; zero: it does not fail
	delivered time.Time // the last success
	disabled  bool      // by this relay, and no event was claimed since
	rate      rate
}

// chain holds claimed events of one line, which are delivered one after the other.
type chain struct {
	lane  *lane
	items []*item // not started
	slow  bool    // it has left its worker
	begun time.Time
	timer *time.Timer
}

// item is a claimed event.
type item struct {
	d       Delivery
	claimed time.Time
	renewed time.Time
	lost    bool
	cancel  func(error) // nil while no attempt runs
}

const (
	startWindow = 4
	firstRest   = time.Second
	longestRest = time.Minute
)

func newLane(name string, now time.Time, limit int) *lane {
	return &lane{name: name, window: min(startWindow, limit), idle: now, blocked: now}
}

// share returns the number of events of the destination that the relay may hold. It is the number of deliveries in
// the last second, and at least the destination's concurrency.
func (l *lane) share(now time.Time) int { return min(max(l.window, l.rate.last(now)), mostHeld) }

// room returns the number of events that may be claimed for the destination.
func (l *lane) room(now time.Time) int {
	if now.Before(l.until) || l.running >= l.window && now.Sub(l.blocked) >= stuckAfter {
		return 0
	}
	return max(0, l.share(now)-l.buffered-l.running)
}

// ready reports whether a chain can start.
func (l *lane) ready(now time.Time) bool {
	return len(l.chains) > 0 && l.running < l.window && !now.Before(l.until)
}

// hungry reports whether a claim for the destination is worth its round trip.
func (l *lane) hungry(now time.Time) bool {
	room := l.room(now)
	return l.more && room > 0 && (len(l.chains) == 0 || 2*room >= l.share(now))
}

// succeed records a delivery.
func (l *lane) succeed(now time.Time, limit int) {
	l.rate.add(now)
	l.window = min(l.window+1, limit)
	l.fails, l.misses, l.rests, l.failing, l.delivered, l.until = 0, 0, 0, time.Time{}, now, l.asked
}

// fail records a failed attempt. It reports whether the destination rests from now on.
func (l *lane) fail(now time.Time, v verdict, hint time.Duration, breaker int) bool {
	if l.failing.IsZero() {
		l.failing = now
	}
	l.misses++
	if v == refused || v == rejected {
		return false
	}
	l.fails++
	l.window = max(1, l.window/2)
	switch {
	case now.Before(l.until):
		return false
	case v == gone || v == notSent || breaker > 0 && l.fails >= breaker:
		l.window = 1
		l.rest(now, max(hint, min(firstRest<<min(l.rests, 10), longestRest)))
		l.rests++
	case hint > 0:
		l.rest(now, hint)
	default:
		return false
	}
	if hint > 0 {
		l.asked = l.until
	}
	return true
}

// rest prevents claims for the destination for d, up to a quarter more.
func (l *lane) rest(now time.Time, d time.Duration) {
	l.until = now.Add(d + time.Duration(chance.Float64()*float64(d)/4))
}

// reset forgets the failures.
func (l *lane) reset() {
	l.fails, l.misses, l.rests, l.failing, l.disabled = 0, 0, 0, time.Time{}, false
	l.until, l.asked = time.Time{}, time.Time{}
}

// rate counts deliveries in seconds.
type rate struct {
	start        time.Time // the start of the current second
	now, earlier int
}

func (r *rate) turn(now time.Time) {
	switch age := now.Sub(r.start); {
	case age >= 2*time.Second:
		r.start, r.now, r.earlier = now, 0, 0
	case age >= time.Second:
		r.start, r.now, r.earlier = r.start.Add(time.Second), 0, r.now
	}
}

func (r *rate) add(now time.Time) {
	r.turn(now)
	r.now++
}

// last returns the number of deliveries in the current second or in the one before.
func (r *rate) last(now time.Time) int {
	r.turn(now)
	return max(r.now, r.earlier)
}

package memoutbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// A Queue implements outbox.Queue, outbox.Backlog and outbox.Watcher in memory. Create one with [New].
type Queue struct {
	mu           sync.Mutex
	seq          uint64
	rows         map[uint64]*row // all that are committed
	names        map[name]*row
	lines        map[lineKey]*line
	destinations map[string]*destination
	disabled     map[string]outbox.DisabledDestination
	watchers     map[*func()]struct{}
	wakes        bool // events have become due since the lock was taken
}

// New returns an empty queue.
func New() *Queue {
	return &Queue{
		rows: map[uint64]*row{}, names: map[name]*row{}, lines: map[lineKey]*line{},
		destinations: map[string]*destination{}, disabled: map[string]outbox.DisabledDestination{},
		watchers: map[*func()]struct{}{},
	}
}

// A row is a committed event.
type row struct {
	seq, fence uint64
	event      outbox.Event
	enqueued   time.Time
	due        time.Time // of a claimed event: when its lease expires
	tried      time.Time // the first of the attempts
	died       time.Time
	attempts   int
	claimed    bool
	sent       bool
	history    []outbox.PastFailure
}

// A name is taken by one event.
type name struct{ id, destination string }

func nameOf(ev outbox.Event) name { return name{ev.ID, ev.Destination} }

// unlock releases the lock and then wakes the watchers if events have become due.
func (q *Queue) unlock() {
	var wake []func()
	if q.wakes {
		for w := range q.watchers {
			wake = append(wake, *w)
		}
	}
	q.wakes = false
	q.mu.Unlock()
	for _, w := range wake {
		w()
	}
}

func (q *Queue) line(r *row) *line {
	k := lineKey{destination: r.event.Destination, key: r.event.OrderingKey}
	if k.key == "" {
		k.seq = r.seq
	}
	l := q.lines[k]
	if l == nil {
		to := q.destinations[k.destination]
		if to == nil {
			to = &destination{name: k.destination}
			q.destinations[k.destination] = to
		}
		l = &line{to: to, key: k, at: -1}
		q.lines[k] = l
		to.known++
	}
	return l
}

// wait adds the event to its line.
func (q *Queue) wait(r *row) {
	l := q.line(r)
	l.waiting = insert(l.waiting, r)
	l.place()
}

// end removes the event from those that wait.
func (q *Queue) end(r *row) {
	l := q.line(r)
	r.claimed = false
	l.waiting, l.claimed = remove(l.waiting, r), remove(l.claimed, r)
	if r.sent || !r.died.IsZero() {
		l.place()
	}
	q.forget(l)
}

// forget removes a line without events, and a destination without lines.
func (q *Queue) forget(l *line) {
	if len(l.waiting) > 0 || len(l.dead) > 0 {
		return
	}
	delete(q.lines, l.key)
	if l.to.known--; l.to.known == 0 {
		delete(q.destinations, l.to.name)
	}
}

// Claim implements [outbox.Queue].
func (q *Queue) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	var found []candidate
	for _, d := range q.destinations {
		if _, disabled := q.disabled[d.name]; !disabled {
			found = append(found, d.due(now, c.Limit(d.name), c.HoldKeys)...)
		}
	}
	slices.SortFunc(found, oldest)
	found = found[:min(c.Max, len(found))]
	ds := make([]outbox.Delivery, len(found))
	for i, f := range found {
		ds[i] = q.take(f.row, now, c.Lease)
	}
	for _, f := range found {
		q.line(f.row).place()
	}
	return ds, nil
}

// take claims the event. The caller places the line afterwards.
func (q *Queue) take(r *row, now time.Time, lease time.Duration) outbox.Delivery {
	d := outbox.Delivery{Event: r.event, Age: now.Sub(r.enqueued)}
	d.Event.Header, d.Event.Payload = r.event.Header.Clone(), slices.Clone(r.event.Payload)
	if r.attempts == 0 {
		r.tried = now
	} else {
		d.Tried = now.Sub(r.tried)
	}
	l := q.line(r)
	if !r.claimed {
		l.claimed = append(l.claimed, r)
	}
	r.claimed, r.due = true, now.Add(lease)
	r.attempts++
	r.fence++
	d.Attempt, d.Lease = r.attempts, outbox.Lease{Seq: r.seq, Fence: r.fence}
	return d
}

// owned returns the event of a lease that is not lost.
func (q *Queue) owned(l outbox.Lease) (*row, bool) {
	r := q.rows[l.Seq]
	return r, r != nil && r.claimed && r.fence == l.Fence
}

// Extend implements [outbox.Queue].
func (q *Queue) Extend(ctx context.Context, d time.Duration, leases ...outbox.Lease) (lost []outbox.Lease, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := outbox.CheckLease(d); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, l := range leases {
		r, ok := q.owned(l)
		if !ok {
			lost = append(lost, l)
			continue
		}
		r.due = now.Add(d)
		q.line(r).place()
	}
	return lost, nil
}

// Settle implements [outbox.Queue].
func (q *Queue) Settle(ctx context.Context, ended ...outbox.Settlement) (lost []outbox.Lease, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, s := range ended {
		if err := s.Outcome.Validate(); err != nil {
			return nil, err
		}
	}
	q.mu.Lock()
	defer q.unlock()
	now := time.Now()
	for _, s := range ended {
		if r, ok := q.owned(s.Lease); ok {
			q.settle(r, s.Outcome, now)
		} else {
			lost = append(lost, s.Lease)
		}
	}
	return lost, nil
}

func (q *Queue) settle(r *row, o outbox.Outcome, now time.Time) {
	if o.Result == outbox.Waiting || o.Result == outbox.Dead {
		r.history = append(r.history, outbox.PastFailure{At: now, Failure: o.Failure})
		r.history = r.history[max(0, len(r.history)-outbox.MaxHistory):]
	}
	l := q.line(r)
	switch o.Result {
	case outbox.Sent:
		r.sent = true
		q.end(r)
	case outbox.Dead:
		r.died = now
		l.dead = insert(l.dead, r)
		q.end(r)
	case outbox.Released:
		r.attempts--
		o.Wait = 0
		fallthrough
	case outbox.Waiting:
		r.claimed, r.due = false, now.Add(o.Wait)
		l.claimed = remove(l.claimed, r)
		l.place()
	}
	q.wakes = q.wakes || len(l.waiting) > 0 && !l.due.After(now)
}

// Disable implements [outbox.Queue].
func (q *Queue) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := (outbox.Outcome{Result: outbox.Dead, Failure: why}).Validate(); err != nil {
		return err
	}
	if len(destination) > outbox.MaxDestination {
		return fmt.Errorf("memoutbox: %w: the destination has %d bytes", store.ErrInvalid, len(destination))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.disabled[destination]; !ok {
		q.disabled[destination] = outbox.DisabledDestination{Destination: destination, Since: time.Now(), Why: why}
	}
	return nil
}

// Enable implements [outbox.Queue].
func (q *Queue) Enable(ctx context.Context, destination string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.unlock()
	_, q.wakes = q.disabled[destination]
	delete(q.disabled, destination)
	return nil
}

// Disabled implements [outbox.Queue].
func (q *Queue) Disabled(ctx context.Context) (found []outbox.DisabledDestination, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range q.disabled {
		found = append(found, d)
	}
	slices.SortFunc(found, func(a, b outbox.DisabledDestination) int {
		return strings.Compare(a.Destination, b.Destination)
	})
	return found, nil
}

// Watch implements [outbox.Watcher].
func (q *Queue) Watch(ctx context.Context, wake func()) error {
	q.mu.Lock()
	q.watchers[&wake] = struct{}{}
	q.mu.Unlock()
	wake()
	<-ctx.Done()
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.watchers, &wake)
	return nil
}

package boltoutbox

import (
	"bytes"
	"fmt"

	"github.com/redo-go/redo/outbox"
)

// enqueue writes the events, or none of them after an error that wraps outbox.ErrDuplicate.
func (f *file) enqueue(events []outbox.Event) error {
	for _, ev := range events {
		if f.get(f.ids, state{ID: ev.ID, Destination: ev.Destination}.id()) != nil {
			return fmt.Errorf("%w: %q", outbox.ErrDuplicate, ev.ID)
		}
	}
	for _, ev := range events {
		seq := f.next(f.events)
		s := state{
			ID: ev.ID, Type: ev.Type, Destination: ev.Destination, Key: ev.OrderingKey, Enqueued: f.now, Due: f.now,
		}
		f.set(f.ids, s.id(), number(seq))
		f.set(f.events, number(seq), encodeBody(ev))
		f.wait(seq, s)
	}
	return nil
}

// wait makes an absent event wait.
func (f *file) wait(seq uint64, s state) {
	f.set(f.waiting, number(seq), f.encode(s))
	f.count(f.waiting, 1)
	f.index(seq, s)
}

// owned returns the state of the event that the lease is for. It returns false if the lease is lost.
func (f *file) owned(l outbox.Lease) (s state, ok bool) {
	v := f.get(f.waiting, number(l.Seq))
	return s, v != nil && decode(v, &s) == nil && s.Leased && s.Fence == l.Fence
}

func (f *file) extend(until int64, leases []outbox.Lease) (lost []outbox.Lease) {
	for _, l := range leases {
		s, ok := f.owned(l)
		if !ok {
			lost = append(lost, l)
			continue
		}
		f.unindex(l.Seq, s)
		s.Due = until
		f.index(l.Seq, s)
		f.set(f.waiting, number(l.Seq), f.encode(s))
	}
	return lost
}

func (f *file) settle(ended []outbox.Settlement) (lost []outbox.Lease) {
	for _, e := range ended {
		s, ok := f.owned(e.Lease)
		if !ok {
			lost = append(lost, e.Lease)
			continue
		}
		seq, o := e.Lease.Seq, e.Outcome
		f.unindex(seq, s)
		s.Leased, s.Due = false, f.now+int64(o.Wait)
		switch o.Result {
		case outbox.Sent, outbox.Dead:
			f.unset(f.waiting, number(seq))
			f.count(f.waiting, -1)
			if o.Result == outbox.Sent {
				f.erase(seq, s)
				f.set(f.sent, place{s.Enqueued, seq}.key(), s.id())
			} else {
				f.remember(seq, &s, o.Failure)
				f.bury(seq, s)
			}
			continue
		case outbox.Released:
			s.Attempts--
			s.Due = f.now
		default:
			f.remember(seq, &s, o.Failure)
		}
		f.index(seq, s)
		f.set(f.waiting, number(seq), f.encode(s))
	}
	return lost
}

// remember adds the failure to the event's history.
func (f *file) remember(seq uint64, s *state, o outbox.Failure) {
	f.set(f.history, append(number(seq), number(s.Fence)...), f.encode(failed(f.now, o)))
	if s.Failures++; s.Failures > outbox.MaxHistory {
		first := f.scan(f.history, number(seq), nil)
		f.unset(f.history, append(number(seq), first.key...))
		s.Failures--
	}
}

// erase deletes the data of a sent or dropped event. Its id remains taken.
func (f *file) erase(seq uint64, s state) {
	f.unset(f.events, number(seq))
	for ; s.Failures > 0; s.Failures-- {
		first := f.scan(f.history, number(seq), nil)
		f.unset(f.history, append(number(seq), first.key...))
	}
}

// bury turns an event that no longer waits into a dead letter.
func (f *file) bury(seq uint64, s state) {
	s.Died, s.Due = f.now, 0
	f.set(f.dead, number(seq), f.encode(s))
	f.count(f.dead, 1)
	f.set(f.deaths, place{s.Died, seq}.key(), nil)
	if s.Key != "" {
		f.set(f.held, append(s.line(), number(seq)...), nil)
	}
}

// exhume removes a dead letter and returns it. The error wraps outbox.ErrNoLetter if there is none.
func (f *file) exhume(id, destination string) (seq uint64, s state, err error) {
	v := f.get(f.ids, state{ID: id, Destination: destination}.id())
	if v != nil && len(v) < 8 { // parse would fail the changes of other callers too
		return 0, state{}, corrupt("the number of the event %.300q has %d bytes", id, len(v))
	}
	if v != nil {
		seq = f.parse(v)
		v = f.get(f.dead, number(seq))
	}
	if v == nil {
		return 0, state{}, fmt.Errorf("%w: %.300q", outbox.ErrNoLetter, id)
	}
	if err := decode(v, &s); err != nil {
		return 0, state{}, err
	}
	f.unset(f.dead, number(seq))
	f.count(f.dead, -1)
	f.unset(f.deaths, place{s.Died, seq}.key())
	if s.Key != "" {
		f.unset(f.held, append(s.line(), number(seq)...))
		f.touched.lines[string(s.line())] = true
	}
	return seq, s, nil
}

// revive makes a dead letter wait again.
func (f *file) revive(id, destination string) error {
	seq, s, err := f.exhume(id, destination)
	if err != nil {
		return err
	}
	s.Attempts, s.First, s.Died, s.Due = 0, 0, 0, f.now
	f.wait(seq, s)
	return nil
}

// drop deletes a dead letter, which may hold its line.
func (f *file) drop(id, destination string) error {
	seq, s, err := f.exhume(id, destination)
	if err != nil {
		return err
	}
	f.erase(seq, s)
	f.unset(f.ids, s.id())
	return nil
}

// purge deletes up to limit sent events that were enqueued before the instant. It passes over a damaged key, which is
// kept.
func (f *file) purge(before int64, limit int) int {
	var old [][2][]byte
	for s := f.scan(f.sent, nil, nil); s.key != nil && len(old) < limit; s.next() {
		if len(s.key) != 16 {
			continue
		}
		if f.place(s.key).at >= before {
			break
		}
		old = append(old, [2][]byte{bytes.Clone(s.key), bytes.Clone(s.value)})
	}
	for _, e := range old {
		f.unset(f.sent, e[0])
		f.unset(f.ids, e[1])
	}
	return len(old)
}

func (f *file) disable(destination string, why outbox.Failure) {
	if f.get(f.disabled, text(destination)) != nil {
		return
	}
	f.set(f.disabled, text(destination), f.encode(failed(f.now, why)))
	f.touchLanes(destination)
}

func (f *file) enable(destination string) {
	if f.get(f.disabled, text(destination)) == nil {
		return
	}
	f.unset(f.disabled, text(destination))
	f.touchLanes(destination)
	f.wakes = true
}

func (f *file) touchLanes(destination string) {
	for _, held := range []bool{false, true} {
		f.touched.lanes[string(lane(destination, held))] = true
	}
}

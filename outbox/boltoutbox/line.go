package boltoutbox

import (
	"bytes"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// A transition that returns an error of its caller has changed nothing. Any other error rolls the whole transaction
// back.

// enqueue appends the event.
func (f *file) enqueue(ev outbox.Event, now int64) error {
	taken, err := f.find(ev.ID)
	if err != nil {
		return err
	}
	if taken != 0 {
		return fmt.Errorf("%w: %q", outbox.ErrDuplicate, ev.ID)
	}
	seq, err := f.events.NextSequence()
	if err != nil {
		return err
	}
	v, err := encodeEvent(ev)
	if err != nil {
		return err
	}
	if err := f.events.Put(seqKey(seq), v); err != nil {
		return err
	}
	if err := f.ids.Put([]byte(ev.ID), seqKey(seq)); err != nil {
		return err
	}
	return f.join(seq, 0, state{status: isWaiting, enqueued: now, due: now, key: ev.OrderingKey})
}

// join makes an absent or dead event wait.
func (f *file) join(seq uint64, was status, s state) error {
	f.wakes = true
	if err := f.put(seq, s); err != nil {
		return err
	}
	if err := f.waiting.Put(seqKey(seq), nil); err != nil {
		return err
	}
	if err := f.count(was, isWaiting); err != nil {
		return err
	}
	if s.key == "" {
		return f.due.Put(place{s.due, seq}.key(), nil)
	}
	if err := f.lines.Put(lineKey(s.key, seq), nil); err != nil {
		return err
	}
	return f.advance(s.key)
}

// advance makes the first event of a line its front, unless the front is leased.
func (f *file) advance(key string) error {
	if key == "" {
		return nil
	}
	var first uint64
	prefix := append([]byte(key), 0)
	if k, _ := f.lines.Cursor().Seek(prefix); bytes.HasPrefix(k, prefix) {
		seq, err := parseSeq(k[len(prefix):])
		if err != nil {
			return err
		}
		first = seq
	}
	if v := f.fronts.Get([]byte(key)); v != nil {
		front, err := parseSeq(v)
		if err != nil {
			return err
		}
		if front == first {
			return nil
		}
		s, err := f.state(front)
		if err != nil {
			return err
		}
		if s.leased {
			return nil
		}
		if err := f.due.Delete(place{s.due, front}.key()); err != nil {
			return err
		}
	}
	if first == 0 {
		return f.fronts.Delete([]byte(key))
	}
	s, err := f.state(first)
	if err != nil {
		return err
	}
	if err := f.due.Put(place{s.due, first}.key(), nil); err != nil {
		return err
	}
	f.wakes = true
	return f.fronts.Put([]byte(key), seqKey(first))
}

// candidates returns up to limit events that may be claimed, the earliest due first.
func (f *file) candidates(now int64, limit int, hold bool) ([]place, error) {
	var found []place
	c := f.due.Cursor()
	for k, _ := c.First(); k != nil && len(found) < limit; k, _ = c.Next() {
		p, err := parsePlace(k)
		if err != nil {
			return nil, err
		}
		if p.at > now {
			break
		}
		if hold {
			s, err := f.state(p.seq)
			if err != nil {
				return nil, err
			}
			if s.key != "" && !s.leased && f.holds(s.key, p.seq) {
				continue
			}
		}
		found = append(found, p)
	}
	return found, nil
}

// holds reports whether a dead letter precedes the event in its line.
func (f *file) holds(key string, seq uint64) bool {
	prefix := append([]byte(key), 0)
	k, _ := f.held.Cursor().Seek(prefix)
	return bytes.HasPrefix(k, prefix) && bytes.Compare(k, lineKey(key, seq)) < 0
}

func (f *file) claim(now int64, c outbox.Claim) ([]outbox.Delivery, error) {
	places, err := f.candidates(now, c.Max, c.HoldKeys)
	if err != nil {
		return nil, err
	}
	var ds []outbox.Delivery
	for _, p := range places {
		s, err := f.state(p.seq)
		if err != nil {
			return nil, err
		}
		ev, err := f.event(p.seq)
		if err != nil {
			return nil, err
		}
		if s.fence, err = f.root.NextSequence(); err != nil {
			return nil, err
		}
		if s.attempts == 0 {
			s.first = now
		}
		s.leased, s.attempts = true, s.attempts+1
		if err := f.rest(p.seq, &s, now+int64(c.Lease)); err != nil {
			return nil, err
		}
		ds = append(ds, outbox.Delivery{
			Event: ev, Lease: outbox.Lease{Seq: p.seq, Fence: s.fence}, Attempt: int(s.attempts),
			Age: time.Duration(now - s.enqueued), Tried: time.Duration(now - s.first),
		})
	}
	return ds, nil
}

// rest moves an event to another instant in the due index.
func (f *file) rest(seq uint64, s *state, until int64) error {
	if err := f.due.Delete(place{s.due, seq}.key()); err != nil {
		return err
	}
	s.due = until
	if err := f.due.Put(place{s.due, seq}.key(), nil); err != nil {
		return err
	}
	return f.put(seq, *s)
}

// owned returns the state of the event whose lease is l, or store.ErrLost.
func (f *file) owned(l outbox.Lease) (state, error) {
	v := f.states.Get(seqKey(l.Seq))
	if v == nil {
		return state{}, fmt.Errorf("boltoutbox: %w", store.ErrLost)
	}
	s, err := decodeState(v)
	if err == nil && (s.status != isWaiting || !s.leased || s.fence != l.Fence) {
		err = fmt.Errorf("boltoutbox: %w", store.ErrLost)
	}
	return s, err
}

func (f *file) extend(l outbox.Lease, until int64) error {
	s, err := f.owned(l)
	if err != nil {
		return err
	}
	return f.rest(l.Seq, &s, until)
}

func (f *file) settle(l outbox.Lease, o outbox.Outcome, now int64) error {
	s, err := f.owned(l)
	if err != nil {
		return err
	}
	s.leased = false
	switch o.Result {
	case outbox.Sent:
		return f.finish(l.Seq, s, isSent, now)
	case outbox.Dead:
		s.failure = o.Failure
		return f.finish(l.Seq, s, isDead, now)
	case outbox.Released:
		s.attempts--
		o.Wait, f.wakes = 0, true
	default:
		s.failure = o.Failure
	}
	if err := f.rest(l.Seq, &s, now+int64(o.Wait)); err != nil {
		return err
	}
	return f.advance(s.key)
}

// finish ends an event's wait.
func (f *file) finish(seq uint64, s state, to status, now int64) error {
	if err := f.due.Delete(place{s.due, seq}.key()); err != nil {
		return err
	}
	if err := f.waiting.Delete(seqKey(seq)); err != nil {
		return err
	}
	s.status, s.done = to, now
	if err := f.put(seq, s); err != nil {
		return err
	}
	if err := f.count(isWaiting, to); err != nil {
		return err
	}
	index := f.sent
	if to == isDead {
		index = f.dead
	}
	if err := index.Put(place{now, seq}.key(), nil); err != nil {
		return err
	}
	if s.key == "" {
		return nil
	}
	if err := f.lines.Delete(lineKey(s.key, seq)); err != nil {
		return err
	}
	if to == isDead {
		if err := f.held.Put(lineKey(s.key, seq), nil); err != nil {
			return err
		}
	}
	return f.advance(s.key)
}

// revive makes a dead letter wait again.
func (f *file) revive(id string, now int64) error {
	seq, s, err := f.letter(id)
	if err != nil {
		return err
	}
	if err := f.exhume(seq, s); err != nil {
		return err
	}
	return f.join(seq, isDead, state{status: isWaiting, fence: s.fence, enqueued: s.enqueued, due: now, key: s.key})
}

// exhume takes a dead letter out of the indexes of the dead.
func (f *file) exhume(seq uint64, s state) error {
	if err := f.dead.Delete(place{s.done, seq}.key()); err != nil {
		return err
	}
	if s.key == "" {
		return nil
	}
	return f.held.Delete(lineKey(s.key, seq))
}

// drop deletes a dead letter, which may have blocked its line.
func (f *file) drop(id string) error {
	f.wakes = true
	seq, s, err := f.letter(id)
	if err != nil {
		return err
	}
	if err := f.exhume(seq, s); err != nil {
		return err
	}
	if err := f.count(isDead, 0); err != nil {
		return err
	}
	return f.erase(seq, id)
}

// erase deletes an event that is in no index.
func (f *file) erase(seq uint64, id string) error {
	f.changed = true
	for _, e := range []struct {
		b   *bbolt.Bucket
		key []byte
	}{{f.states, seqKey(seq)}, {f.events, seqKey(seq)}, {f.ids, []byte(id)}} {
		if err := e.b.Delete(e.key); err != nil {
			return err
		}
	}
	return nil
}

// purge erases up to limit events that were sent before the instant.
func (f *file) purge(before int64, limit int) (int, error) {
	var old []place
	c := f.sent.Cursor()
	for k, _ := c.First(); k != nil && len(old) < limit; k, _ = c.Next() {
		p, err := parsePlace(k)
		if err != nil {
			return 0, err
		}
		if p.at >= before {
			break
		}
		old = append(old, p)
	}
	for _, p := range old {
		ev, err := f.event(p.seq)
		if err != nil {
			return 0, err
		}
		if err := f.sent.Delete(p.key()); err != nil {
			return 0, err
		}
		if err := f.erase(p.seq, ev.ID); err != nil {
			return 0, err
		}
	}
	return len(old), nil
}

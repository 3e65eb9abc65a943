package boltoutbox

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// Stats implements [outbox.Backlog].
func (q *Queue) Stats(ctx context.Context) (st outbox.Stats, err error) {
	err = q.view(ctx, func(f *file) error {
		st = outbox.Stats{Waiting: int(f.waiting.Sequence()), Dead: int(f.dead.Sequence())}
		first := f.scan(f.waiting, nil, nil)
		if first.key == nil {
			return nil
		}
		var s state
		err := decode(first.value, &s)
		st.Oldest = max(0, time.Duration(time.Now().UnixNano()-s.Enqueued))
		return err
	})
	if err != nil {
		return outbox.Stats{}, err
	}
	return st, nil
}

// Events implements [outbox.Backlog].
func (q *Queue) Events(ctx context.Context, sel outbox.Selection) iter.Seq2[outbox.Entry, error] {
	return func(yield func(outbox.Entry, error) bool) {
		for _, st := range []outbox.State{outbox.StateDead, outbox.StateWaiting} {
			if sel.State != 0 && sel.State != st {
				continue
			}
			for p := (page{state: st}); !p.last; {
				read := p.read
				if sel.ID != "" {
					read = p.find
				}
				if err := q.view(ctx, func(f *file) error { read(f, sel); return f.err }); err != nil {
					yield(outbox.Entry{}, err)
					return
				}
				for _, l := range p.found {
					if !yield(l.entry, l.err) {
						return
					}
				}
			}
		}
	}
}

// page is the part of a state's events that one transaction reads.
type page struct {
	state outbox.State
	after []byte // index key of the previous page's last event
	last  bool
	found []listed
}

type listed struct {
	entry outbox.Entry
	err   error
}

// These limits end a page: a number of index keys, and a number of payload bytes.
const (
	pageKeys  = 1000
	pageBytes = 1 << 20
)

// find reads the events with the selection's id, at most one for each destination, as the only page.
func (p *page) find(f *file, sel outbox.Selection) {
	p.last = true
	var start []byte
	if sel.Destination != "" {
		start = text(sel.Destination)
	}
	var seqs []uint64
	for s := f.scan(f.ids, text(sel.ID), start); s.key != nil && (start == nil || bytes.Equal(s.key, start)); s.next() {
		seqs = append(seqs, f.parse(s.value))
	}
	slices.Sort(seqs)
	_, states := p.buckets(f)
	for _, seq := range seqs {
		if v := f.get(states, number(seq)); v != nil { // neither in the other state nor sent
			p.add(f, seq, v, sel)
		}
	}
	slices.SortStableFunc(p.found, func(a, b listed) int { return a.entry.DeadAt.Compare(b.entry.DeadAt) })
}

// add reads an event if it matches the selection. It returns the size of its payload.
func (p *page) add(f *file, seq uint64, v []byte, sel outbox.Selection) int {
	e, err := f.entry(seq, p.state, v, sel)
	if err != nil || sel.Matches(e) {
		p.found = append(p.found, listed{e, err})
	}
	return len(e.Event.Payload)
}

// buckets returns the index with the order of the list, and the bucket of the states.
func (p *page) buckets(f *file) (index, states *bbolt.Bucket) {
	if p.state == outbox.StateDead {
		return f.deaths, f.dead
	}
	return f.waiting, f.waiting
}

// read reads the next page.
func (p *page) read(f *file, sel outbox.Selection) {
	index, states := p.buckets(f)
	p.found = p.found[:0]
	s, size := f.scan(index, nil, p.after), 0
	for n := 0; ; s.next() {
		switch {
		case s.key == nil:
			p.last = true
			return
		case string(s.key) == string(p.after):
			continue
		case n == pageKeys || size > pageBytes:
			return
		}
		n++
		p.after = slices.Clone(s.key)
		seq := s.key[max(0, len(s.key)-8):]
		size += p.add(f, f.parse(seq), f.get(states, seq), sel)
	}
}

// entry decodes an event. It reads the payload and the history only of an event that matches the selection.
func (f *file) entry(seq uint64, st outbox.State, v []byte, sel outbox.Selection) (outbox.Entry, error) {
	e := outbox.Entry{State: st}
	var s state
	if err := decode(v, &s); err != nil {
		return e, err
	}
	e.Event = outbox.Event{ID: s.ID, Type: s.Type, Destination: s.Destination, OrderingKey: s.Key}
	e.EnqueuedAt, e.Attempts = time.Unix(0, s.Enqueued), s.Attempts
	if st == outbox.StateDead {
		e.DeadAt = time.Unix(0, s.Died)
	} else {
		e.DueAt = time.Unix(0, s.Due)
	}
	if !sel.Matches(e) {
		return e, nil
	}
	for h := f.scan(f.history, number(seq), nil); h.key != nil; h.next() {
		var past failure
		if err := decode(h.value, &past); err != nil {
			return e, err
		}
		e.History = append(e.History, past.past())
	}
	var err error
	e.Event, err = f.event(seq, s)
	return e, err
}

// Redrive implements [outbox.Backlog].
func (q *Queue) Redrive(ctx context.Context, id, destination string) error {
	return q.change(ctx, func(f *file) error { return f.revive(id, destination) })
}

// Drop implements [outbox.Backlog].
func (q *Queue) Drop(ctx context.Context, id, destination string) error {
	return q.change(ctx, func(f *file) error { return f.drop(id, destination) })
}

// Purge implements [outbox.Backlog].
func (q *Queue) Purge(ctx context.Context, age time.Duration, limit int) (int, error) {
	if age < 0 || limit < 1 {
		return 0, fmt.Errorf("boltoutbox: %w: the age is %v and the limit %d, they must not be "+
			"negative and be positive",
			store.ErrInvalid, age, limit)
	}
	return value(ctx, q, func(f *file) int { return f.purge(f.now-int64(min(age, time.Duration(f.now))), limit) })
}

func (q *Queue) view(ctx context.Context, f func(*file) error) error {
	err := q.st.View(ctx, func(tx *boltstore.Tx) error {
		return guarded(func() error {
			opened, err := q.open(tx, time.Now().UnixNano())
			if err != nil {
				return err
			}
			if err := f(opened); err != nil {
				return err
			}
			return opened.err
		})
	})
	if err != nil && ctx.Err() == nil {
		return explain(err)
	}
	return err
}

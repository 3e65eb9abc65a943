package limit

import (
	"container/list"
	"time"
)

// maxDestinations bounds the destinations that each of Buckets, PerDestination and NewBreaker keeps.
const maxDestinations = 4096

// rescanAfter is the shortest time between two searches of all held rows. It bounds the cost of a new destination
// while the state of every destination matters.
const rescanAfter = time.Second

// table holds the state of at most maxDestinations destinations. It needs a lock around it. The zero table is not
// valid: matters must be set.
type table[K comparable, V any] struct {
	matters func(V) bool // reports whether the state differs from that of a new destination; calls no user code
	rows    map[K]*list.Element
	recent  list.List // of *row; least recently used first
	held    list.List // of *row; those that mattered when room was needed, and were not used since
	scanned time.Time // the last search of held
}

type row[K comparable, V any] struct {
	key   K
	value V
	held  bool
}

func newTable[K comparable, V any](matters func(V) bool) table[K, V] {
	return table[K, V]{matters: matters, rows: map[K]*list.Element{}}
}

// get returns the state of k and marks it as the most recently used. It returns the zero V if there is none.
func (t *table[K, V]) get(k K) V {
	e := t.rows[k]
	if e == nil {
		var none V
		return none
	}
	r := e.Value.(*row[K, V])
	if r.held {
		t.held.Remove(e)
		r.held = false
		t.rows[k] = t.recent.PushBack(r)
	} else {
		t.recent.MoveToBack(e)
	}
	return r.value
}

// add inserts the state of k, which must not be in the table. It drops another destination if the table is full.
func (t *table[K, V]) add(k K, v V) {
	if len(t.rows) >= maxDestinations {
		t.makeRoom()
	}
	t.rows[k] = t.recent.PushBack(&row[K, V]{key: k, value: v})
}

// remove deletes the state of k, if there is any.
func (t *table[K, V]) remove(k K) {
	e := t.rows[k]
	switch {
	case e == nil:
		return
	case e.Value.(*row[K, V]).held:
		t.held.Remove(e)
	default:
		t.recent.Remove(e)
	}
	delete(t.rows, k)
}

// makeRoom drops one row of a full table. A row moves to held at most once between two uses, so that the cost per
// call is constant on average.
func (t *table[K, V]) makeRoom() {
	for e := t.recent.Front(); e != nil; e = t.recent.Front() {
		r := e.Value.(*row[K, V])
		if !t.matters(r.value) {
			t.remove(r.key)
			return
		}
		t.recent.Remove(e)
		r.held = true
		t.rows[r.key] = t.held.PushBack(r)
	}
	drop := t.held.Front()
	if now := time.Now(); now.Sub(t.scanned) >= rescanAfter {
		t.scanned = now
		for e := t.held.Front(); e != nil; e = e.Next() {
			if !t.matters(e.Value.(*row[K, V]).value) {
				drop = e
				break
			}
		}
	}
	t.remove(drop.Value.(*row[K, V]).key)
}

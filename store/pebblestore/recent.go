package pebblestore

// recentSize is the number of bytes of records that each half of a recent keeps.
const recentSize = 16 << 20

// recentMax is the size from which a record is read again. A recent of larger ones would take gigabytes.
const recentMax = 1 << 20

// A recent holds the records that were changed last, so that the owner's next call reads nothing. It has two halves:
// when the young one is full it becomes the old one, and the old one is forgotten.
//
// It also makes reads of Pebble safe without a lock. If a record changed during a read, recent has it. If turns
// changed too, the record is read again.
type recent struct {
	young, old map[string]*record // nil: absent
	size       int
	turns      uint64 // counts the times that a record was forgotten
}

func newRecent() recent { return recent{young: map[string]*record{}} }

func (c *recent) get(key []byte) (r *record, ok bool) {
	if r, ok = c.young[string(key)]; !ok {
		r, ok = c.old[string(key)]
	}
	return r, ok
}

func (c *recent) put(key string, r *record) {
	size := len(key) + headerSize
	if r != nil {
		size += r.size()
	}
	if size > recentMax {
		delete(c.young, key)
		delete(c.old, key)
		c.turns++ // a read that has begun may return the record before this one
		return
	}
	c.young[key] = r
	c.size += size
	if c.size > recentSize {
		c.young, c.old = make(map[string]*record, len(c.young)), c.young
		c.size = 0
		c.turns++
	}
}

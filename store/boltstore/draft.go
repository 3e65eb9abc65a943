package boltstore

import (
	"bytes"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// A write is one record as a commit leaves it. A nil record is removed.
type write struct {
	key string
	rec *record
}

// A draft is the content of one commit. Its buffers may be reused for the next.
type draft struct {
	writes []write
	state  state
	now    int64
	purge  int // expired records to delete beside those that new records make room for

	purged  int   // expired records that were deleted
	skipped error // the first expired record that can't be read

	arena []byte
	keys  []byte
}

const (
	maxArena = 1 << 20 // bytes of an encoding buffer that is kept for the next commit
	freed    = 2       // expired records that the commit of a new record deletes
	unread   = 256     // expired records that can't be read and that one commit passes
)

// stamp sets the state that the commit writes, and its time. The mutex is held.
func (s *Store) stamp(d *draft) {
	d.state, d.now = state{fence: s.fence + fenceBlock, epoch: s.epoch}, s.clock.now()
}

// stamped returns a draft of the writes. The mutex is held.
func (s *Store) stamped(writes ...write) *draft {
	d := &draft{writes: writes}
	s.stamp(d)
	return d
}

// reset empties the draft.
func (d *draft) reset(purge int) {
	clear(d.writes)
	if cap(d.arena) > maxArena {
		d.arena = nil
	}
	*d = draft{writes: d.writes[:0], purge: purge, arena: d.arena, keys: d.keys}
}

// apply puts the writes into the transaction, in the order of the keys, because neighbours share pages.
func (d *draft) apply(tx *bbolt.Tx) error {
	b, err := open(tx)
	if err != nil {
		return err
	}
	// Index keys mostly grow, so their pages need no room for later keys.
	b.pending.FillPercent, b.expiry.FillPercent = 0.9, 0.9
	slices.SortFunc(d.writes, func(a, b write) int { return strings.Compare(a.key, b.key) })
	size := 0
	for _, wr := range d.writes {
		if wr.rec != nil {
			size += wr.rec.size()
		}
	}
	// bbolt keeps the values until the commit: one buffer holds all of them, and must not move.
	d.arena = slices.Grow(d.arena[:0], size)
	free := d.purge
	for _, wr := range d.writes {
		created, err := d.applyOne(b, wr)
		if err != nil {
			return err
		}
		if created {
			free += freed
		}
	}
	if err := d.free(b, free); err != nil {
		return err
	}
	return b.root.Put(stateKey, d.state.append(nil))
}

// applyOne writes or removes a record and its index entries. It reports whether the record is a new one.
func (d *draft) applyOne(b buckets, wr write) (created bool, err error) {
	key := []byte(wr.key)
	var old, next record
	v := b.records.Get(key)
	if v != nil {
		if old, err = decodeHeader(key, v); err != nil {
			return false, err
		}
	}
	if wr.rec != nil {
		next = *wr.rec
		created = v == nil || next.created != old.created
		start := len(d.arena)
		d.arena = appendRecord(d.arena, key, wr.rec)
		err = b.records.Put(key, d.arena[start:len(d.arena):len(d.arena)])
	} else {
		err = b.records.Delete(key)
	}
	if err != nil {
		return false, err
	}
	was, is := indexed(old.pending(), old.created), indexed(next.pending(), next.created)
	if err := d.move(b.pending, key, was, is); err != nil {
		return false, err
	}
	return created, d.move(b.expiry, key, indexed(old.expires != 0, old.expires), indexed(next.expires != 0, next.expires))
}

// free deletes up to limit records that have expired, the oldest first. It passes records that can't be read.
func (d *draft) free(b buckets, limit int) error {
	var expired [][]byte
	passed := 0
	c := b.expiry.Cursor()
	for k, _ := c.First(); k != nil && len(expired) < limit && passed < unread; k, _ = c.Next() {
		at, key, err := splitIndexKey(k)
		if err == nil && at > d.now {
			break
		}
		if err == nil {
			err = fits(b, at, key)
		}
		if err == nil {
			expired = append(expired, bytes.Clone(key))
			continue
		}
		passed++
		if d.skipped == nil {
			d.skipped = err
		}
	}
	for _, key := range expired {
		if _, err := d.applyOne(b, write{string(key), nil}); err != nil {
			return err
		}
	}
	d.purged = len(expired)
	return nil
}

// fits returns why an entry of the expiry index does not fit its record, or nil.
func fits(b buckets, at int64, key []byte) error {
	r, err := decodeHeader(key, b.records.Get(key))
	if err == nil && r.expires != at {
		err = corrupt("the index of expiries does not match")
	}
	return named(key, err)
}

// An entry is a record's instant in an index, if it is in the index.
type entry struct {
	in bool
	at int64
}

func indexed(in bool, at int64) entry {
	if !in {
		return entry{}
	}
	return entry{true, at}
}

// move replaces a record's entry in an index.
func (d *draft) move(b *bbolt.Bucket, key []byte, was, is entry) error {
	if was == is {
		return nil
	}
	if was.in {
		d.keys = appendIndexKey(d.keys[:0], was.at, key)
		if err := b.Delete(d.keys); err != nil {
			return err
		}
	}
	if is.in {
		d.keys = appendIndexKey(d.keys[:0], is.at, key)
		return b.Put(d.keys, nil)
	}
	return nil
}

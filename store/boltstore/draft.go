package boltstore

import (
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// A write is one record as a commit leaves it; a nil record is removed.
type write struct {
	key string
	rec *record
}

// A draft is what one commit writes. Its buffers may be reused for the next.
type draft struct {
	writes []write
	arena  []byte
	keys   []byte
}

// maxArena is the size of an encoding buffer that is kept for the next commit.
const maxArena = 1 << 20

// apply puts the writes into the transaction, in key order: neighbours share pages.
func (d *draft) apply(tx *bbolt.Tx, st state) error {
	b, err := open(tx)
	if err != nil {
		return err
	}
	// Index keys mostly grow, so their pages need no room for later.
	b.pending.FillPercent, b.expiry.FillPercent = 0.9, 0.9
	slices.SortFunc(d.writes, func(a, b write) int { return strings.Compare(a.key, b.key) })
	size := 0
	for _, wr := range d.writes {
		if wr.rec != nil {
			size += wr.rec.size()
		}
	}
	// bbolt keeps the values until the commit: one buffer for all of them, that must not move.
	d.arena = slices.Grow(d.arena[:0], size)
	for _, wr := range d.writes {
		if err := d.applyOne(b, wr); err != nil {
			return err
		}
	}
	return b.root.Put(stateKey, st.append(nil))
}

func (d *draft) applyOne(b buckets, wr write) error {
	key := []byte(wr.key)
	var old record
	if v := b.records.Get(key); v != nil {
		var err error
		if old, err = decodeHeader(key, v); err != nil {
			return err
		}
	}
	var next record
	if wr.rec != nil {
		next = *wr.rec
		start := len(d.arena)
		d.arena = appendRecord(d.arena, key, wr.rec)
		if err := b.records.Put(key, d.arena[start:len(d.arena):len(d.arena)]); err != nil {
			return err
		}
	} else if err := b.records.Delete(key); err != nil {
		return err
	}
	was, is := indexed(old.pending(), old.created), indexed(next.pending(), next.created)
	if err := d.move(b.pending, key, was, is); err != nil {
		return err
	}
	return d.move(b.expiry, key, indexed(old.expires != 0, old.expires), indexed(next.expires != 0, next.expires))
}

// A place is where a record stands in an index.
type place struct {
	in bool
	at int64
}

func indexed(in bool, at int64) place {
	if !in {
		return place{}
	}
	return place{true, at}
}

func (d *draft) move(b *bbolt.Bucket, key []byte, was, is place) error {
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

func (d *draft) recycle() {
	clear(d.writes)
	if cap(d.arena) > maxArena {
		d.arena = nil
	}
}

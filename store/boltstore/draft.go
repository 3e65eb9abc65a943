package boltstore

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/redo-go/redo/internal/envelope"
	"go.etcd.io/bbolt"
)

const (
	maxArena = 1 << 20 // bytes of an encoding buffer that is kept for the next commit
	freed    = 2       // expired records that the commit of a new record deletes
	unread   = 256     // entries of the expiry index that can't be used and that one commit passes
)

// A draft puts the rows of a group into a transaction. Its buffers are used again by the next one, under the write
// lock.
type draft struct {
	buckets
	arena []byte // bbolt keeps the values until the commit
	keys  []byte

	// The entries of the expiry index before from name records that can't be read. They stay, and each commit would
	// pass them again. skipped is the first one's error.
	from    []byte
	skipped error
}

// reread makes the next commit read the index of expiries from its start. The write lock is held.
func (d *draft) reread() { d.from, d.skipped = nil, nil }

// apply puts the rows into the transaction, in the order of the keys, because neighbours share pages.
func (d *draft) apply(tx *bbolt.Tx, g *group) (err error) {
	if d.buckets, err = open(tx); err != nil {
		return err
	}
	// Index keys mostly grow, so their pages need no room for later keys.
	d.pending.FillPercent, d.expiry.FillPercent = 0.9, 0.9
	slices.SortFunc(g.rows, func(a, b *row) int { return strings.Compare(a.key, b.key) })
	size := 0
	for _, r := range g.rows {
		if r.rec != nil {
			size += r.rec.size()
		}
	}
	if cap(d.arena) > maxArena {
		d.arena = nil
	}
	d.arena = slices.Grow(d.arena[:0], size) // one buffer holds all of them, and must not move
	free := g.purge
	for _, r := range g.rows {
		created, err := d.put([]byte(r.key), r.rec)
		if err != nil {
			return err
		}
		if created {
			free += freed
		}
	}
	if err := d.free(g, free); err != nil {
		return err
	}
	return d.root.Put(stateKey, g.state.Append(nil))
}

// put writes or removes a record and its index entries. It reports whether the record is a new one.
func (d *draft) put(key []byte, rec *record) (created bool, err error) {
	var old, next record
	v := d.records.Get(key)
	if v != nil {
		if old, err = decodeHeader(key, v); err != nil {
			return false, err
		}
	}
	if rec != nil {
		next = *rec
		created = v == nil || !next.CreatedAt.Equal(old.CreatedAt)
		start := len(d.arena)
		d.arena = appendRecord(d.arena, key, rec)
		err = d.records.Put(key, d.arena[start:len(d.arena):len(d.arena)])
	} else {
		err = d.records.Delete(key)
	}
	if err != nil {
		return false, err
	}
	if err := d.move(d.pending, key, envelope.Listed(old.Record), envelope.Listed(next.Record)); err != nil {
		return false, err
	}
	return created, d.move(d.expiry, key, envelope.Nanos(old.ExpiresAt), envelope.Nanos(next.ExpiresAt))
}

// free deletes up to limit records that have expired, the oldest first. It passes records that can't be read, each of
// them once, because any number of them may come first.
func (d *draft) free(g *group, limit int) error {
	var expired [][]byte
	passed := 0
	c := d.expiry.Cursor()
	for k, _ := c.Seek(d.from); k != nil && len(expired) < limit && passed < unread; k, _ = c.Next() {
		at, key, err := envelope.SplitIndexKey(k)
		if err == nil && at > g.now {
			break
		}
		if err == nil {
			err = fits(d.buckets, at, key)
		} else {
			err = corrupt("%w", err)
		}
		if err == nil {
			expired = append(expired, bytes.Clone(key))
			continue
		}
		passed++
		d.from = append(append(d.from[:0], k...), 0) // the first key after k
		d.skipped = cmp.Or(d.skipped, err)
	}
	for _, key := range expired {
		if _, err := d.put(key, nil); err != nil {
			return err
		}
	}
	g.purged, g.skipped, g.more = len(expired), d.skipped, len(expired) == limit || passed == unread
	return nil
}

// fits returns why an entry of the expiry index does not fit its record, or nil.
func fits(b buckets, at int64, key []byte) error {
	r, err := decodeHeader(key, b.records.Get(key))
	if err == nil && envelope.Nanos(r.ExpiresAt) != at {
		err = corrupt("the index of expiries does not match")
	}
	return named(key, err)
}

// move replaces a record's entry in an index. The instant zero stands for no entry.
func (d *draft) move(b *bbolt.Bucket, key []byte, was, is int64) error {
	if was == is {
		return nil
	}
	if was != 0 {
		d.keys = envelope.AppendIndexKey(d.keys[:0], was, key)
		if err := b.Delete(d.keys); err != nil {
			return err
		}
	}
	if is != 0 {
		d.keys = envelope.AppendIndexKey(d.keys[:0], is, key)
		if b == d.expiry && bytes.Compare(d.keys, d.from) < 0 {
			d.from = append(d.from[:0], d.keys...)
		}
		return b.Put(d.keys, nil)
	}
	return nil
}

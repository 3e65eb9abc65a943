package pebblestore

import (
	"context"
	"hash/maphash"

	"github.com/cockroachdb/pebble/v2"
)

// A filter holds hashes of the keys of all records in memory, two to four bytes each. A key that it lacks has no
// record, so that a new ID costs no read. A search of Pebble for an absent key reads a page, and takes half of the time
// of an operation. One of 300 other absent keys seems present, and is searched for.
//
// It is a Bloom filter in parts, each of which has twice the capacity of the one before. All bits of a key are in one
// block of 64 bytes. It is not safe for concurrent use.
type filter struct {
	seed  maphash.Seed
	parts []part
	keys  int // that were added
	room  int // keys that the last part still takes
}

type (
	part  []block
	block [8]uint64
)

const (
	blockKeys = 32      // keys of a block, at 16 bits a key
	firstPart = 1 << 15 // blocks of the first part: 2 MiB for a million keys
)

func newFilter() *filter { return &filter{seed: maphash.MakeSeed()} }

func (f *filter) add(key []byte) {
	if f.room == 0 {
		blocks := firstPart << len(f.parts)
		f.parts = append(f.parts, make(part, blocks))
		f.room = blocks * blockKeys
	}
	f.room--
	f.keys++
	b, mask := f.parts[len(f.parts)-1].at(maphash.Bytes(f.seed, key))
	for i, m := range mask {
		b[i] |= m
	}
}

// lacks reports whether the key was not added. A nil filter knows nothing.
func (f *filter) lacks(key []byte) bool {
	if f == nil {
		return false
	}
	h := maphash.Bytes(f.seed, key)
	for _, p := range f.parts {
		if p.has(h) {
			return false
		}
	}
	return true
}

func (p part) has(h uint64) bool {
	b, mask := p.at(h)
	for i, m := range mask {
		if b[i]&m != m {
			return false
		}
	}
	return true
}

// at returns the block of a hash, by its low bits, and the hash's bit in each word, by its high 48 bits.
func (p part) at(h uint64) (*block, block) {
	var mask block
	for i := range mask {
		mask[i] = 1 << (h >> (16 + 6*i) & 63)
	}
	return &p[(h*0x9E3779B97F4A7C15>>20)%uint64(len(p))], mask
}

// refilter is a goroutine that reads the keys of all records into a new filter. The first one runs after Open. Another
// one runs when half of the keys that were added may have been deleted, because a filter forgets none. The filter
// before is used until then, and after an error.
func (s *Store) refilter(ctx context.Context) {
	defer s.helpers.Done()
	next := newFilter()
	s.mu.Lock()
	s.nextFilter = next // put adds new keys, also to this one
	for key := range s.overlay {
		next.add([]byte(key)) // it may not be in Pebble yet
	}
	s.mu.Unlock()
	for page := (keyPage{more: true}); page.more; {
		if ctx.Err() != nil || s.scanKeys(&page) != nil {
			s.mu.Lock()
			s.nextFilter = nil
			s.mu.Unlock()
			return
		}
		s.mu.Lock()
		for _, key := range page.keys {
			next.add(key)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter, s.nextFilter = next, nil
	s.filterMax = 2*next.keys + firstPart*blockKeys
}

// added notes the key of a new record. The mutex is held.
func (s *Store) added(key []byte) {
	if s.filter != nil {
		s.filter.add(key)
		if s.filter.keys > s.filterMax && s.nextFilter == nil && !s.closing {
			s.helpers.Add(1)
			go s.refilter(s.ctx)
			s.filterMax = 2 * s.filter.keys // not again before, if this one fails
		}
	}
	if s.nextFilter != nil {
		s.nextFilter.add(key)
	}
}

// A keyPage holds the keys of records that one iterator takes.
type keyPage struct {
	keys [][]byte
	last []byte
	more bool
}

const keysScanned = 4096

func (s *Store) scanKeys(p *keyPage) error {
	p.keys = p.keys[:0]
	return s.view(func(db *pebble.DB) error {
		end, err := scan(db, recordsPrefix, p.last, func(k []byte) bool {
			if len(p.keys) == keysScanned {
				return false
			}
			p.keys = append(p.keys, append([]byte(nil), k[1:]...))
			p.last = append(p.last[:0], k...)
			return true
		})
		p.more = end != nil
		return err
	})
}

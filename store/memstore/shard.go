package memstore

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

// shardCount spreads the IDs over so many locks: BenchmarkReserveComplete tells what a single one costs. It is a
// power of two, so that the turn of purgeFrom wraps around evenly.
const shardCount = 32

// A shard holds the records of the IDs that hash to it. All of it is guarded by mu.
type shard struct {
	mu      sync.Mutex
	closed  bool
	records map[store.ID]*entry
	pending map[*entry]struct{} // those of records that are pending, so that listing them does not scan the rest
	expiry  expiryHeap          // those of records that expire, the next one first
}

// An entry is one record in its shard.
type entry struct {
	rec store.Record // never expires before its lease ends; its byte slices are replaced, never written to
	// born is the fence of the first owner. It tells which of two records of the same instant is older.
	born uint64
	// slot is the entry's place in the expiry heap plus one, zero when it has none.
	slot int
	// ended is closed, and dropped, when the record stops being pending under its fence. The first Wait makes it.
	ended chan struct{}
}

func (s *Store) shard(id store.ID) *shard {
	return &s.shards[maphash.Comparable(s.seed, id)%shardCount]
}

func (sh *shard) init() {
	sh.records = make(map[store.ID]*entry)
	sh.pending = make(map[*entry]struct{})
}

func (sh *shard) close() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.closed = true
	sh.records, sh.pending, sh.expiry = nil, nil, nil
}

// find returns the ID's entry, nil when there is none. An entry that has expired is removed on the way.
func (sh *shard) find(id store.ID, now time.Time) (*entry, error) {
	if sh.closed {
		return nil, errClosed
	}
	e := sh.records[id]
	if e != nil && e.expired(now) {
		sh.remove(e)
		return nil, nil
	}
	return e, nil
}

// pendingUnder returns the lease's pending entry, or ErrLost.
func (sh *shard) pendingUnder(l store.Lease, now time.Time) (*entry, error) {
	e, err := sh.find(l.ID, now)
	if err != nil {
		return nil, err
	}
	if e == nil || e.rec.State != store.StatePending || e.rec.Fence != l.Fence {
		return nil, store.ErrLost
	}
	return e, nil
}

func (sh *shard) insert(e *entry) *entry {
	sh.records[e.rec.ID] = e
	sh.pending[e] = struct{}{}
	return e
}

func (sh *shard) remove(e *entry) {
	delete(sh.records, e.rec.ID)
	delete(sh.pending, e)
	sh.expireAt(e, time.Time{})
	e.wake()
}

// read returns the record as of now, its bytes still shared with the entry.
func (e *entry) read(now time.Time) store.Record {
	r := e.rec
	r.ReadAt = now
	return r
}

func (e *entry) expired(now time.Time) bool {
	return !e.rec.ExpiresAt.IsZero() && !now.Before(e.rec.ExpiresAt)
}

// wake ends every Wait for the entry's present fence.
func (e *entry) wake() {
	if e.ended != nil {
		close(e.ended)
		e.ended = nil
	}
}

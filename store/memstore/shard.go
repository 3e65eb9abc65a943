package memstore

import (
	"container/heap"
	"hash/maphash"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

// shardCount is the number of locks over which the IDs are spread. BenchmarkReserveComplete shows the cost of a single
// lock. It is a power of two, so that purgeFrom wraps around evenly.
const shardCount = 32

// A shard holds the records of the IDs that hash to it. mu guards all of it.
type shard struct {
	mu      sync.Mutex
	closed  bool
	records map[store.ID]*entry
	pending map[*entry]struct{} // the pending ones, so that Pending does not scan the others
	expiry  expiryHeap          // the ones that expire, the next one first
}

// An entry is one record in its shard.
type entry struct {
	rec store.Record // never expires before its lease ends; its byte slices are replaced, never written to
	// born is the fence of the first owner. It orders records that were created at the same instant.
	born uint64
	// slot is the entry's index in the expiry heap plus one. Zero means that it is not in the heap.
	slot int
}

func (s *Store) shard(id store.ID) *shard {
	return &s.shards[maphash.Comparable(s.seed, id)%shardCount]
}

// find returns the ID's entry, or nil if there is none. It removes an entry that has expired.
func (sh *shard) find(id store.ID, now time.Time) (*entry, error) {
	if sh.closed {
		return nil, errClosed
	}
	e := sh.records[id]
	if e != nil && e.rec.Expired(now) {
		sh.remove(e)
		return nil, nil
	}
	return e, nil
}

func (sh *shard) remove(e *entry) {
	delete(sh.records, e.rec.ID)
	delete(sh.pending, e)
	if e.slot > 0 {
		heap.Remove(&sh.expiry, e.slot-1)
	}
}

// read returns the record as it is now. It shares its bytes with the entry.
func (e *entry) read(now time.Time) store.Record {
	r := e.rec
	r.ReadAt = now
	return r
}

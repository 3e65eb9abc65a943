package memstore

import (
	"cmp"
	"container/heap"
	"context"
	"time"

	"github.com/redo-go/redo/store"
)

// Purge implements store.Store. Its cost depends on the number of deleted records, not on the number of records.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if err := cmp.Or(ctx.Err(), store.ValidatePurge(limit)); err != nil {
		return 0, err
	}
	first := s.purgeFrom.Add(1)
	purged := 0
	for i := range uint32(shardCount) {
		n, err := s.shards[(first+i)%shardCount].purge(limit-purged, s.now)
		purged += n
		if err != nil && purged == 0 {
			return 0, err
		}
		if purged == limit {
			break
		}
	}
	return purged, nil
}

func (sh *shard) purge(limit int, clock func() time.Time) (int, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		return 0, errClosed
	}
	return sh.removeExpired(limit, clock()), nil
}

// freedByReserve is the number of expired records of its shard that a Reserve removes when it adds one. A store
// that is never purged then holds no more expired records than live ones, roughly.
const freedByReserve = 2

// removeExpired removes at most limit records that have expired at now, and returns how many. No record expires before
// its lease ends, so the expiry alone decides.
func (sh *shard) removeExpired(limit int, now time.Time) (n int) {
	for n < limit && len(sh.expiry) > 0 && sh.expiry[0].rec.Expired(now) {
		sh.remove(sh.expiry[0])
		n++
	}
	return n
}

// put makes r the entry's record.
func (sh *shard) put(e *entry, r store.Record) {
	e.rec = r
	switch never := r.ExpiresAt.IsZero(); {
	case never && e.slot > 0:
		heap.Remove(&sh.expiry, e.slot-1)
	case never:
	case e.slot > 0:
		heap.Fix(&sh.expiry, e.slot-1)
	default:
		heap.Push(&sh.expiry, e)
	}
}

// An expiryHeap is a container/heap of entries ordered by expiry. An entry holds its slot, so that a changed expiry
// moves the entry and leaves no stale one.
type expiryHeap []*entry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].rec.ExpiresAt.Before(h[j].rec.ExpiresAt) }

func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i+1, j+1
}

// Push implements heap.Interface.
func (h *expiryHeap) Push(x any) {
	e := x.(*entry)
	*h = append(*h, e)
	e.slot = len(*h)
}

// Pop implements heap.Interface.
func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.slot = 0
	return e
}

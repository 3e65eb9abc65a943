package boltstore

import (
	"time"

	"github.com/redo-go/redo/store"
)

// The contract's transitions as pure functions: what stands, what is asked and the store's clock go in; what
// shall stand comes out. A nil record is an absent one.

// alive returns the record unless it has expired: an expired record is absent.
func alive(r *record, now int64) *record {
	if r == nil || r.expires != 0 && r.expires <= now {
		return nil
	}
	return r
}

// reserve decides a claim. next is nil when nothing changes. fence is what the lease gets if there is one.
func reserve(cur *record, c store.Claim, meta []byte, now int64, fence uint64) (v store.Verdict, next *record) {
	switch {
	case cur == nil:
		v, next = store.Acquired, &record{
			fingerprint: c.Fingerprint,
			state:       store.StatePending,
			created:     now,
			meta:        meta,
			metaSum:     checksum(meta),
		}
	case cur.fingerprint != c.Fingerprint:
		return store.Mismatch, nil
	case cur.state == store.StateComplete:
		return store.Complete, nil
	case cur.state == store.StateFailed:
		return store.Failed, nil
	case cur.lease > now:
		return store.InFlight, nil
	default:
		taken := *cur
		v, next = store.TakenOver, &taken
	}
	next.fence = fence
	next.lease = leaseEnd(now, c.Lease)
	next.expires = expiry(now, c.Retention, next.lease)
	return v, next
}

// extend decides an Extend; d of zero gives the lease up.
func extend(cur *record, fence uint64, d time.Duration, meta []byte, now int64) (*record, error) {
	if cur == nil || !cur.pending() || cur.fence != fence {
		return nil, store.ErrLost
	}
	next := *cur
	next.lease = leaseEnd(now, d)
	if next.expires != 0 && next.expires < next.lease {
		next.expires = next.lease
	}
	if meta != nil {
		next.meta, next.metaSum = meta, checksum(meta)
	}
	return &next, nil
}

// complete decides a Complete.
func complete(cur *record, fence uint64, o store.Outcome, result []byte, resultSum uint32, now int64) (*record, error) {
	if cur == nil || !cur.pending() || cur.fence != fence {
		return nil, store.ErrLost
	}
	next := *cur
	next.state = store.StateComplete
	if o.Failed {
		next.state = store.StateFailed
	}
	next.lease = 0
	next.result, next.resultSum = result, resultSum
	if o.Retention != 0 {
		next.expires = expiry(now, o.Retention, 0)
	}
	return &next, nil
}

// release decides a Release: nil error means that the record goes.
func release(cur *record, fence uint64) error {
	if cur == nil || !cur.pending() || cur.fence != fence {
		return store.ErrLost
	}
	return nil
}

// forget decides a Forget: nil error means that the record goes.
func forget(cur *record, fence uint64) error {
	if cur == nil || cur.pending() || cur.fence != fence {
		return store.ErrLost
	}
	return nil
}

func leaseEnd(now int64, d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return after(now, int64(d))
}

func expiry(now int64, retention time.Duration, lease int64) int64 {
	if retention == store.Forever {
		return 0
	}
	return max(after(now, int64(retention)), lease)
}

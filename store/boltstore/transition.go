package boltstore

import (
	"time"

	"github.com/redo-go/redo/store"
)

// The contract's transitions are pure functions of the record, the call's arguments and the store's clock. They
// return the next record. A nil record is an absent one.

// alive returns the record unless it has expired: an expired record is absent.
func alive(r *record, now int64) *record {
	if r == nil || r.expires != 0 && r.expires <= now {
		return nil
	}
	return r
}

// reserve decides a claim. next is nil if nothing changes. fence is the lease's if there is one.
func reserve(cur *record, c store.Claim, meta []byte, now int64, fence uint64) (v store.Verdict, next *record) {
	switch v = store.Judge(cur.judged(), c, time.Unix(0, now)); v {
	case store.Acquired:
		next = &record{
			fingerprint: c.Fingerprint,
			state:       store.StatePending,
			created:     now,
			meta:        meta,
			metaSum:     checksum(meta),
		}
	case store.TakenOver:
		taken := *cur
		next = &taken
	default:
		return v, nil
	}
	next.owner, next.fence = c.Owner, fence
	next.lease = leaseEnd(now, c.Lease)
	next.expires = expiry(now, c.Retention, next.lease)
	return v, next
}

// judged returns the fields of the record that store.Judge reads.
func (r *record) judged() store.Record {
	if r == nil {
		return store.Record{}
	}
	return store.Record{
		Fingerprint: r.fingerprint, State: r.state,
		LeaseUntil: instant(r.lease), ExpiresAt: instant(r.expires),
	}
}

// owned reports whether the record is pending under the fence.
func (r *record) owned(fence uint64) bool { return r != nil && r.pending() && r.fence == fence }

// extend decides an Extend. A d of zero gives the lease up.
func extend(cur *record, fence uint64, d time.Duration, meta []byte, now int64) (*record, error) {
	if !cur.owned(fence) {
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
	if !cur.owned(fence) {
		return nil, store.ErrLost
	}
	next := *cur
	next.state = store.StateComplete
	if o.Failed {
		next.state = store.StateFailed
	}
	next.owner, next.lease = "", 0
	next.result, next.resultSum = result, resultSum
	if o.Retention != 0 {
		next.expires = expiry(now, o.Retention, 0)
	}
	return &next, nil
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

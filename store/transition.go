package store

import "time"

// The methods of this file return the record that a call leaves. They are for engines that keep records in Go, and
// change nothing. The record shares the bytes of the arguments.

// Claimed returns the record of a claim whose verdict v is Acquired or TakenOver. For Acquired r is not used.
func (r Record) Claimed(c Claim, v Verdict, fence uint64, now time.Time) Record {
	if v == Acquired {
		r = Record{ID: c.ID, Fingerprint: c.Fingerprint, State: StatePending, Meta: c.Meta, CreatedAt: now}
	}
	r.Owner, r.Fence = c.Owner, fence
	r.ExpiresAt = expiry(now, c.Retention)
	return r.leased(c.Lease, now)
}

// PendingUnder reports whether the record is pending under the fence. Otherwise a lease with that fence is lost.
func (r Record) PendingUnder(fence uint64) bool { return r.State == StatePending && r.Fence == fence }

// Extended returns the record after an Extend by its owner.
func (r Record) Extended(d time.Duration, meta []byte, now time.Time) Record {
	if meta != nil {
		r.Meta = meta
	}
	return r.leased(d, now)
}

// Settled returns the record after a Complete by its owner.
func (r Record) Settled(o Outcome, now time.Time) Record {
	r.State = StateComplete
	if o.Failed {
		r.State = StateFailed
	}
	r.Result, r.LeaseUntil, r.Owner = o.Result, time.Time{}, ""
	if o.Retention != 0 {
		r.ExpiresAt = expiry(now, o.Retention)
	}
	return r
}

// leased returns the record with a lease that ends d from now, zero for none, and with an expiry not before that.
func (r Record) leased(d time.Duration, now time.Time) Record {
	if r.LeaseUntil = (time.Time{}); d == 0 {
		return r
	}
	r.LeaseUntil = now.Add(d)
	if !r.ExpiresAt.IsZero() && r.ExpiresAt.Before(r.LeaseUntil) {
		r.ExpiresAt = r.LeaseUntil
	}
	return r
}

// expiry returns the end of a retention, zero for never.
func expiry(now time.Time, retention time.Duration) time.Time {
	if retention == Forever {
		return time.Time{}
	}
	return now.Add(retention)
}

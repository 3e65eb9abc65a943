package ledger

import (
	"bytes"
	"time"

	"github.com/redo-go/redo/store"
)

// expiry is the end of a retention, zero for never.
func expiry(now time.Time, retention time.Duration) time.Time {
	if retention == store.Forever {
		return time.Time{}
	}
	return now.Add(retention)
}

// leased returns the record with a lease that ends d from now, zero for none, and with an expiry not before that.
func leased(r store.Record, d time.Duration, now time.Time) store.Record {
	r.LeaseUntil = time.Time{}
	if d == 0 {
		return r
	}
	r.LeaseUntil = now.Add(d)
	if !r.ExpiresAt.IsZero() && r.ExpiresAt.Before(r.LeaseUntil) {
		r.ExpiresAt = r.LeaseUntil
	}
	return r
}

// detach returns the record as it is read now, with bytes of its own.
func detach(r store.Record, now time.Time) store.Record {
	r.Result, r.Meta, r.ReadAt = bytes.Clone(r.Result), bytes.Clone(r.Meta), now
	return r
}

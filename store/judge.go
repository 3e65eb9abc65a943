package store

import (
	"bytes"
	"time"
)

// Judge returns the verdict on a claim: rec is the ID's record, or the zero Record if there is none, and now is the
// store's clock. An expired record is absent. Judge compares the fingerprint before the state, because a caller with
// another payload would wait in vain. Judge changes nothing. An engine writes the record if the verdict is Owned.
func Judge(rec Record, c Claim, now time.Time) Verdict {
	switch {
	case rec.State == 0 || rec.Expired(now):
		return Acquired
	case rec.Fingerprint != c.Fingerprint:
		return Mismatch
	case rec.State == StateComplete:
		return Complete
	case rec.State == StateFailed:
		return Failed
	case rec.LeaseUntil.After(now):
		return InFlight
	default:
		return TakenOver
	}
}

// Expired reports whether the record has expired at now, an instant of the store's clock.
func (r Record) Expired(now time.Time) bool { return !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(now) }

// Held returns the grant of a claim whose Reserve returned [ErrUnknown]. It reports false if rec, which Find returned,
// is not pending under the claim's Owner; the claim owns nothing then. A claim without an Owner holds nothing.
//
// The verdict is Acquired if this claim made the record, and TakenOver if it took the record over. Call Held before
// Extend, which moves the instants by which Held distinguishes the two.
func Held(rec Record, c Claim) (Grant, bool) {
	if c.Owner == "" || rec.State != StatePending || rec.Owner != c.Owner || rec.Fingerprint != c.Fingerprint {
		return Grant{}, false
	}
	return Grant{Verdict: heldVerdict(rec, c), Lease: rec.Lease(), Record: rec}, true
}

// heldVerdict distinguishes the two verdicts by the values that one Reserve writes. A new record has the claim's
// meta, and is created at the instant from which the lease and the retention are counted.
func heldVerdict(rec Record, c Claim) Verdict {
	const rounding = time.Millisecond // of the coarsest engine's clock
	var counted time.Duration
	switch {
	case !bytes.Equal(rec.Meta, c.Meta):
		return TakenOver
	case c.Lease > 0:
		counted = rec.LeaseUntil.Sub(rec.CreatedAt) - c.Lease
	case c.Retention != Forever:
		counted = rec.ExpiresAt.Sub(rec.CreatedAt) - c.Retention
	}
	if counted < -rounding || counted > rounding {
		return TakenOver
	}
	return Acquired
}

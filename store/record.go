package store

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Limits of a claim. Every engine stores records of these sizes well.
const (
	MaxScope = 1024    // bytes of ID.Scope
	MaxKey   = 1024    // bytes of ID.Key
	MaxOwner = 64      // bytes of Claim.Owner
	MaxMeta  = 1 << 20 // bytes of Claim.Meta
)

// Forever, as a retention, keeps a record until it is released or forgotten.
const Forever time.Duration = math.MaxInt64

// An ID names a record. The same key in two scopes names two independent records.
type ID struct {
	Scope string // at most MaxScope bytes, may be empty
	Key   string // 1 to MaxKey bytes
}

// String returns the scope and the key, quoted, for messages.
func (id ID) String() string { return fmt.Sprintf("%q/%q", id.Scope, id.Key) }

// Validate returns an error that wraps ErrInvalid and names the part of the ID that breaks a limit.
func (id ID) Validate() error {
	switch {
	case id.Key == "":
		return fmt.Errorf("%w: the key is empty", ErrInvalid)
	case len(id.Key) > MaxKey:
		return fmt.Errorf("%w: the key has %d bytes, at most %d are allowed", ErrInvalid, len(id.Key), MaxKey)
	case len(id.Scope) > MaxScope:
		return fmt.Errorf("%w: the scope has %d bytes, at most %d are allowed", ErrInvalid, len(id.Scope), MaxScope)
	}
	return nil
}

// A Claim is a request for an ID.
type Claim struct {
	ID ID
	// Fingerprint identifies the payload. A record with another fingerprint is a Mismatch. The zero Fingerprint equals
	// only itself.
	Fingerprint Fingerprint
	// Lease is the time for which the claim excludes others, unless Extend changes it. A claim with a zero Lease
	// never excludes.
	Lease time.Duration
	// Retention is the time for which the record lives, counted from this Reserve. [Forever] is allowed, zero is
	// not. A record never expires before its lease ends.
	Retention time.Duration
	// Owner identifies the claim: a value that no other claim has, at most MaxOwner bytes. A pending record keeps the
	// Owner of the claim that owns it, so that [Held] can settle a Reserve whose response was lost. It may be empty:
	// such a Reserve can't be settled.
	Owner string
	// Meta is opaque to the store. The record keeps it, and the owner that takes the record over receives it. A claim
	// that takes over does not write its own meta. Nil and empty are different.
	Meta []byte
	// Lazy lets the store return before the claim is durable. A crash may then lose the claim. Later calls to the same
	// store see it immediately, and no later Reserve, Extend, Complete or Release becomes durable before it. So it suits
	// an owner that makes another of these writes before the effect. A store may make the claim durable in any case.
	Lazy bool
}

// Validate returns an error that wraps ErrInvalid and names the value and the rule that it breaks. Implementations call
// it first.
func (c Claim) Validate() error {
	if err := c.ID.Validate(); err != nil {
		return err
	}
	switch {
	case c.Lease < 0:
		return fmt.Errorf("%w: the lease is %v, it must not be negative", ErrInvalid, c.Lease)
	case c.Lease == Forever:
		return fmt.Errorf("%w: a lease can't be Forever, or a crash would block the key for good", ErrInvalid)
	case c.Retention <= 0:
		return fmt.Errorf("%w: the retention is %v, it must be positive", ErrInvalid, c.Retention)
	case len(c.Owner) > MaxOwner:
		return fmt.Errorf("%w: the owner has %d bytes, at most %d are allowed", ErrInvalid, len(c.Owner), MaxOwner)
	case len(c.Meta) > MaxMeta && !(sealed(c.Meta) && len(c.Meta) <= MaxMeta+sealOverhead):
		return fmt.Errorf("%w: the meta has %d bytes, at most %d are allowed", ErrInvalid, len(c.Meta), MaxMeta)
	}
	return nil
}

// A Verdict is the result of Reserve. Its zero value is no verdict.
type Verdict uint8

const (
	// Acquired: there was no record. Grant.Lease is the caller's, and Grant.Record is the new record.
	Acquired Verdict = iota + 1
	// TakenOver: there was a pending record with this fingerprint and without a live lease. Grant.Lease is the
	// caller's. Grant.Record is the record as it is now, with the earlier owner's meta and creation time.
	TakenOver
	// InFlight: another owner's lease is live. Grant.Record is that owner's record.
	InFlight
	// Complete: the record is settled. Grant.Record holds its result.
	Complete
	// Failed: the record is settled as failed. Grant.Record holds its result.
	Failed
	// Mismatch: there is a record with another fingerprint, in any state. Grant.Record is that record, with its result.
	Mismatch
)

var verdictNames = [...]string{"no verdict", "acquired", "taken over", "in flight", "complete", "failed", "mismatch"}

// String returns the verdict in words.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Owned reports whether the caller now owns the record.
func (v Verdict) Owned() bool { return v == Acquired || v == TakenOver }

// A Grant is the result of Reserve and Begin.
type Grant struct {
	Verdict Verdict
	Lease   Lease // set only when Verdict.Owned
	Record  Record
}

// A Lease is the right to change a pending record, until another claim takes the record over.
type Lease struct {
	ID    ID
	Fence uint64
}

// A State is the state of a record: pending, complete or failed. Its zero value is no state.
type State uint8

// States of a record, in their order.
const (
	StatePending State = iota + 1
	StateComplete
	StateFailed
)

var stateNames = [...]string{"no state", "pending", "complete", "failed"}

// String returns the state in a word.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// ValidateExtend returns an error that wraps ErrInvalid if the arguments of Extend break a rule. The rules are those of
// a claim's ID, lease and meta.
func (l Lease) ValidateExtend(d time.Duration, meta []byte) error {
	return Claim{ID: l.ID, Lease: d, Retention: Forever, Meta: meta}.Validate()
}

// An Outcome is the result that Complete writes.
type Outcome struct {
	// Failed settles the record as failed instead of complete.
	Failed bool
	// Result is opaque to the store. Nil and empty are different.
	Result []byte
	// Retention is the time for which the record lives from now. Zero keeps the claim's expiry.
	Retention time.Duration
	// Lazy lets the store return before the write is durable. A crash may then lose the write, and the record is
	// pending again. Later calls to the same store see the write immediately.
	Lazy bool
}

// Validate returns an error that wraps ErrInvalid and names the value and the rule that it breaks.
func (o Outcome) Validate() error {
	if o.Retention < 0 {
		return fmt.Errorf("%w: the outcome's retention is %v, it must not be negative", ErrInvalid, o.Retention)
	}
	return nil
}

// ValidateUpTo is Validate for an engine that stores results of at most limit bytes.
func (o Outcome) ValidateUpTo(limit int) error {
	if len(o.Result) > limit {
		return fmt.Errorf("%w: the result has %d bytes, at most %d are allowed", ErrInvalid, len(o.Result), limit)
	}
	return o.Validate()
}

// A Record is a copy of one ID's state. The caller may keep and change it.
type Record struct {
	ID          ID
	Fingerprint Fingerprint
	State       State
	Result      []byte // set by Complete
	Meta        []byte
	Owner       string // of the claim that owns a pending record; "" in a settled record
	Fence       uint64
	LeaseUntil  time.Time // zero: no lease
	CreatedAt   time.Time
	ExpiresAt   time.Time // zero: never
	// ReadAt is the store's clock when the record was read. Compare the other instants with it, and never with the
	// caller's clock.
	ReadAt time.Time
}

// Age returns the time since the record was created, by the store's clock.
func (r Record) Age() time.Duration { return r.ReadAt.Sub(r.CreatedAt) }

// LeaseLeft returns how long the lease still excludes others. It is zero if the lease is not live.
func (r Record) LeaseLeft() time.Duration {
	if r.LeaseUntil.IsZero() {
		return 0
	}
	return max(0, r.LeaseUntil.Sub(r.ReadAt))
}

// Lease returns the record's lease, for Release of a pending record and Forget of a settled one.
func (r Record) Lease() Lease { return Lease{ID: r.ID, Fence: r.Fence} }

// Errors that stores return. Test for them with errors.Is.
var (
	// ErrLost: the lease is no longer this caller's. Nothing was changed.
	ErrLost = errors.New("store: lease lost")
	// ErrNotFound: there is no record, or it has expired.
	ErrNotFound = errors.New("store: record not found")
	// ErrUnavailable: the store can't be reached, or is closed. Nothing was changed.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrUnknown: a write was sent and its response was lost, so the write may have been made. Find settles it: see
	// [Held] for Reserve, and Lease.Fence for Complete.
	ErrUnknown = errors.New("store: outcome of the write unknown")
	// ErrDamaged: there is a record that can't be read. Nothing was changed. The error names the record, and wraps
	// ErrUnavailable too. A [Dropper] removes the record.
	ErrDamaged = errors.New("store: record damaged")
	// ErrInvalid: an argument breaks a rule of the contract. Nothing was changed.
	ErrInvalid = errors.New("store: invalid argument")
)

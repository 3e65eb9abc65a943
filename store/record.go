package store

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Limits on what a claim may carry. They keep a record within what every engine stores well.
const (
	MaxScope = 1024    // bytes of ID.Scope
	MaxKey   = 1024    // bytes of ID.Key
	MaxMeta  = 1 << 20 // bytes of Claim.Meta
)

// Forever, as a retention, keeps a record until it is released or forgotten.
const Forever time.Duration = math.MaxInt64

// An ID names a record. The same key in two scopes names two records that know nothing of each other.
type ID struct {
	Scope string // at most MaxScope bytes, may be empty
	Key   string // 1 to MaxKey bytes
}

// String returns the scope and the key, quoted, for messages.
func (id ID) String() string { return fmt.Sprintf("%q/%q", id.Scope, id.Key) }

// Validate returns an error wrapping ErrInvalid that names the part of the ID that is out of its limits.
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

// A Claim asks for an ID.
type Claim struct {
	ID ID
	// Fingerprint identifies the payload. A record with another fingerprint is a Mismatch; the zero
	// Fingerprint equals only itself.
	Fingerprint Fingerprint
	// Lease is how long the claim excludes others unless it is extended; zero never excludes.
	Lease time.Duration
	// Retention is how long the record lives, counted from this Reserve; [Forever] is allowed, zero is not. A
	// record never expires before its lease ends.
	Retention time.Duration
	// Meta is opaque to the store. It is kept with the record and handed to whoever takes it over; the claim's
	// own meta is not written then. Nil and empty are told apart.
	Meta []byte
}

// Validate returns an error wrapping ErrInvalid that names the value and the rule it breaks. Implementations
// call it first.
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
	case len(c.Meta) > MaxMeta:
		return fmt.Errorf("%w: the meta has %d bytes, at most %d are allowed", ErrInvalid, len(c.Meta), MaxMeta)
	}
	return nil
}

// A Verdict is Reserve's answer. Its zero value is no verdict.
type Verdict uint8

const (
	// Acquired: no record stood. Grant.Lease is the caller's, Grant.Record the new record.
	Acquired Verdict = iota + 1
	// TakenOver: a pending record with this fingerprint stood whose lease had ended, or that never had one.
	// Grant.Lease is the caller's; Grant.Record is the record as it is now, with the earlier owner's meta and
	// creation time.
	TakenOver
	// InFlight: another owner's lease is live. Grant.Record is that owner's record.
	InFlight
	// Complete: the record is settled. Grant.Record holds its result.
	Complete
	// Failed: the record is settled as failed. Grant.Record holds its result.
	Failed
	// Mismatch: a record with another fingerprint stands, in whatever state. Grant.Record holds it, its result
	// included.
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

// A Grant is what Reserve returns.
type Grant struct {
	Verdict Verdict
	Lease   Lease // set only when Verdict.Owned
	Record  Record
}

// A Lease is the right to move a record on, as long as nobody took the record over.
type Lease struct {
	ID    ID
	Fence uint64
}

// A State is where a record is in its life. Its zero value is no state.
type State uint8

// States of a record, in the order of its life.
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

// An Outcome is what Complete writes.
type Outcome struct {
	// Failed settles the record as failed instead of complete.
	Failed bool
	// Result is opaque to the store. Nil and empty are told apart.
	Result []byte
	// Retention, if not zero, is how long the record lives from now; zero keeps the claim's expiry.
	Retention time.Duration
	// Lazy lets the store return before the write is durable: the caller can bear to lose it in a crash, after
	// which the record is pending again. Later calls to the same store see the write at once.
	Lazy bool
}

// Validate returns an error wrapping ErrInvalid that names the value and the rule it breaks.
func (o Outcome) Validate() error {
	if o.Retention < 0 {
		return fmt.Errorf("%w: the outcome's retention is %v, it must not be negative", ErrInvalid, o.Retention)
	}
	return nil
}

// A Record is one ID's state as it was read. It is a copy: the caller may keep and change it.
type Record struct {
	ID          ID
	Fingerprint Fingerprint
	State       State
	Result      []byte // set by Complete
	Meta        []byte
	Fence       uint64
	LeaseUntil  time.Time // zero: no lease
	CreatedAt   time.Time
	ExpiresAt   time.Time // zero: never
	// ReadAt is the store's clock when the record was read. Judge the other instants against it and never
	// against the caller's clock.
	ReadAt time.Time
}

// Age is how long ago the record was created, by the store's clock.
func (r Record) Age() time.Duration { return r.ReadAt.Sub(r.CreatedAt) }

// LeaseLeft is how long the lease still excludes others, zero when it does not.
func (r Record) LeaseLeft() time.Duration {
	if r.LeaseUntil.IsZero() {
		return 0
	}
	return max(0, r.LeaseUntil.Sub(r.ReadAt))
}

// Lease returns the lease that the record stands under, for Release of a pending and Forget of a settled one.
func (r Record) Lease() Lease { return Lease{ID: r.ID, Fence: r.Fence} }

// Errors that stores return, to be found with errors.Is.
var (
	// ErrLost: the lease is not this caller's any more. Nothing was changed.
	ErrLost = errors.New("store: lease lost")
	// ErrNotFound: there is no record, or it has expired.
	ErrNotFound = errors.New("store: record not found")
	// ErrUnavailable: the store can't be reached, or is closed. Nothing was changed.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrUnknown: a write was sent and its answer lost, so it may have been made. Find settles it.
	ErrUnknown = errors.New("store: outcome of the write unknown")
	// ErrDamaged: there is a record that can't be read. Nothing was changed. The error names the record, and wraps
	// ErrUnavailable too. A [Dropper] removes the record.
	ErrDamaged = errors.New("store: record damaged")
	// ErrInvalid: an argument breaks a rule of the contract. Nothing was changed.
	ErrInvalid = errors.New("store: invalid argument")
)

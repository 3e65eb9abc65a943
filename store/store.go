package store

import (
	"context"
	"iter"
	"time"
)

// A Store holds one record per [ID] and moves it through its life:
//
//	(absent) ── Reserve ──► pending ── Complete ──► complete or failed ── expiry, Forget ──► (absent)
//	                           └────── Release, expiry ────────────────────────────────────► (absent)
//
// Every method is atomic, safe for concurrent use, and judged by the store's own clock. A method that
// returns an error that is not one of [ErrLost], [ErrNotFound] and [ErrUnknown] has changed nothing.
// A context that has ended before the call is returned as its error.
//
// Package storetest states each rule as a test; an implementation is right when that suite passes.
type Store interface {
	// Reserve claims the ID, or returns the verdict that keeps it from being claimed. It never returns a zero
	// Verdict without an error. [Verdict] documents each verdict and the fields of the Grant that it fills. A
	// damaged record is never taken for an absent one: Reserve returns an error that wraps ErrDamaged.
	Reserve(ctx context.Context, c Claim) (Grant, error)

	// Extend makes the lease end d from now, by the store's clock; d of zero gives the lease up and keeps the
	// record pending. A non-nil meta replaces the record's. The record's expiry is moved too where it would
	// come before the lease's end. It returns ErrLost when the lease's fence is not the pending record's.
	Extend(ctx context.Context, l Lease, d time.Duration, meta []byte) error

	// Complete settles the record. It succeeds also when the lease has run out, as long as nobody took the
	// record over. It returns ErrLost when the lease's fence is not the pending record's, and ErrUnknown when
	// the write may or may not have been made: Find then settles it (a record that is settled under the
	// lease's own fence is this owner's).
	Complete(ctx context.Context, l Lease, o Outcome) error

	// Release removes a pending record, so that the next Reserve acquires it anew. It never removes a settled
	// one. It returns ErrLost when the lease's fence is not the pending record's.
	Release(ctx context.Context, l Lease) error

	// Find returns the record, or ErrNotFound when there is none or it has expired. It sees everything that
	// any call returned before. Its error wraps ErrDamaged when there is a record that can't be read.
	Find(ctx context.Context, id ID) (Record, error)

	// Purge deletes at most limit expired records whose lease is not live, and returns how many it deleted: a
	// return below limit means that nothing is left to purge for now. A limit below 1 is an error.
	Purge(ctx context.Context, limit int) (int, error)
}

// A Waiter can wait for a record to be settled without polling from outside.
type Waiter interface {
	// Wait returns nil as soon as the record is no longer pending under fence, at once if it already is not,
	// and the context's error when that ends first. A nil return is a hint to look again, not a verdict.
	Wait(ctx context.Context, id ID, fence uint64) error
}

// A Checker can say whether it is ready to serve.
type Checker interface {
	// Check returns nil when the store is reachable and set up as it has to be.
	Check(ctx context.Context) error
}

// A Lister can list the pending records.
type Lister interface {
	// Pending yields the records of scope that are pending and not expired, oldest first. An empty scope lists
	// every scope. It takes no lock over the loop's body, so that the body may call the store; a record that
	// changes meanwhile is seen before or after its change.
	//
	// A record that can't be read is yielded as a Record with only its ID and an error that names it, and the
	// list goes on. The error wraps [ErrDamaged], unless a later release wrote the record: that error is the
	// engine's own. An error with a zero Record is the last: the list may lack records.
	Pending(ctx context.Context, scope string) iter.Seq2[Record, error]
}

// A Dropper can remove a damaged record, which no lease fits any more. It is an operator's decision: whether the
// record's operation had an effect is then known to nobody, and its next run is a new operation. No part of redo
// takes that decision on its own.
type Dropper interface {
	// Drop removes whatever the store holds under the ID, if it is damaged. It returns ErrNotFound when there is
	// nothing, and an error wrapping ErrInvalid, and changes nothing, when the record can be read: Release and
	// Forget are for that. A record of a later release is not damaged. Drop refuses it with the engine's error.
	// The check and the removal are one step, so that Drop removes no record that was made since the damage.
	Drop(ctx context.Context, id ID) error
}

// A Forgetter can remove a settled record before it expires. It is an operator's decision that the operation
// may be run anew; no part of redo takes it on its own, save that a client operation which is known not to
// have been applied makes room for its next try.
type Forgetter interface {
	// Forget removes a settled record whose fence is the lease's, and returns ErrLost when there is no such
	// settled record.
	Forget(ctx context.Context, l Lease) error
}

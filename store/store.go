package store

import (
	"context"
	"iter"
	"time"
)

// A Store holds one record per [ID] and moves it through its states:
//
//	(absent) ── Reserve ──► pending ── Complete ──► complete or failed ── expiry, Forget ──► (absent)
//	                           └────── Release, expiry ────────────────────────────────────► (absent)
//
// Every method is atomic, safe for concurrent use, and judged by the store's own clock. A method that returns an
// error has changed nothing, unless the error is [ErrUnknown]. A context that has ended before the call is returned
// as its error.
//
// Package storetest states each rule as a test. An implementation is right if that suite passes.
type Store interface {
	// Reserve claims the ID, or returns the verdict that prevents it. It never returns a zero Verdict without an
	// error. [Verdict] documents each verdict and the fields of the Grant that it sets. For a damaged record Reserve
	// returns an error that wraps ErrDamaged. A Reserve that makes a record also deletes up to two others that have
	// expired. If it returns ErrUnknown, the claim may have been made: Find and [Held] settle it.
	Reserve(ctx context.Context, c Claim) (Grant, error)

	// Extend makes the lease end d from now, by the store's clock. A zero d gives the lease up and keeps the record
	// pending. A non-nil meta replaces the record's. If the record would expire before the lease ends, Extend moves the
	// expiry to the lease's end. It returns ErrLost if the lease's fence is not the pending record's.
	Extend(ctx context.Context, l Lease, d time.Duration, meta []byte) error

	// Complete settles the record. It succeeds after the lease's end too, unless another claim has taken the record
	// over. It returns ErrLost if the lease's fence is not the pending record's. It returns ErrUnknown if the response
	// was lost, and Find settles it: a record that is settled under the lease's fence has this outcome.
	Complete(ctx context.Context, l Lease, o Outcome) error

	// Release removes a pending record, so that the next Reserve acquires the ID. It never removes a settled record. It
	// returns ErrLost if the lease's fence is not the pending record's.
	Release(ctx context.Context, l Lease) error

	// Find returns the record, or ErrNotFound if there is none or it has expired. It sees the effects of every call
	// that has returned. Its error wraps ErrDamaged if there is a record that can't be read.
	Find(ctx context.Context, id ID) (Record, error)

	// Purge deletes at most limit expired records whose lease is not live, and returns their number. A number below
	// limit means that no expired record is left for now. A limit below 1 is an error. If Purge returns an error, it
	// has deleted the returned number before.
	Purge(ctx context.Context, limit int) (int, error)
}

// An Engine is a Store with the capabilities that the engines of this project have, apart from memstore. More may be
// added. A program that only uses records takes a Store, and finds a capability by assertion.
type Engine interface {
	Store
	Waiter
	Checker
	Lister
	Forgetter
	Dropper
}

// A Waiter can wait for a record to be settled. [Poll] makes one for a store that has none.
type Waiter interface {
	// Wait returns nil as soon as the record is no longer pending under fence, or immediately if it is not now. It
	// returns the context's error if that ends first. A nil return is a hint to read the record, and not a verdict.
	Wait(ctx context.Context, id ID, fence uint64) error
}

// A Checker can report whether it is ready to serve.
type Checker interface {
	// Check returns nil if the store is reachable and set up correctly.
	Check(ctx context.Context) error
}

// A Lister can list the pending records.
type Lister interface {
	// Pending yields the records of scope that are pending and not expired, oldest first. An empty scope lists every
	// scope. Pending holds no lock while the loop's body runs, so the body may call the store. A record that changes
	// meanwhile is yielded as it was before or after the change.
	//
	// A record that can't be read is yielded as a Record with only its ID and an error that names it, and the list goes
	// on. The error wraps [ErrDamaged]. For a record of a later release it is the engine's own error. An error with a
	// zero Record is the last one: the list may lack records.
	Pending(ctx context.Context, scope string) iter.Seq2[Record, error]
}

// A Dropper can remove a damaged record, which has no lease that fits. Drop is an operator's decision, because the
// effect of the record's operation is then unknown, and its next run is a new operation. No part of redo calls Drop
// without an operator.
type Dropper interface {
	// Drop removes the record of the ID if it is damaged. It returns ErrNotFound if there is none. It returns an error
	// that wraps ErrInvalid and changes nothing if the record can be read: use Release and Forget for that. A record of
	// a later release is not damaged: Drop refuses it with the engine's error. The check and the removal are one step,
	// so that Drop never removes a newer record.
	Drop(ctx context.Context, id ID) error
}

// A Forgetter can remove a settled record before it expires. It is an operator's decision that the operation may run
// again. Without an operator, redo forgets only a client operation that was certainly not applied, before its next
// attempt.
type Forgetter interface {
	// Forget removes the settled record whose fence is the lease's. It returns ErrLost if there is no such record.
	Forget(ctx context.Context, l Lease) error
}

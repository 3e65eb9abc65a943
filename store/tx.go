package store

import "context"

// A TxStore commits a record in the transaction of the effect itself, so that either both are committed or neither
// is. Only this closes the gap between an effect and its record: a process that dies in between has done nothing. T
// is the transaction type that the user gets, for example pgx.Tx, *sqltx.Tx or *boltstore.Tx. Its Commit and Rollback
// return an error that wraps [ErrTxEnded].
//
// Most programs need [Once] only. server.Transactional uses a TxStore for HTTP handlers.
type TxStore[T any] interface {
	Store

	// Begin is Reserve in a transaction that stays open. If the verdict is Owned, the Tx is open and the caller must
	// end it. With every other verdict, and with an error, the Tx is nil and nothing was changed.
	//
	// The open transaction excludes others, so Begin does not use Claim.Lease, Claim.Owner and Claim.Meta, and there
	// is nothing to extend.
	//
	// Begin does not wait for a transaction that holds the same ID: the verdict is immediately InFlight. The verdict
	// may be Mismatch if the fingerprints differ and the engine can compare them. Grant.Record then has only the ID
	// and the state pending, because the record is not committed yet.
	//
	// A pending record without a live lease is TakenOver, as by Reserve. Rollback restores the record. It does not
	// free Grant.Lease's fence: a fence is never reused for the same ID.
	//
	// To every other call the transaction is a live lease on the ID. Reserve returns InFlight, or waits until the
	// transaction ends. Extend, Complete and Release under an earlier owner's lease wait too. Find and Pending do
	// not wait, and return the committed record. Other IDs are not affected, unless the engine has a single
	// writer: a Begin of another ID then waits until its context ends.
	//
	// The context bounds Begin only. The transaction outlives it.
	Begin(ctx context.Context, c Claim) (Tx[T], Grant, error)
}

// A Tx is an open transaction that holds a reserved record. Its owner calls one of Commit, Discard and Rollback, once.
// A Rollback after any of them does nothing and returns nil. It must not be used concurrently.
type Tx[T any] interface {
	// Tx returns the engine's transaction, for the caller's own reads and writes. The caller must not end it, see
	// [ErrTxEnded].
	Tx() T

	// Commit settles the record and commits it together with all writes through Tx. If it returns ErrUnknown, the
	// response to the commit was lost, and Find settles it: if the record is settled under Grant.Lease's fence,
	// everything is committed. With every other error nothing was done, and the transaction has ended. Outcome.Lazy
	// is not used. A context that has ended before the call is returned as its error. Commit returns ErrLost if the
	// record has expired since Begin: a retention must be longer than its transaction.
	Commit(ctx context.Context, o Outcome) error

	// Discard undoes the writes through Tx, even after a failed statement, and commits the record alone. Use it to
	// record a refusal. Its errors are those of Commit.
	Discard(ctx context.Context, o Outcome) error

	// Rollback undoes everything: the record is as it was before Begin. The transaction ends even if Rollback returns
	// an error, and nothing is committed unless that error is ErrUnknown.
	Rollback(ctx context.Context) error
}

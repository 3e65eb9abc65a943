package store

import "context"

// A TxStore can hold a record in the transaction of the effect itself, so that both are committed or neither is. It
// alone closes the gap between an effect and its record: a process that dies in between has done nothing. T is the
// engine's transaction, such as pgx.Tx, *sql.Tx or *bbolt.Tx.
//
// [Once] is what most programs need of it; server.Transactional uses it for HTTP handlers.
type TxStore[T any] interface {
	Store

	// Begin is Reserve in a transaction that stays open. When the verdict is Owned the Tx is open, and the caller
	// must end it; with every other verdict, and with an error, the Tx is nil and nothing was changed.
	//
	// The open transaction excludes others in the lease's place: Claim.Lease and Claim.Meta are not used, and there
	// is nothing to extend. A Begin of an ID that another transaction holds waits for nothing: it is InFlight at
	// once, or Mismatch where the fingerprint is another. Grant.Record then tells only what is known of a record
	// that nobody can see yet: its ID, and that it is pending.
	//
	// A pending record that stands without a live lease is TakenOver, as by Reserve. Rollback leaves it as it was, and
	// uses up Grant.Lease's fence all the same: no later owner of the ID may be confirmed by it, or confirm it.
	//
	// To every other call the transaction is a live lease on the ID. Reserve is told that it is in flight, or waits
	// until it is over; what an earlier owner does under its own lease waits for that too. Find and Pending show what
	// is committed and wait for nothing. Other IDs are not affected, save where the engine has a single writer: a
	// Begin of another ID then waits for it as long as its context lasts.
	//
	// The context bounds Begin alone: the transaction outlives it.
	Begin(ctx context.Context, c Claim) (Tx[T], Grant, error)
}

// A Tx is an open transaction that holds a reserved record. Its owner calls one of Commit, Discard and Rollback, once;
// a Rollback after any of them does nothing and returns nil. It may not be used concurrently.
type Tx[T any] interface {
	// Tx returns the engine's transaction, for the caller's own reads and writes. Committing it or rolling it back
	// is the Tx's business alone: what comes of it all the same is told at [ErrTxEnded].
	Tx() T

	// Commit settles the record and commits it together with all that was written through Tx. With store.ErrUnknown
	// the commit's answer was lost, and Find settles it: a record that is settled under Grant.Lease's fence means
	// that all of it is committed. With every other error nothing was done, and the transaction is over.
	// Outcome.Lazy is not used. A context that has ended before the call is returned as its error. It is ErrLost when
	// the record has expired since Begin: a retention has to be longer than its transaction.
	Commit(ctx context.Context, o Outcome) error

	// Discard undoes what was written through Tx, also after a statement in it has failed, and commits the record
	// alone: the work was refused, and the refusal is to be remembered. Its errors are those of Commit.
	Discard(ctx context.Context, o Outcome) error

	// Rollback undoes all of it: the record is as it was before Begin. The transaction is over even when it returns
	// an error, and nothing of it is kept unless that is ErrTxEnded.
	Rollback(ctx context.Context) error
}

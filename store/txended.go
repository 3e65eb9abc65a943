package store

import "errors"

// ErrTxEnded: the engine's transaction was committed or rolled back by a user of Tx.Tx, who must do neither. It is a fault
// in the program: record and effect were not one transaction. Beside it the error wraps another, which says what is known.
//
// [ErrUnknown]: it was committed, or may have been, so that nobody may be told that nothing was done. The store settles the
// record by itself then, as the work must not be done again. Commit does so with its outcome, under Grant.Lease's fence as
// ever. Discard and Rollback, and a Commit with an invalid outcome, come too late for what they were to do, and nobody knows
// what was committed: they settle the record with [UnknownOutcome], under a new fence, so that nobody takes it for theirs.
// If the process dies before, or the store can't be reached, the record is pending or absent as after a crash between any
// effect and its record, and the next owner makes the effect again.
//
// [ErrInvalid]: it was rolled back. Nothing was done and nothing is recorded.
//
// A Discard or a Rollback that finds it rolled back may do what is asked of it, and return nil. An engine whose transaction
// can refuse to be ended does: its user gets an error. If that was a commit, the Tx goes on as if it had not been asked for;
// after a rollback Commit is refused as if it had been made.
var ErrTxEnded = errors.New("store: the transaction was ended by its user")

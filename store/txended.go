package store

import (
	"context"
	"errors"
	"time"
)

// ErrTxEnded: the caller of Tx.Tx tried to end the engine's transaction, which only the store may end. It is a fault in
// the program.
//
// The engine's transaction refuses: its Commit returns ErrTxEnded, and the transaction goes on. Its Rollback returns
// ErrTxEnded too. The store's Commit and Discard then return ErrTxEnded, and nothing is committed. The store's Rollback
// returns nil, as after any other transaction.
//
// Some engines can't refuse everything, for example the SQL text "COMMIT". If the store finds that its transaction
// has ended, its Commit, Discard and Rollback return ErrTxEnded joined with [ErrUnknown]: the store does not know
// the outcome of the commit. See [SettleEnded].
var ErrTxEnded = errors.New("store: the transaction was ended by its user")

// settleTimeout bounds writes that ignore the end of the caller's context.
const settleTimeout = 5 * time.Second

// SettleEnded settles the record of a transaction that its user has ended, with [UnknownOutcome], so that the work is
// not done again. It is for implementations of [TxStore]. A store calls it if it finds that its transaction for the
// claim has ended, and returns its error, which is ErrTxEnded joined with ErrUnknown. SettleEnded writes under a new
// fence: the outcome is not the transaction's. It ignores the end of ctx and takes 5 s at most.
//
// If the process dies before, or the store can't be reached, the next owner does the work again. The record stays as
// the engine's transaction left it, if it has left one. The error then also wraps the store's.
func SettleEnded(ctx context.Context, st Store, c Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	g, err := st.Reserve(ctx, Claim{ID: c.ID, Fingerprint: c.Fingerprint, Lease: settleTimeout, Retention: c.Retention})
	if err == nil && g.Verdict.Owned() {
		err = st.Complete(ctx, g.Lease, UnknownOutcome())
	}
	return errors.Join(ErrTxEnded, ErrUnknown, err)
}

// unknown is a result that no other code writes.
const unknown = "redo: what this work did is not known, and it must not be done again (9f1c52e07ab84d36)"

// UnknownOutcome returns the outcome of work that must not be done again although its effect is unknown. It is
// neither a success nor a refusal. [SettleEnded] uses it.
func UnknownOutcome() Outcome { return Outcome{Result: []byte(unknown)} }

// OutcomeUnknown reports whether the record was settled with [UnknownOutcome]. An operator finds out whether the
// effect was made, and may then Forget the record.
func (r Record) OutcomeUnknown() bool { return r.State == StateComplete && string(r.Result) == unknown }

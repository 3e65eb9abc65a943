package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/taxonomy"
)

// Once runs f once for the claim's ID, in a transaction that commits what f writes through tx together with f's
// outcome. Called again with the same ID and fingerprint, by whatever process and after whatever crash, it does not
// run f but returns the same outcome, Failed and Result that is, with again true. It needs no HTTP: a queue's consumer
// or a nightly job calls it with an ID that names the work.
//
//	out, again, err := store.Once(ctx, st, claim, func(ctx context.Context, tx pgx.Tx) (store.Outcome, error) {
//		_, err := tx.Exec(ctx, "INSERT INTO ledger …")
//		return store.Outcome{Result: receipt}, err
//	})
//
// An error of f rolls everything back and is returned as it is; the next call runs f anew. An outcome that is
// Failed undoes what f wrote and is kept: that is how a refusal is remembered. A panic in f rolls back and goes on.
// f must not commit or roll back itself: the error then matches [ErrTxEnded], beside f's own if there is one. f should do
// nothing outside of tx: what it does there happens again when the transaction fails after f has returned.
//
// Nobody waits for somebody else's f. While one runs, the error matches taxonomy.InFlight: call again later. It
// matches taxonomy.PayloadMismatch when the ID was used with another fingerprint, and [ErrUnknown] when the answer to
// the commit was lost and the store can't tell yet: call again, which tells. It stays ErrUnknown where that is the outcome,
// see [UnknownOutcome]. With any other error nothing was done.
// The claim's Lease and Meta are not used.
func Once[T any](ctx context.Context, st TxStore[T], c Claim, f func(ctx context.Context, tx T) (Outcome, error)) (o Outcome, again bool, err error) {
	tx, g, err := st.Begin(ctx, c)
	if err != nil {
		return Outcome{}, false, err
	}
	switch g.Verdict {
	case Acquired, TakenOver:
	case Complete, Failed:
		if g.Record.OutcomeUnknown() {
			return Outcome{}, false, fmt.Errorf("store: %v: what an earlier call did is not known, and it is not done again: %w", c.ID, ErrUnknown)
		}
		return Outcome{Failed: g.Verdict == Failed, Result: g.Record.Result}, true, nil
	case InFlight:
		return Outcome{}, false, fmt.Errorf("store: %v: another call is running it: %w", c.ID, taxonomy.InFlight)
	case Mismatch:
		return Outcome{}, false, fmt.Errorf("store: %v was used for another payload: %w", c.ID, taxonomy.PayloadMismatch)
	default:
		return Outcome{}, false, fmt.Errorf("%w: Begin gave %v", ErrUnavailable, g.Verdict)
	}

	over := false
	defer func() { // also when f panics or calls Goexit
		if over {
			return
		}
		// A context that has ended must not keep the transaction open.
		if ended := tx.Rollback(context.WithoutCancel(ctx)); errors.Is(ended, ErrTxEnded) {
			err = errors.Join(err, ended)
		}
	}()
	if o, err = f(ctx, tx.Tx()); err == nil {
		err = o.Validate()
	}
	if err != nil {
		return Outcome{}, false, err
	}
	end := tx.Commit
	if o.Failed {
		end = tx.Discard
	}
	err = end(ctx, o)
	over = true
	if errors.Is(err, ErrUnknown) && !errors.Is(err, ErrTxEnded) {
		err = confirm(ctx, st, g.Lease, err)
	}
	if err != nil {
		return Outcome{}, false, err
	}
	return o, false, nil
}

// confirm returns nil when the record shows that the transaction of the lease has been committed. That it does not show
// is no proof that it never will: the engine may be at it still.
func confirm(ctx context.Context, st Store, l Lease, lost error) error {
	rec, err := st.Find(ctx, l.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return lost
	case err != nil:
		return errors.Join(lost, err)
	case rec.State == StatePending || rec.Fence != l.Fence:
		return lost
	}
	return nil
}

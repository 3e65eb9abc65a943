package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/taxonomy"
)

// Once runs f once for the claim's ID, in a transaction that commits f's writes through tx together with f's outcome.
// A later call with the same ID and fingerprint, from any process and after any crash, does not run f. It returns the
// same Failed and Result, and again is true. It needs no HTTP: a queue's consumer or a nightly job calls it with an
// ID that names the work.
//
//	out, again, err := store.Once(ctx, st, claim, func(ctx context.Context, tx pgx.Tx) (store.Outcome, error) {
//		_, err := tx.Exec(ctx, "INSERT INTO ledger …")
//		return store.Outcome{Result: receipt}, err
//	})
//
// If f returns an error, Once rolls everything back and returns that error; the next call runs f again. If the
// outcome is Failed, Once undoes f's writes and keeps the outcome. Use this to keep a refusal. If f panics, Once
// rolls back and panics too. The function f must not end the transaction, see [ErrTxEnded]. It should have no effect
// outside of tx, because such an effect is repeated if the transaction fails after f has returned.
//
// Once does not wait for another call's f. While one runs, the error matches taxonomy.InFlight: call again later. The
// error matches taxonomy.PayloadMismatch if the ID was used with another fingerprint. It matches [ErrUnknown] if the
// response to the commit was lost and the record does not show it yet: call again. It stays ErrUnknown if the record
// was settled with [UnknownOutcome]. With any other error nothing was done. The claim's Lease and Meta are not used.
func Once[T any](
	ctx context.Context, st TxStore[T], c Claim, f func(ctx context.Context, tx T) (Outcome, error),
) (o Outcome, again bool, err error) {
	tx, g, err := st.Begin(ctx, c)
	if err != nil {
		return Outcome{}, false, err
	}
	switch g.Verdict {
	case Acquired, TakenOver:
	case Complete, Failed:
		if g.Record.OutcomeUnknown() {
			return Outcome{}, false, fmt.Errorf("store: %v: the effect of an earlier call is unknown: %w",
				c.ID, ErrUnknown)
		}
		return Outcome{Failed: g.Verdict == Failed, Result: g.Record.Result}, true, nil
	case InFlight:
		return Outcome{}, false, fmt.Errorf("store: %v: another call is running it: %w", c.ID, taxonomy.InFlight)
	case Mismatch:
		return Outcome{}, false, fmt.Errorf("store: %v was used for another payload: %w",
			c.ID, taxonomy.PayloadMismatch)
	default:
		return Outcome{}, false, fmt.Errorf("%w: Begin returned %v", ErrUnavailable, g.Verdict)
	}

	over := false
	defer func() { // also if f panics or calls Goexit
		if over {
			return
		}
		// An ended context must not keep the transaction open.
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

// confirm returns nil if the record shows that the transaction of the lease was committed. Otherwise it returns the
// lost response's error: the engine may still be committing.
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

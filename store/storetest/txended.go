package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

// ending lists the calls that end a transaction, under live and under ended contexts.
var ending = []struct {
	name string
	end  func(tx store.Tx[any], ctx context.Context) error
}{
	{"Commit", func(tx store.Tx[any], ctx context.Context) error { return tx.Commit(ctx, store.Outcome{}) }},
	{"Commit under an ended context", func(tx store.Tx[any], ctx context.Context) error {
		return tx.Commit(canceled(ctx), store.Outcome{})
	}},
	{"Commit of an invalid outcome", func(tx store.Tx[any], ctx context.Context) error {
		return tx.Commit(ctx, store.Outcome{Retention: -1})
	}},
	{"Discard", func(tx store.Tx[any], ctx context.Context) error { return tx.Discard(ctx, refusedWork) }},
	{"Discard under an ended context", func(tx store.Tx[any], ctx context.Context) error {
		return tx.Discard(canceled(ctx), refusedWork)
	}},
	{"Rollback", store.Tx[any].Rollback},
	{"Rollback under an ended context", func(tx store.Tx[any], ctx context.Context) error {
		return tx.Rollback(canceled(ctx))
	}},
}

var refusedWork = store.Outcome{Failed: true, Result: []byte("refused")}

// canceled returns a context that has ended.
func canceled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

var txEndedCases = []Case{{
	Name: "engine's transaction refuses a commit",
	Rule: "Only the store commits the engine's transaction. A commit by its user is ErrTxEnded and commits nothing. " +
		"The transaction goes on, and the store ends it as if the call had not been made.",
	run: func(t *trial) {
		st := t.openTx()
		for key, end := range map[string]func(tx store.Tx[any]) error{
			"Commit":   func(tx store.Tx[any]) error { return tx.Commit(t.Context(), refusedWork) },
			"Discard":  func(tx store.Tx[any]) error { return tx.Discard(t.Context(), refusedWork) },
			"Rollback": func(tx store.Tx[any]) error { return tx.Rollback(t.Context()) },
		} {
			tx, g := t.begin(st, unleased(key), store.Acquired)
			t.write(tx, key)
			t.is(t.user(t.engine.commit, tx.Tx()), store.ErrTxEnded, "the user's commit")
			t.absent(st, g.Lease.ID)
			t.effects(st, key, 0)
			t.inFlight(st, unleased(key))
			t.write(tx, key)
			t.ok(end(tx), key)
			if key == "Rollback" {
				t.undone(st, g, key)
				continue
			}
			t.settled(st, g, refusedWork)
			t.effects(st, key, map[string]int{"Commit": 2}[key])
		}
	},
}, {
	Name: "engine's transaction refuses a rollback",
	Rule: "A rollback by the transaction's user is ErrTxEnded. The user wants nothing to be kept, so that Commit and " +
		"Discard are ErrTxEnded too and commit nothing. That is certain, so that it is not ErrUnknown. Rollback " +
		"returns nil.",
	run: func(t *trial) {
		st := t.openTx()
		for _, verdict := range []store.Verdict{store.Acquired, store.TakenOver} {
			for _, way := range ending {
				key := verdict.String() + ", " + way.name
				var before store.Record
				if verdict == store.TakenOver {
					before = t.reserve(st, unleased(key), store.Acquired).Record
				}
				tx, g := t.begin(st, unleased(key), verdict)
				t.write(tx, key)
				t.is(t.user(t.engine.rollback, tx.Tx()), store.ErrTxEnded, "the user's rollback")
				err := way.end(tx, t.Context())
				switch way.name {
				case "Commit", "Discard":
					t.is(err, store.ErrTxEnded, key)
				case "Rollback":
					t.ok(err, key)
				}
				if errors.Is(err, store.ErrUnknown) {
					t.fatalf("%s after the user's rollback: error %v, which is store.ErrUnknown although "+
						"nothing was committed",
						key, err)
				}
				t.ok(tx.Rollback(t.Context()), "Rollback after "+key)
				if verdict == store.TakenOver {
					t.unchanged(st, before)
					t.effects(st, key, 0)
				} else {
					t.undone(st, g, key)
				}
			}
		}
	},
}, {
	Name: "transaction that ended without the store is unknown",
	Rule: "If the engine's transaction has ended without the store, the store does not know the outcome of the " +
		"commit, nor of later writes, which some engines commit one by one. Commit, Discard and Rollback are " +
		"ErrTxEnded and ErrUnknown and commit nothing more. The record is settled with UnknownOutcome, so that the " +
		"work is not done again, and under a new fence, because it is not the transaction's outcome.",
	run: func(t *trial) {
		st := t.openTx()
		if len(t.engine.ends) == 0 {
			t.Skipf("the harness has no such function")
		}
		for i, end := range t.engine.ends {
			for _, verdict := range []store.Verdict{store.Acquired, store.TakenOver} {
				for _, way := range ending {
					t.endedOutside(st, end, verdict, way.end, fmt.Sprintf("%s, end %d, %s", verdict, i, way.name))
				}
			}
		}
	},
}, {
	Name: "once reports that its work ended the transaction",
	Rule: "Once commits nothing and returns ErrTxEnded if its work has called Rollback. It returns ErrUnknown if its " +
		"work has ended the transaction without the store, and never runs that work again.",
	run: func(t *trial) {
		st := t.openTx()
		broken := errors.New("broken")
		for name, result := range map[string]struct {
			outcome store.Outcome
			err     error
		}{"succeeds": {}, "is refused": {outcome: refusedWork}, "fails": {err: broken}} {
			runs := 0
			once := func(key string, end func(ctx context.Context, tx any) error) error {
				_, _, err := store.Once(t.patient(), st, unleased(key),
					func(ctx context.Context, tx any) (store.Outcome, error) {
						runs++
						if err := t.engine.write(ctx, tx, key); err != nil {
							return store.Outcome{}, err
						}
						_ = t.user(end, tx)
						return result.outcome, result.err
					})
				return err
			}
			key := name + " after a rollback"
			for i := range 2 {
				err := once(key, t.engine.rollback)
				want := store.ErrTxEnded
				if result.err != nil {
					want = result.err
				}
				t.is(err, want, "Once of work that "+key)
				if errors.Is(err, store.ErrUnknown) || runs != i+1 {
					t.fatalf("work that %s ran %d times in %d calls of Once, the last with error %v",
						key, runs, i+1, err)
				}
				t.effects(st, key, 0)
			}
			for i, end := range t.engine.ends {
				key, runs = fmt.Sprintf("%s after end %d", name, i), 0
				t.unknown(once(key, end), "Once of work that "+key)
				t.is(once(key, end), store.ErrUnknown, "the second Once of work that "+key)
				if runs != 1 {
					t.fatalf("work that %s ran %d times, want once", key, runs)
				}
			}
		}
	},
}}

// endedOutside begins a transaction, ends it without the store by end, writes once more, and lets the store end it by
// way.
func (t *trial) endedOutside(
	st store.TxStore[any], end func(ctx context.Context, tx any) error, verdict store.Verdict,
	way func(tx store.Tx[any], ctx context.Context) error, key string,
) {
	t.Helper()
	if verdict == store.TakenOver {
		t.reserve(st, unleased(key), store.Acquired)
	}
	tx, g := t.begin(st, unleased(key), verdict)
	t.write(tx, key)
	t.ok(end(t.Context(), tx.Tx()), "ending the transaction without the store")
	_ = t.engine.write(t.Context(), tx.Tx(), key) // the engine may refuse it
	before, err := t.engine.written(t.Context(), st, key)
	t.ok(err, "counting effects")
	t.unknown(way(tx, t.Context()), key)
	t.effects(st, key, before)
	r := t.denied(st, unleased(key), store.Complete)
	if !r.OutcomeUnknown() {
		t.fatalf("%s: the record is %s with the result %q, want UnknownOutcome's", key, r.State, r.Result)
	}
	if r.Fence <= g.Lease.Fence {
		t.fatalf("%s: the record is settled under fence %d, want one above the transaction's, %d",
			key, r.Fence, g.Lease.Fence)
	}
	t.is(st.Complete(t.patient(), g.Lease, store.Outcome{}), store.ErrLost, "Complete under the transaction's lease")
	t.ok(tx.Rollback(t.Context()), "Rollback after "+key)
	t.unchanged(st, r)
}

// user calls f as the transaction's user, or skips the case.
func (t *trial) user(f func(ctx context.Context, tx any) error, tx any) error {
	t.Helper()
	if f == nil {
		t.Skipf("the harness has no such function")
	}
	return f(t.Context(), tx)
}

// unknown checks the error of a call that found its transaction ended.
func (t *trial) unknown(err error, call string) {
	t.Helper()
	t.is(err, store.ErrTxEnded, call)
	t.is(err, store.ErrUnknown, call)
}

package storetest

import (
	"context"
	"errors"

	"github.com/redo-go/redo/store"
)

// undoing is the ways to end a transaction that keep nothing of its effect. In a transaction that its user has committed
// they come too late.
var undoing = []struct {
	name string
	end  func(tx store.Tx[any], ctx context.Context) error
}{
	{"Discard", func(tx store.Tx[any], ctx context.Context) error { return tx.Discard(ctx, refusedWork) }},
	{"Discard under an ended context", func(tx store.Tx[any], ctx context.Context) error { return tx.Discard(over(ctx), refusedWork) }},
	{"Rollback", store.Tx[any].Rollback},
	{"Rollback under an ended context", func(tx store.Tx[any], ctx context.Context) error { return tx.Rollback(over(ctx)) }},
	{"Commit of an invalid outcome", func(tx store.Tx[any], ctx context.Context) error {
		return tx.Commit(ctx, store.Outcome{Retention: -1})
	}},
}

var refusedWork = store.Outcome{Failed: true, Result: []byte("refused")}

// over returns a context that has ended.
func over(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

var txEndedCases = []Case{{
	Name: "work that its user committed is neither refused nor done again",
	Rule: "The engine's transaction is not for its user to commit. Where it was done all the same nothing can be undone: " +
		"nobody is told that nothing was done, no refusal is remembered for it, and its ID is not free to be done again.",
	run: func(t *trial) {
		st := t.openTx()
		for _, verdict := range []store.Verdict{store.Acquired, store.TakenOver} {
			for _, way := range undoing {
				key := verdict.String() + ", " + way.name
				if verdict == store.TakenOver {
					t.reserve(st, unleased(key), store.Acquired)
				}
				tx, g := t.begin(st, unleased(key), verdict)
				t.write(tx, key)
				if !t.commitsItself(tx) {
					_ = way.end(tx, t.Context())
					t.effects(st, key, 0)
					continue
				}
				t.ended(way.end(tx, t.Context()), store.ErrUnknown, way.name)
				t.effects(st, key, 1)
				r := t.denied(st, unleased(key), store.Complete)
				if !r.OutcomeUnknown() {
					t.fatalf("after %s of what its user committed the record is %s with the result %q, want UnknownOutcome's", way.name, r.State, r.Result)
				}
				if r.Fence <= g.Lease.Fence {
					t.fatalf("the record is settled under fence %d, want one above the transaction's, %d: it is not its outcome", r.Fence, g.Lease.Fence)
				}
				t.is(st.Complete(t.patient(), g.Lease, store.Outcome{}), store.ErrLost, "Complete under the transaction's lease")
				t.ok(tx.Rollback(t.Context()), "Rollback after "+way.name)
				t.unchanged(st, r)
			}
		}
	},
}, {
	Name: "commit remembers what its user committed",
	Rule: "Work that was committed by its user and succeeded is recorded, so that it is not done again. The error says that " +
		"the two were not one transaction.",
	run: func(t *trial) {
		st := t.openTx()
		for _, verdict := range []store.Verdict{store.Acquired, store.TakenOver} {
			for _, ctx := range []context.Context{t.Context(), over(t.Context())} {
				key := verdict.String()
				if ctx.Err() != nil {
					key += " under an ended context"
				}
				if verdict == store.TakenOver {
					t.reserve(st, unleased(key), store.Acquired)
				}
				tx, g := t.begin(st, unleased(key), verdict)
				t.write(tx, key)
				o := store.Outcome{Result: []byte("result")}
				if t.commitsItself(tx) {
					t.ended(tx.Commit(ctx, o), store.ErrUnknown, "Commit")
				} else if err := tx.Commit(ctx, o); ctx.Err() != nil {
					t.is(err, ctx.Err(), "Commit under an ended context")
					continue
				} else {
					t.ok(err, "Commit after the user's was refused")
				}
				t.settled(st, g, o)
				t.effects(st, key, 1)
				t.bytes(t.denied(st, unleased(key), store.Complete).Result, o.Result, "the result")
			}
		}
	},
}, {
	Name: "work that its user rolled back is not remembered as done",
	Rule: "What the user has rolled back has not been: Commit records nothing and says why, and the ID is free. That the " +
		"work was refused may be remembered.",
	run: func(t *trial) {
		st := t.openTx()
		for _, ctx := range []context.Context{t.Context(), over(t.Context())} {
			for _, way := range settling {
				key := way.name
				if ctx.Err() != nil {
					key += " under an ended context"
				}
				tx, g := t.rolledBackByItself(st, key)
				err := way.end(tx, ctx, refusedWork)
				if err == nil && way.name == "Discard" {
					t.settled(st, g, refusedWork)
					t.effects(st, key, 0)
					continue
				}
				if way.name == "Commit" || ctx.Err() == nil {
					t.ended(err, store.ErrInvalid, key)
				}
				t.undone(st, g, key)
			}
			tx, g := t.rolledBackByItself(st, "Rollback")
			if err := tx.Rollback(ctx); err != nil && ctx.Err() == nil {
				t.ended(err, store.ErrInvalid, "Rollback")
			}
			t.undone(st, g, "Rollback")
		}
	},
}, {
	Name: "once tells what its work has done to the transaction",
	Rule: "Of work that has ended its own transaction store.Once tells no success and no refusal, and never runs anew what " +
		"was committed: whoever calls again is told that nobody knows, or gets the outcome that was kept.",
	run: func(t *trial) {
		st := t.openTx()
		broken := errors.New("broken")
		for key, end := range map[string]struct {
			outcome store.Outcome
			err     error
		}{"succeeds": {}, "is refused": {outcome: refusedWork}, "fails": {err: broken}} {
			refused, runs := false, 0
			once := func() (store.Outcome, bool, error) {
				return store.Once(t.patient(), st, unleased(key), func(ctx context.Context, tx any) (store.Outcome, error) {
					runs++
					if err := t.engine.write(ctx, tx, key); err != nil {
						return store.Outcome{}, err
					}
					refused = t.userEnds(t.engine.commit, tx) != nil
					return end.outcome, end.err
				})
			}
			_, _, err := once()
			if refused {
				t.effects(st, key, map[string]int{"succeeds": 1}[key])
				continue
			}
			t.ended(err, store.ErrUnknown, "Once of work that commits and "+key)
			if end.err != nil {
				t.is(err, end.err, "Once of work that commits and "+key)
			}
			o, again, err := once()
			if runs != 1 {
				t.fatalf("work that commits and %s was run again", key)
			}
			if key == "succeeds" {
				t.ok(err, "Once after work that commits and succeeds")
			} else {
				t.is(err, store.ErrUnknown, "Once after work that commits and "+key)
			}
			if again != (err == nil) || o.Failed {
				t.fatalf("work that commits and %s is told as %+v, again %t", key, o, again)
			}
			t.effects(st, key, 1)
		}
	},
}}

// commitsItself has the user commit the engine's transaction, and reports whether it did.
func (t *trial) commitsItself(tx store.Tx[any]) bool {
	t.Helper()
	return t.userEnds(t.engine.commit, tx.Tx()) == nil
}

// rolledBackByItself returns a transaction that its user has rolled back, or tried to.
func (t *trial) rolledBackByItself(st store.TxStore[any], key string) (store.Tx[any], store.Grant) {
	t.Helper()
	tx, g := t.begin(st, unleased(key), store.Acquired)
	t.write(tx, key)
	_ = t.userEnds(t.engine.rollback, tx.Tx())
	return tx, g
}

// userEnds ends the engine's transaction as its user, or skips the case.
func (t *trial) userEnds(end func(ctx context.Context, tx any) error, tx any) error {
	t.Helper()
	if end == nil {
		t.Skipf("the harness has no Commit and Rollback")
	}
	return end(t.Context(), tx)
}

// ended checks the error of a call that has found its transaction ended by its user.
func (t *trial) ended(err, known error, call string) {
	t.Helper()
	t.is(err, store.ErrTxEnded, call)
	t.is(err, known, call)
	if !errors.Is(known, store.ErrUnknown) && errors.Is(err, store.ErrUnknown) {
		t.fatalf("%s: error %v, which is store.ErrUnknown, though nothing was done", call, err)
	}
}

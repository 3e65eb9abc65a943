package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

var txOnceCases = []Case{{
	Name: "one of 64 racers has the effect",
	Rule: "Of any number of calls of store.Once for one ID one makes the effect. The others get its outcome or are " +
		"in flight, and a later call gets the outcome.",
	run: func(t *trial) {
		st := t.openTx()
		for round := range rounds {
			t.oneEffect(unleased(fmt.Sprintf("k%d", round)), st)
		}
	},
}, {
	Name: "one of 64 racers takes over and has the effect",
	Rule: "A record without a live lease is taken over by one transaction, as an absent one is acquired by one.",
	run: func(t *trial) {
		st := t.openTx()
		for round := range rounds {
			c := unleased(fmt.Sprintf("k%d", round))
			t.reserve(st, c, store.Acquired)
			t.oneEffect(c, st)
		}
	},
}, {
	Name: "64 racers with ids of their own all have their effects",
	Rule: "Transactions of other IDs only wait for a connection: none fails, and none starves.",
	run: func(t *trial) {
		st := t.openTx()
		var errs [racers]error
		race(func(i int) {
			write := func(ctx context.Context, tx any) (store.Outcome, error) {
				return store.Outcome{Result: []byte{byte(i)}}, t.engine.write(ctx, tx, fmt.Sprint(i))
			}
			_, again, err := store.Once(t.Context(), st, unleased(fmt.Sprint(i)), write)
			if errs[i] = err; again {
				errs[i] = errors.Join(err, errors.New("an outcome that no handler returned"))
			}
		})
		t.ok(errors.Join(errs[:]...), "Once")
		for i := range racers {
			t.effects(st, fmt.Sprint(i), 1)
			t.bytes(t.find(st, unleased(fmt.Sprint(i)).ID).Result, []byte{byte(i)}, "the result")
		}
	},
}}

// oneEffect races calls of store.Once for one ID over the stores, which must be handles on one backend.
func (t *trial) oneEffect(c store.Claim, handles ...store.TxStore[any]) {
	t.Helper()
	var (
		outcomes [racers]store.Outcome
		errs     [racers]error
		begins   [racers]beginner
		key      = c.ID.Key
	)
	once := func(i int) (store.Outcome, bool, error) {
		begins[i].TxStore = handles[i%len(handles)]
		return store.Once(t.Context(), &begins[i], c, func(ctx context.Context, tx any) (store.Outcome, error) {
			return store.Outcome{Result: []byte{byte(i)}}, t.engine.write(ctx, tx, key)
		})
	}
	race(func(i int) { outcomes[i], _, errs[i] = once(i) })
	st := handles[0]
	t.effects(st, key, 1)
	want := t.find(st, c.ID)
	t.state(want, store.StateComplete)
	owners := 0
	for i, err := range errs {
		switch verdict := begins[i].verdict; {
		case verdict == store.InFlight && err != nil:
		case err != nil:
			t.fatalf("Once, whose Begin returned %q: %v", verdict, err)
		default:
			t.bytes(outcomes[i].Result, want.Result, "the result of a racer, which must be the one that is kept,")
			if verdict.Owned() {
				owners++
			}
		}
	}
	if owners != 1 {
		t.fatalf("%d of %d racers owned the record and committed, want exactly 1", owners, racers)
	}
	for i := range handles {
		o, again, err := once(i)
		t.ok(err, "Once after the race")
		t.bytes(o.Result, want.Result, "the result of a call after the race")
		if !again {
			t.fatalf("a call after the race ran anew")
		}
	}
	t.effects(st, key, 1)
}

// A beginner keeps the verdict of its last Begin. It is for one caller.
type beginner struct {
	store.TxStore[any]
	verdict store.Verdict
}

func (b *beginner) Begin(ctx context.Context, c store.Claim) (store.Tx[any], store.Grant, error) {
	tx, g, err := b.TxStore.Begin(ctx, c)
	b.verdict = g.Verdict
	return tx, g, err
}

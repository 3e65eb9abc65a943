package schedule

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A client can keep every rule. The checker raises no false alarm.
func TestTheReferenceKeepsEveryRule(t *testing.T) {
	keeps(t, setup{connect: referenceWith(noFlaw)}, openMemory, 100, referenceSteps)
	keeps(t, setup{connect: referenceWith(noFlaw)}, openBolt, 20, stepsInAFile)
}

// The same steps follow from the same seed, also in another bubble and on another store.
func TestASeedReplaysItsSteps(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(*process) (caller, error)
	}{{"the reference", referenceWith(claimsBlindly)}, {"the client", connect}} {
		t.Run(c.name, func(t *testing.T) {
			// The mutant of the server lets every client fail.
			s := setup{connect: c.make, keyless: true}
			for first := range uint64(10) {
				_, found := series(t, s, openMemory, first*20, 100, mutantSteps)
				require.NotNil(t, found)
				for _, open := range []func(*testing.T) backend{openMemory, openBolt} {
					_, again := series(t, s, open, found.run.seed, 1, 1)
					require.NotNil(t, again)
					require.Equal(t, steady(found), steady(again))
				}
			}
		})
	}
}

// steady returns a run's steps without the parts that the store and chance decide: fences and the text of keys.
// Calls that wake at the same instant may return in any order.
func steady(v *violation) (steps []entry) {
	for _, e := range v.run.trace {
		e.note = ""
		if e.key != "" {
			e.key = v.run.keyName(e.key)
		}
		steps = append(steps, e)
	}
	slices.SortStableFunc(steps, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.process, b.process), cmp.Compare(a.call, b.call))
	})
	return steps
}

// A mutantStore breaks one rule of its contract.
type mutantStore struct {
	backend
	extend   func(context.Context, backend, store.Lease, []byte) error
	complete func(context.Context, backend, store.Lease, store.Outcome) error
}

func (m mutantStore) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if m.extend == nil {
		return m.backend.Extend(ctx, l, d, meta)
	}
	return m.extend(ctx, m.backend, l, meta)
}

func (m mutantStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if m.complete == nil {
		return m.backend.Complete(ctx, l, o)
	}
	return m.complete(ctx, m.backend, l, o)
}

// hideLoss reports a lost write as made.
func hideLoss(err error) error {
	if errors.Is(err, store.ErrLost) {
		return nil
	}
	return err
}

func lossless(b backend) backend {
	return mutantStore{backend: b, extend: func(ctx context.Context, b backend, l store.Lease, meta []byte) error {
		return hideLoss(b.Extend(ctx, l, 0, meta))
	}}
}

func forgetful(b backend) backend {
	return mutantStore{backend: b, complete: func(context.Context, backend, store.Lease, store.Outcome) error {
		return nil
	}}
}

// A fence that is not compared lets a stale owner settle the operation.
func fenceless(b backend) backend {
	return mutantStore{backend: b, complete: func(
		ctx context.Context, b backend, l store.Lease, o store.Outcome,
	) error {
		rec, err := b.Find(ctx, l.ID)
		if err != nil {
			return err
		}
		return b.Complete(ctx, rec.Lease(), o)
	}}
}

// TestTheCheckerFindsEveryMutant shows that each rule can be broken, and that the checker then reports it.
func TestTheCheckerFindsEveryMutant(t *testing.T) {
	right := referenceWith(noFlaw)
	for _, m := range []struct {
		name  string
		setup setup
		rules []rule // each is found when it is the only one
	}{
		{string(ignoresLoss), setup{connect: referenceWith(ignoresLoss)}, []rule{twoKeys, twoEffects}},
		{
			string(ignoresPrior), setup{connect: referenceWith(ignoresPrior)},
			[]rule{twoKeys, twoEffects, wrongNotApplied},
		},
		{string(claimsBlindly), setup{connect: referenceWith(claimsBlindly)}, []rule{wrongNotApplied}},
		{string(newKeys), setup{connect: referenceWith(newKeys)}, []rule{twoKeys, twoEffects}},
		{string(sendsFirst), setup{connect: referenceWith(sendsFirst)}, []rule{twoKeys, twoEffects}},
		{string(forgetsMark), setup{connect: referenceWith(forgetsMark)}, []rule{twoKeys, twoEffects, wrongNotApplied}},
		{string(neverSettles), setup{connect: referenceWith(neverSettles)}, []rule{unsettled}},
		{string(claimsApplied), setup{connect: referenceWith(claimsApplied)}, []rule{wrongApplied}},
		{string(deaf), setup{connect: referenceWith(deaf)}, []rule{stuck}},
		{"a store that hides a lost Extend", setup{connect: right, wrap: lossless}, []rule{twoKeys, twoEffects}},
		{"a store that completes without its fence", setup{connect: right, wrap: fenceless}, []rule{twoKeys}},
		{"a store that loses outcomes", setup{connect: right, wrap: forgetful}, []rule{unsettled}},
		{"a server that ignores keys", setup{connect: right, keyless: true}, []rule{twoEffects}},
		{
			"the client over a store that hides a lost Extend", setup{connect: connect, wrap: lossless},
			[]rule{twoKeys, twoEffects},
		},
		{"the client over a server that ignores keys", setup{connect: connect, keyless: true}, []rule{twoEffects}},
	} {
		for _, broken := range m.rules {
			t.Run(m.name+"/"+string(broken), func(t *testing.T) {
				m.setup.only = broken
				sum, found := series(t, m.setup, openMemory, 0, 100, mutantSteps)
				require.NotNil(t, found, "not found in %d steps of %d runs", sum.steps, sum.runs)
				t.Logf("found by seed %d after %d steps in all: %s", found.run.seed, sum.steps, found.detail)
			})
		}
	}
}

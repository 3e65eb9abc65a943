package storetest

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// A broken store is a memstore of which some methods were replaced, to give it one defect.
type broken struct {
	*memstore.Store
	reserve  func(context.Context, store.Claim) (store.Grant, error)
	extend   func(context.Context, store.Lease, time.Duration, []byte) error
	complete func(context.Context, store.Lease, store.Outcome) error
	release  func(context.Context, store.Lease) error
	find     func(context.Context, store.ID) (store.Record, error)
	purge    func(context.Context, int) (int, error)
	wait     func(context.Context, store.ID, uint64) error
	check    func(context.Context) error
	forget   func(context.Context, store.Lease) error
	pending  func(context.Context, string) iter.Seq2[store.Record, error]
	undone   []store.ID // records that a restart brings back
	damage   *damage
	faults   faults
	retries  bool // writes until their responses come
	cutList  bool // a list that is cut has no error
}

func newBroken(defect func(*broken, *memstore.Store)) *broken {
	s := memstore.New()
	b := &broken{
		Store:    s,
		reserve:  s.Reserve,
		extend:   s.Extend,
		complete: s.Complete,
		release:  s.Release,
		find:     s.Find,
		purge:    s.Purge,
		wait:     s.Wait,
		check:    s.Check,
		forget:   s.Forget,
		pending:  s.Pending,
		damage:   newDamage(s),
		faults:   newFaults(),
	}
	defect(b, s)
	return b
}

func (b *broken) Reserve(ctx context.Context, c store.Claim) (g store.Grant, err error) {
	if b.damage.holds(c.ID) {
		return b.damage.reserve(ctx, c)
	}
	failed := b.faults.meet("Reserve", true, func() error {
		g, err = b.reserve(ctx, c)
		return err
	})
	if failed != nil && !(b.retries && b.faults.fault == ResponseLost) {
		return store.Grant{}, failed
	}
	return g, err
}

func (b *broken) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return b.faults.meet("Extend", true, func() error { return b.extend(ctx, l, d, meta) })
}

func (b *broken) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return b.faults.meet("Complete", true, func() error { return b.complete(ctx, l, o) })
}

func (b *broken) Release(ctx context.Context, l store.Lease) error {
	return b.faults.meet("Release", true, func() error { return b.release(ctx, l) })
}

func (b *broken) Find(ctx context.Context, id store.ID) (r store.Record, err error) {
	if b.damage.holds(id) {
		return b.damage.find(ctx, id)
	}
	if b.faults.fault == ResponseCut && b.faults.partial != nil {
		r, err = b.find(ctx, id)
		return b.faults.partial(r), err
	}
	err = b.faults.meet("Find", false, func() error {
		r, err = b.find(ctx, id)
		return err
	})
	return r, err
}

func (b *broken) Drop(ctx context.Context, id store.ID) error {
	return b.faults.meet("Drop", true, func() error { return b.damage.drop(ctx, id) })
}

func (b *broken) Purge(ctx context.Context, limit int) (n int, err error) {
	err = b.faults.meet("Purge", true, func() error {
		n, err = b.purge(ctx, limit)
		return err
	})
	return n, err
}

func (b *broken) Wait(ctx context.Context, id store.ID, fence uint64) error {
	return b.faults.meet("Wait", false, func() error { return b.wait(ctx, id, fence) })
}

func (b *broken) Check(ctx context.Context) error {
	return b.faults.meet("Check", false, func() error { return b.check(ctx) })
}

func (b *broken) Forget(ctx context.Context, l store.Lease) error {
	return b.faults.meet("Forget", true, func() error { return b.forget(ctx, l) })
}

func (b *broken) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	if b.faults.fault == 0 {
		return b.damage.among(b.pending(ctx, scope))
	}
	return func(yield func(store.Record, error) bool) {
		if b.cutList && b.faults.fault == ResponseCut {
			for r, err := range b.pending(ctx, scope) {
				yield(r, err)
				return
			}
		}
		yield(store.Record{}, b.faults.meet("Pending", false, nil))
	}
}

// A mutant is one defect. The cases that find it stand in foundBy.
type mutant struct {
	name   string
	defect func(b *broken, s *memstore.Store)
	beside func(t *testing.T, first store.Store) store.Store // the second handle; nil: the store itself
	reopen func(t *testing.T, st store.Store) store.Store    // the restart; nil: the store itself
}

func itself(_ *testing.T, st store.Store) store.Store { return st }

func (m mutant) config() config {
	cfg := config{beside: m.beside, reopen: m.reopen, damage: damageRecord, faults: injectFault}
	if cfg.beside == nil {
		cfg.beside = itself
	}
	if cfg.reopen == nil {
		cfg.reopen = itself
	}
	return cfg
}

func (m mutant) failing(t *testing.T) (names []string) {
	t.Helper()
	factory := func(t *testing.T) store.Store { return newBroken(m.defect) }
	for _, c := range Cases() {
		r := record(t, m.config(), c, factory)
		require.False(t, r.skipped, "case %q was skipped", c.Name)
		if len(r.messages) > 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

func TestEachDefectFailsInTheCasesThatAreMeant(t *testing.T) {
	for _, m := range racetest.Sample(mutants()) {
		t.Run(m.name, func(t *testing.T) {
			require.NotEmpty(t, foundBy[m.name])
			require.ElementsMatch(t, foundBy[m.name], m.failing(t))
		})
	}
}

func TestStoreWithoutDefectPasses(t *testing.T) {
	require.Empty(t, mutant{defect: func(*broken, *memstore.Store) {}}.failing(t))
}

func TestEachCaseFindsSomeDefect(t *testing.T) {
	found := map[string]bool{}
	for _, cases := range foundBy {
		for _, c := range cases {
			found[c] = true
		}
	}
	for _, c := range Cases() {
		require.True(t, found[c.Name], "no defect fails the case %q", c.Name)
		delete(found, c.Name)
	}
	require.Empty(t, found, "the tables name cases that don't exist, or two of one name")
}

func mutants() []mutant {
	return slices.Concat(
		reserveMutants, settleMutants, fenceMutants, ownerMutants, timeMutants, idMutants, listMutants, damageMutants,
		faultMutants, handleMutants, neglectMutants,
	)
}

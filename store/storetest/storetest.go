// Package storetest is the contract of package store as a suite that any implementation runs:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return mystore.Open(t.TempDir()) })
//	}
//
// Each case is a subtest whose name reads as a rule; a failure explains the rule. The optional
// interfaces (Waiter, Checker, Lister, Forgetter, Dropper), second handles, damaged records and faults have cases too.
// They are skipped where the store or the options don't offer them.
//
// RunTx does the same for the optional capability store.TxStore, of any engine's transactions.
//
// A slow machine fails no case. Leases that must not end are hours long. Leases that must end are short, and a case
// waits for the store's own clock. No case asserts how long a call takes. With [Virtual] there is no waiting.
package storetest

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/redo-go/redo/store"
)

// A Case is one rule of the contract.
type Case struct {
	Name string // the rule in a few words, unique and stable
	Rule string // the rule and its reason
	run  func(*trial)
}

// Cases returns every case that Run knows, in its order.
func Cases() []Case {
	return slices.Concat(
		reserveCases, mismatchCases, raceCases, completeCases, retainCases, fidelityCases, extendCases,
		releaseCases, fenceCases, ownerCases, expiryCases, purgeCases, idCases, refusalCases, clockCases,
		waiterCases, listerCases, forgetterCases, damageCases, faultCases, handleCases, reopenCases,
	)
}

// An Option names a capability of the store to Run and RunTx.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

type config struct {
	virtual      bool
	selfExpiring bool
	leasesEnd    bool
	beside       func(*testing.T, store.Store) store.Store
	reopen       func(*testing.T, store.Store) store.Store
	damage       func(*testing.T, store.Store, store.ID) store.Store
	faults       func(*testing.T, store.Store, Fault) (heal func())
	engine       *engine
}

func configured(opts []Option) (cfg config) {
	for _, o := range opts {
		if o != nil {
			o.apply(&cfg)
		}
	}
	return cfg
}

// Virtual is for a store that reads package time and waits for nothing outside the process. Each case then runs in a
// testing/synctest bubble, where waiting takes no time and a goroutine that does not end fails the case.
func Virtual() Option { return optionFunc(func(c *config) { c.virtual = true }) }

// SelfExpiring is for an engine that deletes expired records without Purge, which then finds fewer of them.
func SelfExpiring() Option { return optionFunc(func(c *config) { c.selfExpiring = true }) }

// Beside opens a second handle on first's backend while first stays open, like another process. If the handle can
// have a clock, give it a wrong one: only the backend's counts. The function closes the handle with t.Cleanup.
func Beside(open func(t *testing.T, first store.Store) store.Store) Option {
	return optionFunc(func(c *config) { c.beside = open })
}

// Reopen closes st and opens its backend again, like a restart. A store that is not durable is run without it. The
// factory's t.Cleanup closes st once more.
func Reopen(reopen func(t *testing.T, st store.Store) store.Store) Option {
	return optionFunc(func(c *config) { c.reopen = reopen })
}

// LeasesEndOnReopen is for a store that only one process can have open. Opening it may void the leases, because their
// owners have died with the process. The records stay pending, and the next claims take them over.
func LeasesEndOnReopen() Option { return optionFunc(func(c *config) { c.leasesEnd = true }) }

// Run runs each case as a subtest of t. The factory returns an empty store that shares nothing with those it
// returned before, and closes it with t.Cleanup.
func Run(t *testing.T, factory func(t *testing.T) store.Store, opts ...Option) {
	t.Helper()
	cfg := configured(opts)
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			cfg.bubble(t, func(t *testing.T) { c.run(cfg.trial(t, t, c, factory)) })
		})
	}
}

func (cfg config) bubble(t *testing.T, f func(t *testing.T)) {
	if !cfg.virtual {
		f(t)
		return
	}
	skipped := false
	synctest.Test(t, func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		f(t)
	})
	if skipped {
		t.SkipNow() // a skip inside the bubble ends only the bubble
	}
}

// trial prepares a case. Its stores live as long as t, and it reports to r.
func (cfg config) trial(t *testing.T, r reporter, c Case, factory func(t *testing.T) store.Store) *trial {
	tr := &trial{
		reporter: r, rule: c.Rule, selfExpiring: cfg.selfExpiring, leasesEnd: cfg.leasesEnd, engine: cfg.engine,
	}
	tr.open = func() store.Store { return factory(t) }
	if cfg.beside != nil {
		tr.beside = func(st store.Store) store.Store { return cfg.beside(t, st) }
	}
	if cfg.reopen != nil {
		tr.reopen = func(st store.Store) store.Store { return cfg.reopen(t, st) }
	}
	if cfg.damage != nil {
		tr.damage = func(st store.Store, id store.ID) store.Store { return cfg.damage(t, st, id) }
	}
	if cfg.faults != nil {
		tr.faults = func(st store.Store, f Fault) func() { return cfg.faults(t, st, f) }
	}
	return tr
}

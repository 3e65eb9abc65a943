// Package storetest is the contract of package store as a suite that any implementation runs:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return mystore.Open(t.TempDir()) })
//	}
//
// Each case is a subtest whose name reads as a rule; a failure explains the rule. Cases of the optional
// interfaces (Waiter, Checker, Lister, Forgetter, Dropper), of second handles and of damaged records are skipped
// where the store or the options don't offer them.
//
// RunTx does the same for the optional capability store.TxStore, of any engine's transactions.
//
// A slow machine fails no case: leases that must not end are hours long, those that must are short and waited
// for on the store's own clock, and nothing is asserted about how long a call takes. With [Virtual] there is no
// waiting at all.
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
	Rule string // what the rule says and whom it protects
	run  func(*trial)
}

// Cases returns every case that Run knows, in its order.
func Cases() []Case {
	return slices.Concat(
		reserveCases, mismatchCases, raceCases, completeCases, retainCases, fidelityCases, extendCases,
		releaseCases, fenceCases, expiryCases, purgeCases, idCases, refusalCases, clockCases,
		waiterCases, listerCases, forgetterCases, damageCases, handleCases, reopenCases,
	)
}

// An Option tells Run and RunTx what more the store offers.
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

// Virtual says that the store takes its time from package time and blocks on nothing outside the process: each
// case then runs in a testing/synctest bubble, where time passes at once and a goroutine left behind fails the
// case.
func Virtual() Option { return optionFunc(func(c *config) { c.virtual = true }) }

// SelfExpiring says that the engine deletes expired records on its own, so that Purge finds fewer of them.
func SelfExpiring() Option { return optionFunc(func(c *config) { c.selfExpiring = true }) }

// Beside opens a second handle on first's backend while first stays open, as another process would. Where the
// handle can be given a clock, give it a wrong one: only the backend's counts. The function closes the handle
// with t.Cleanup.
func Beside(open func(t *testing.T, first store.Store) store.Store) Option {
	return optionFunc(func(c *config) { c.beside = open })
}

// Reopen closes st and opens its backend again, as a restart would. A store that is not durable is run without
// it. Closing st again, as the factory's t.Cleanup does, must do no harm.
func Reopen(reopen func(t *testing.T, st store.Store) store.Store) Option {
	return optionFunc(func(c *config) { c.reopen = reopen })
}

// LeasesEndOnReopen says that opening the backend voids the leases of whoever had it before, as a store may that only
// one process can have open: an owner can't have outlived it. The records stay pending, to be taken over at once.
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
		t.SkipNow() // a skip inside the bubble ends the bubble alone
	}
}

// trial prepares a case: its stores live as long as t, and what it finds goes to r.
func (cfg config) trial(t *testing.T, r reporter, c Case, factory func(t *testing.T) store.Store) *trial {
	tr := &trial{reporter: r, rule: c.Rule, selfExpiring: cfg.selfExpiring, leasesEnd: cfg.leasesEnd, engine: cfg.engine}
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
	return tr
}

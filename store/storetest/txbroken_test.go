package storetest

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
)

// A brokenTx store is a ledger of which some methods were replaced, to give it one defect.
type brokenTx struct {
	*ledger.Store
	begin    func(context.Context, store.Claim) (store.Tx[*ledger.Tx], store.Grant, error)
	reserve  func(context.Context, store.Claim) (store.Grant, error)
	extend   func(context.Context, store.Lease, time.Duration, []byte) error
	complete func(context.Context, store.Lease, store.Outcome) error
	release  func(context.Context, store.Lease) error
	find     func(context.Context, store.ID) (store.Record, error)
	purge    func(context.Context, int) (int, error)
	wait     func(context.Context, store.ID, uint64) error
	pending  func(context.Context, string) iter.Seq2[store.Record, error]

	faults faults

	mu   sync.Mutex
	open map[store.ID]store.Grant // the grants of open transactions
}

func newBrokenTx(s *ledger.Store, defect func(*brokenTx, *ledger.Store)) *brokenTx {
	b := &brokenTx{
		Store:    s,
		begin:    s.Begin,
		reserve:  s.Reserve,
		extend:   s.Extend,
		complete: s.Complete,
		release:  s.Release,
		find:     s.Find,
		purge:    s.Purge,
		wait:     s.Wait,
		pending:  s.Pending,
		faults:   newFaults(),
		open:     map[store.ID]store.Grant{},
	}
	defect(b, s)
	return b
}

// Begin implements store.TxStore, and keeps the grant of the transaction while it is open.
func (b *brokenTx) Begin(ctx context.Context, c store.Claim) (store.Tx[*ledger.Tx], store.Grant, error) {
	if b.faults.fault != 0 {
		return nil, store.Grant{}, b.faults.err(b.faults.fault, "Begin", false)
	}
	tx, g, err := b.begin(ctx, c)
	if err != nil || !g.Verdict.Owned() {
		return tx, g, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[c.ID] = g
	return &alteredTx{sound: tx, faults: &b.faults, ended: func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.open[c.ID].Lease == g.Lease {
			delete(b.open, c.ID)
		}
	}}, g, nil
}

func (b *brokenTx) held(id store.ID) (store.Grant, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, ok := b.open[id]
	return g, ok
}

func (b *brokenTx) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	return b.reserve(ctx, c)
}

func (b *brokenTx) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return b.extend(ctx, l, d, meta)
}

func (b *brokenTx) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return b.complete(ctx, l, o)
}

func (b *brokenTx) Release(ctx context.Context, l store.Lease) error { return b.release(ctx, l) }

func (b *brokenTx) Find(ctx context.Context, id store.ID) (store.Record, error) {
	return b.find(ctx, id)
}

func (b *brokenTx) Purge(ctx context.Context, limit int) (int, error) { return b.purge(ctx, limit) }

func (b *brokenTx) Wait(ctx context.Context, id store.ID, fence uint64) error {
	return b.wait(ctx, id, fence)
}

func (b *brokenTx) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return b.pending(ctx, scope)
}

// An alteredTx is a transaction of which some methods were replaced.
type alteredTx struct {
	sound    store.Tx[*ledger.Tx]
	commit   func(context.Context, store.Outcome) error
	discard  func(context.Context, store.Outcome) error
	rollback func(context.Context) error
	ended    func()
	faults   *faults // nil: none
}

func (a *alteredTx) Tx() *ledger.Tx { return a.sound.Tx() }

func (a *alteredTx) Commit(ctx context.Context, o store.Outcome) error {
	defer a.done()
	end := a.sound.Commit
	if a.commit != nil {
		end = a.commit
	}
	return a.settle(ctx, "Commit", o, end)
}

// settle calls end, unless a fault prevents it. The backend rolls back a call that does not arrive.
func (a *alteredTx) settle(
	ctx context.Context, call string, o store.Outcome, end func(context.Context, store.Outcome) error,
) error {
	if a.faults == nil {
		return end(ctx, o)
	}
	err := a.faults.meet(call, true, func() error { return end(ctx, o) })
	if a.faults.fault != 0 {
		_ = a.sound.Rollback(ctx)
	}
	return err
}

func (a *alteredTx) Discard(ctx context.Context, o store.Outcome) error {
	defer a.done()
	end := a.sound.Discard
	if a.discard != nil {
		end = a.discard
	}
	return a.settle(ctx, "Discard", o, end)
}

func (a *alteredTx) Rollback(ctx context.Context) error {
	defer a.done()
	if a.rollback != nil {
		return a.rollback(ctx)
	}
	return a.sound.Rollback(ctx)
}

func (a *alteredTx) done() {
	if a.ended != nil {
		a.ended()
	}
}

// altered gives each transaction that is opened the same defect.
func altered(alter func(a *alteredTx, s *ledger.Store, c store.Claim, g store.Grant)) func(*brokenTx, *ledger.Store) {
	return func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (store.Tx[*ledger.Tx], store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if tx == nil {
				return nil, g, err
			}
			a := &alteredTx{sound: tx}
			alter(a, s, c, g)
			return a, g, err
		}
	}
}

// A settleFunc is the end of a transaction: Commit or Discard.
type settleFunc = func(context.Context, store.Outcome) error

// settlesBy alters Commit and Discard in the same way.
func settlesBy(
	f func(ctx context.Context, o store.Outcome, c store.Claim, end settleFunc) error,
) func(*brokenTx, *ledger.Store) {
	return altered(func(a *alteredTx, _ *ledger.Store, c store.Claim, _ store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error { return f(ctx, o, c, a.sound.Commit) }
		a.discard = func(ctx context.Context, o store.Outcome) error { return f(ctx, o, c, a.sound.Discard) }
	})
}

// A txMutant is one defect, or a right variant. txFoundBy lists the cases that find a defect.
type txMutant struct {
	name   string
	single bool                                              // it is run as the store of a single writer
	ledger func() *ledger.Store                              // nil: one of as many writers as it is run as
	defect func(b *brokenTx, s *ledger.Store)                // nil: none
	beside func(t *testing.T, first store.Store) store.Store // the second handle; nil: the store itself
	reopen func(t *testing.T, st store.Store) store.Store    // the restart; nil: the store itself
	user   func(h *TxHarness[*ledger.Tx])                    // changes the engine's transaction; nil: as it is
}

func (m txMutant) harness() TxHarness[*ledger.Tx] {
	if m.ledger == nil {
		m.ledger = ledger.New
		if m.single {
			m.ledger = ledger.NewSingleWriter
		}
	}
	if m.defect == nil {
		m.defect = func(*brokenTx, *ledger.Store) {}
	}
	h := TxHarness[*ledger.Tx]{
		Open:  func(*testing.T) store.TxStore[*ledger.Tx] { return newBrokenTx(m.ledger(), m.defect) },
		Write: func(_ context.Context, tx *ledger.Tx, key string) error { return tx.Add(key) },
		Written: func(_ context.Context, st store.TxStore[*ledger.Tx], key string) (int, error) {
			return st.(*brokenTx).Entries(key), nil
		},
		Fail:     func(_ context.Context, tx *ledger.Tx) error { return tx.Fail() },
		Commit:   func(_ context.Context, tx *ledger.Tx) error { return tx.Commit() },
		Rollback: func(_ context.Context, tx *ledger.Tx) error { return tx.Rollback() },
		Ends: []func(context.Context, *ledger.Tx) error{
			func(_ context.Context, tx *ledger.Tx) error { return tx.End(true) },
			func(_ context.Context, tx *ledger.Tx) error { return tx.End(false) },
		},
		SingleWriter: m.single,
	}
	if m.user != nil {
		m.user(&h)
	}
	return h
}

// depends names the cases that are for one kind of engine.
var depends = map[bool]string{
	true:  "other ids are not blocked by an open transaction",
	false: "begin of another id waits for the single writer",
}

func (m txMutant) failing(t *testing.T) (names []string) {
	t.Helper()
	h := m.harness()
	cfg := h.config(mutant{beside: m.beside, reopen: m.reopen}.config())
	for _, c := range TxCases() {
		r := record(t, cfg, c, h.open)
		require.Equal(t, c.Name == depends[m.single], r.skipped, "case %q", c.Name)
		if len(r.messages) > 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

func TestEachDefectOfATxStoreFailsInTheCasesThatAreMeant(t *testing.T) {
	for _, m := range racetest.Sample(txMutants()) {
		t.Run(m.name, func(t *testing.T) {
			require.NotEmpty(t, txFoundBy[m.name])
			require.ElementsMatch(t, txFoundBy[m.name], m.failing(t))
		})
	}
}

func TestTxStoreWithoutDefectPasses(t *testing.T) {
	require.Empty(t, txMutant{}.failing(t))
	require.Empty(t, txMutant{single: true}.failing(t))
}

func TestRightVariantsOfATxStorePass(t *testing.T) {
	for _, m := range txVariants {
		t.Run(m.name, func(t *testing.T) { require.Empty(t, m.failing(t)) })
	}
}

func TestEachTxCaseFindsSomeDefect(t *testing.T) {
	found := map[string]bool{}
	for _, cases := range txFoundBy {
		for _, c := range cases {
			found[c] = true
		}
	}
	for _, c := range TxCases() {
		require.Regexp(t, `^[A-Z].*\.$`, c.Rule, "case %q", c.Name)
		require.True(t, found[c.Name], "no defect fails the case %q", c.Name)
		delete(found, c.Name)
	}
	require.Empty(t, found, "the tables name cases that don't exist, or two of one name")
}

func TestTxCasesOfWhatIsNotOfferedAreSkipped(t *testing.T) {
	optional := slices.Concat(txFaultCases, txHandleCases, txReopenCases, txEndedCases)
	h := txMutant{}.harness()
	h.Fail, h.Commit, h.Rollback, h.Ends = nil, nil, nil, nil
	h.Open = func(*testing.T) store.TxStore[*ledger.Tx] { return bareTx{ledger.New()} }
	h.Written = func(_ context.Context, st store.TxStore[*ledger.Tx], key string) (int, error) {
		return st.(bareTx).TxStore.(*ledger.Store).Entries(key), nil
	}
	for _, c := range TxCases() {
		r := record(t, h.config(config{}), c, h.open)
		require.Empty(t, r.messages, "case %q", c.Name)
		isOptional := slices.Contains([]string{
			"discard works after a failed statement",
			"commit after a failed statement does all or nothing",
			"begin of another id waits for the single writer",
			"wait ends when a transaction settles the record",
		}, c.Name) || slices.ContainsFunc(optional, func(o Case) bool { return o.Name == c.Name })
		require.Equal(t, isOptional, r.skipped, "case %q", c.Name)
	}
}

// bareTx hides the methods of a store beyond store.TxStore.
type bareTx struct{ store.TxStore[*ledger.Tx] }

func txMutants() []txMutant {
	return slices.Concat(txSettleMutants, txBeginMutants, txHeldMutants, txEndMutants, txEndedMutants, txFaultMutants,
		txHandleMutants)
}

package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

var nightly = store.Claim{
	ID:          store.ID{Scope: "payouts", Key: "2030-01-02"},
	Fingerprint: store.Raw("", "", "", []byte("run of the second")),
	Retention:   time.Hour,
}

// pays is an f that adds one entry and returns the outcome.
func pays(o store.Outcome) func(context.Context, *ledger.Tx) (store.Outcome, error) {
	return func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) { return o, tx.Add("paid") }
}

func runs(t *testing.T) func(context.Context, *ledger.Tx) (store.Outcome, error) {
	return func(context.Context, *ledger.Tx) (store.Outcome, error) {
		t.Error("f was run")
		return store.Outcome{}, nil
	}
}

func TestOnceRunsOnceAndReturnsTheSameOutcome(t *testing.T) {
	for name, want := range map[string]struct {
		outcome store.Outcome
		entries int
	}{
		"with a result":     {store.Outcome{Result: []byte("receipt")}, 1},
		"without one":       {store.Outcome{}, 1},
		"with an empty one": {store.Outcome{Result: []byte{}}, 1},
		"refused":           {store.Outcome{Failed: true, Result: []byte("no funds")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			st := ledger.New()
			o, again, err := store.Once(t.Context(), st, nightly, pays(want.outcome))
			require.NoError(t, err)
			require.False(t, again)
			require.Equal(t, want.outcome, o)
			require.Equal(t, want.entries, st.Entries("paid"))

			for range 2 {
				o, again, err = store.Once(t.Context(), st, nightly, runs(t))
				require.NoError(t, err)
				require.True(t, again)
				require.Equal(t, want.outcome, o)
			}
			require.Equal(t, want.entries, st.Entries("paid"))
		})
	}
}

func TestOnceGoesByTheContextAndTheTransactionOfItsCaller(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "caller's")
	_, _, err := store.Once(ctx, ledger.New(), nightly,
		func(ctx context.Context, tx *ledger.Tx) (store.Outcome, error) {
			require.Equal(t, "caller's", ctx.Value(key{}))
			require.NotNil(t, tx)
			return store.Outcome{}, nil
		})
	require.NoError(t, err)
}

// An ended context would have an engine break its connection off, to be rid of the transaction.
func TestOnceRollsBackUnderALiveContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var noted []error
	_, _, err := store.Once(ctx, noting{ledger.New(), &noted}, nightly,
		func(context.Context, *ledger.Tx) (store.Outcome, error) {
			cancel()
			return store.Outcome{}, ctx.Err()
		})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []error{nil}, noted)
}

// noting notes the state of the context of each Rollback.
type noting struct {
	*ledger.Store
	noted *[]error
}

func (n noting) Begin(ctx context.Context, c store.Claim) (store.Tx[*ledger.Tx], store.Grant, error) {
	tx, g, err := n.Store.Begin(ctx, c)
	return notingTx{tx, n.noted}, g, err
}

type notingTx struct {
	ledgerTx
	noted *[]error
}

func (n notingTx) Rollback(ctx context.Context) error {
	*n.noted = append(*n.noted, ctx.Err())
	return n.ledgerTx.Rollback(ctx)
}

type ledgerTx = store.Tx[*ledger.Tx]

// Each way in which f can end without an outcome leaves nothing behind, and the next call runs anew.
func TestOnceRollsBackWhatHasNoOutcome(t *testing.T) {
	broken := errors.New("broken")
	panics := func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
		_ = tx.Add("paid")
		panic(broken)
	}
	exits := func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
		_ = tx.Add("paid")
		runtime.Goexit()
		return store.Outcome{}, nil
	}
	canceled, cancel := context.WithCancel(t.Context())
	for name, call := range map[string]func(t *testing.T, st *ledger.Store){
		"an error is returned as it is": func(t *testing.T, st *ledger.Store) {
			o, again, err := store.Once(t.Context(), st, nightly,
				func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
					_ = tx.Add("paid")
					return store.Outcome{Result: []byte("dropped")}, broken
				})
			require.Same(t, broken, err)
			require.False(t, again)
			require.Zero(t, o)
		},
		"a panic goes on": func(t *testing.T, st *ledger.Store) {
			require.PanicsWithValue(t, broken, func() { _, _, _ = store.Once(t.Context(), st, nightly, panics) })
		},
		"Goexit goes on": func(t *testing.T, st *ledger.Store) {
			done := make(chan struct{})
			returned := false
			go func() {
				defer close(done)
				_, _, _ = store.Once(t.Context(), st, nightly, exits)
				returned = true
			}()
			<-done
			require.False(t, returned)
		},
		"an invalid outcome is refused": func(t *testing.T, st *ledger.Store) {
			o, _, err := store.Once(t.Context(), st, nightly, pays(store.Outcome{Retention: -1}))
			require.ErrorIs(t, err, store.ErrInvalid)
			require.Zero(t, o)
		},
		"a statement's error that f swallows": func(t *testing.T, st *ledger.Store) {
			o, _, err := store.Once(t.Context(), st, nightly,
				func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
					_ = tx.Add("paid")
					_ = tx.Fail()
					return store.Outcome{}, nil
				})
			require.ErrorIs(t, err, ledger.ErrStatement)
			require.Zero(t, o)
		},
		"a context that ends while f runs": func(t *testing.T, st *ledger.Store) {
			o, _, err := store.Once(canceled, st, nightly,
				func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
					cancel()
					return store.Outcome{}, tx.Add("paid")
				})
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := ledger.New()
			call(t, st)
			_, err := st.Find(t.Context(), nightly.ID)
			require.ErrorIs(t, err, store.ErrNotFound)
			require.Zero(t, st.Entries("paid"))

			_, again, err := store.Once(t.Context(), st, nightly, pays(store.Outcome{}))
			require.NoError(t, err)
			require.False(t, again)
			require.Equal(t, 1, st.Entries("paid"))
		})
	}
}

func TestOnceWaitsForNobody(t *testing.T) {
	st := ledger.New()
	_, _, err := store.Once(t.Context(), st, nightly, func(ctx context.Context, tx *ledger.Tx) (store.Outcome, error) {
		o, again, err := store.Once(ctx, st, nightly, runs(t))
		require.ErrorIs(t, err, taxonomy.InFlight)
		require.NotErrorIs(t, err, taxonomy.PayloadMismatch)
		require.False(t, again)
		require.Zero(t, o)
		return store.Outcome{}, tx.Add("paid")
	})
	require.NoError(t, err)
	require.Equal(t, 1, st.Entries("paid"))
}

func TestOnceRefusesAnotherPayload(t *testing.T) {
	st := ledger.New()
	other := nightly
	other.Fingerprint = store.Raw("", "", "", []byte("another run"))
	refused := func(want taxonomy.Code) {
		o, again, err := store.Once(t.Context(), st, other, runs(t))
		require.ErrorIs(t, err, want)
		require.False(t, again)
		require.Zero(t, o)
	}
	_, _, err := store.Once(t.Context(), st, nightly, func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
		refused(taxonomy.InFlight) // the record is not committed yet
		return store.Outcome{}, tx.Add("paid")
	})
	require.NoError(t, err)
	refused(taxonomy.PayloadMismatch)
}

func TestOnceTakesOverWhatHasNoLiveLease(t *testing.T) {
	st := ledger.New()
	_, err := st.Reserve(t.Context(), nightly)
	require.NoError(t, err)
	_, again, err := store.Once(t.Context(), st, nightly, pays(store.Outcome{}))
	require.NoError(t, err)
	require.False(t, again)
	require.Equal(t, 1, st.Entries("paid"))
}

// A lossy store loses the response of each commit. arrive decides whether the commit is made.
type lossy struct {
	*ledger.Store
	arrive func(tx store.Tx[*ledger.Tx], commit func() error)
	then   func()       // happens before the response would have come
	find   error        // the error of Find; nil: as the store returns it
	found  store.Record // or this one, if it has a state
}

func (l lossy) Begin(ctx context.Context, c store.Claim) (store.Tx[*ledger.Tx], store.Grant, error) {
	tx, g, err := l.Store.Begin(ctx, c)
	if tx == nil {
		return nil, g, err
	}
	return lossyTx{tx, l}, g, err
}

func (l lossy) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if l.find != nil || l.found.State != 0 {
		return l.found, l.find
	}
	return l.Store.Find(ctx, id)
}

type lossyTx struct {
	sound store.Tx[*ledger.Tx]
	lossy lossy
}

func (x lossyTx) Tx() *ledger.Tx                     { return x.sound.Tx() }
func (x lossyTx) Rollback(ctx context.Context) error { return x.sound.Rollback(ctx) }

func (x lossyTx) Commit(ctx context.Context, o store.Outcome) error {
	return x.lose(func() error { return x.sound.Commit(ctx, o) })
}

func (x lossyTx) Discard(ctx context.Context, o store.Outcome) error {
	return x.lose(func() error { return x.sound.Discard(ctx, o) })
}

func (x lossyTx) lose(commit func() error) error {
	x.lossy.arrive(x.sound, commit)
	if x.lossy.then != nil {
		x.lossy.then()
	}
	return fmt.Errorf("ledger: %w", store.ErrUnknown)
}

func TestOnceConfirmsACommitWhoseAnswerWasLost(t *testing.T) {
	for entries, want := range []store.Outcome{
		{Failed: true, Result: []byte("no funds")}, {Result: []byte("receipt")},
	} {
		st := lossy{Store: ledger.New(), arrive: func(_ store.Tx[*ledger.Tx], commit func() error) {
			require.NoError(t, commit())
		}}
		o, again, err := store.Once(t.Context(), st, nightly, pays(want))
		require.NoError(t, err)
		require.False(t, again)
		require.Equal(t, want, o)
		require.Equal(t, entries, st.Entries("paid"))
	}
}

// A record without this transaction's own commit proves neither that there was none nor that there was one.
func TestOnceSaysUnknownOfACommitThatItCannotConfirm(t *testing.T) {
	down := errors.New("down")
	for name, c := range map[string]struct {
		stands func(t *testing.T, st *ledger.Store) // makes the record that Find returns
		find   error
		found  store.Record
	}{
		"no record is there": {stands: func(*testing.T, *ledger.Store) {}},
		"the record is pending": {stands: func(t *testing.T, st *ledger.Store) {
			_, err := st.Reserve(t.Context(), nightly)
			require.NoError(t, err)
		}},
		"the record is another owner's": {stands: func(t *testing.T, st *ledger.Store) {
			_, _, err := store.Once(t.Context(), st, nightly, pays(store.Outcome{Result: []byte("another's")}))
			require.NoError(t, err)
		}},
		"the record is this one's, and pending": {
			stands: func(*testing.T, *ledger.Store) {}, found: store.Record{State: store.StatePending, Fence: 1},
		},
		"the store can't be asked": {stands: func(*testing.T, *ledger.Store) {}, find: down},
	} {
		t.Run(name, func(t *testing.T) {
			st := lossy{Store: ledger.New(), find: c.find, found: c.found,
				arrive: func(tx store.Tx[*ledger.Tx], _ func() error) {
					require.NoError(t, tx.Rollback(t.Context()))
				}}
			st.then = func() { c.stands(t, st.Store) }
			o, again, err := store.Once(t.Context(), st, nightly, pays(store.Outcome{Result: []byte("receipt")}))
			require.ErrorIs(t, err, store.ErrUnknown)
			if c.find != nil {
				require.ErrorIs(t, err, c.find)
			}
			require.False(t, again)
			require.Zero(t, o)
		})
	}
}

func TestOnceTellsAfterAnUnknownCommitWhatBecameOfIt(t *testing.T) {
	sound := ledger.New()
	st := lossy{Store: sound, find: store.ErrUnavailable, arrive: func(_ store.Tx[*ledger.Tx], commit func() error) {
		require.NoError(t, commit())
	}}
	_, _, err := store.Once(t.Context(), st, nightly, pays(store.Outcome{Result: []byte("receipt")}))
	require.ErrorIs(t, err, store.ErrUnknown)

	o, again, err := store.Once(t.Context(), sound, nightly, runs(t))
	require.NoError(t, err)
	require.True(t, again)
	require.Equal(t, store.Outcome{Result: []byte("receipt")}, o)
	require.Equal(t, 1, sound.Entries("paid"))
}

func TestOnceReturnsTheErrorOfBegin(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := store.Once(canceled, ledger.New(), nightly, runs(t))
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = store.Once(t.Context(), ledger.New(), store.Claim{}, runs(t))
	require.ErrorIs(t, err, store.ErrInvalid)
	_, _, err = store.Once(t.Context(), mute{}, nightly, runs(t))
	require.ErrorIs(t, err, store.ErrUnavailable)
}

// mute breaks the contract: it gives no verdict.
type mute struct{ store.TxStore[*ledger.Tx] }

func (mute) Begin(context.Context, store.Claim) (store.Tx[*ledger.Tx], store.Grant, error) {
	return nil, store.Grant{}, nil
}

package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/internal/ledger"
)

// committedItself holds for the errors of a transaction that its user has committed.
func committedItself(err error) bool {
	return errors.Is(err, store.ErrTxEnded) && errors.Is(err, store.ErrUnknown)
}

// forgetEnded removes the record that such a transaction was settled with.
func forgetEnded(ctx context.Context, s *ledger.Store, id store.ID) {
	if r, err := s.Find(ctx, id); err == nil {
		_ = s.Forget(ctx, r.Lease())
	}
}

// remember settles the claim's record in a transaction of its own.
func remember(ctx context.Context, s *ledger.Store, c store.Claim, o store.Outcome) {
	if g, err := s.Reserve(ctx, c); err == nil {
		_ = s.Complete(ctx, g.Lease, o)
	}
}

var txEndedMutants = []txMutant{{
	name: "refusal of what its user committed is remembered",
	defect: altered(func(a *alteredTx, s *ledger.Store, c store.Claim, g store.Grant) {
		a.discard = func(ctx context.Context, o store.Outcome) error {
			err := a.sound.Discard(ctx, o)
			if committedItself(err) {
				ctx = context.WithoutCancel(ctx)
				forgetEnded(ctx, s, g.Lease.ID)
				remember(ctx, s, c, o)
			}
			return err
		}
	}),
}, {
	name: "rollback frees the id of what its user committed",
	defect: altered(func(a *alteredTx, s *ledger.Store, _ store.Claim, g store.Grant) {
		a.rollback = func(ctx context.Context) error {
			err := a.sound.Rollback(ctx)
			if committedItself(err) {
				forgetEnded(context.WithoutCancel(ctx), s, g.Lease.ID)
			}
			return err
		}
	}),
}, {
	name: "rollback says nothing of what its user committed",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.rollback = func(ctx context.Context) error {
			if err := a.sound.Rollback(ctx); !committedItself(err) {
				return err
			}
			return nil
		}
	}),
}, {
	name: "nobody's record has the transaction's fence",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if g.Record.OutcomeUnknown() {
				g.Record.Fence--
			}
			return tx, g, err
		}
	},
}, {
	name: "commit says nothing of its user's",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error {
			if err := a.sound.Commit(ctx, o); !committedItself(err) || o.Validate() != nil {
				return err
			}
			return nil
		}
	}),
}, {
	name: "commit leaves what its user committed unrecorded",
	defect: altered(func(a *alteredTx, s *ledger.Store, _ store.Claim, g store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error {
			err := a.sound.Commit(ctx, o)
			if committedItself(err) && o.Validate() == nil {
				forgetEnded(context.WithoutCancel(ctx), s, g.Lease.ID)
			}
			return err
		}
	}),
}, {
	name: "commit remembers what its user rolled back",
	defect: altered(func(a *alteredTx, s *ledger.Store, c store.Claim, _ store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error {
			err := a.sound.Commit(ctx, o)
			if errors.Is(err, store.ErrTxEnded) && !committedItself(err) {
				remember(context.WithoutCancel(ctx), s, c, o)
			}
			return err
		}
	}),
}, {
	name: "what its user rolled back is unknown",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error {
			err := a.sound.Commit(ctx, o)
			if errors.Is(err, store.ErrTxEnded) {
				err = errors.Join(err, store.ErrUnknown)
			}
			return err
		}
	}),
}, {
	name: "fence falls back over a restart",
	reopen: func(_ *testing.T, st store.Store) store.Store {
		s := st.(*brokenTx).Store
		return newBrokenTx(s, func(b *brokenTx, _ *ledger.Store) {
			b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
				tx, g, err := s.Begin(ctx, c)
				if tx != nil {
					g.Lease.Fence--
					g.Record.Fence--
				}
				return tx, g, err
			}
		})
	},
}}

// An engine may refuse to be ended by its user. What he asked for is then judged by what he was told.
func TestEngineThatRefusesItsUser(t *testing.T) {
	refused := errors.New("refused")
	h := txMutant{}.harness()
	h.Commit = func(context.Context, *ledger.Tx) error { return refused }
	h.Rollback = func(_ context.Context, tx *ledger.Tx) error { return errors.Join(tx.Rollback(), refused) }
	failing := func() (names []string) {
		for _, c := range txEndedCases {
			if r := record(t, h.config(mutant{}.config()), c, h.open); len(r.messages) > 0 {
				names = append(names, c.Name)
			}
		}
		return names
	}
	require.Empty(t, failing())
	h.Rollback = h.Commit
	require.Equal(t, []string{"work that its user rolled back is not remembered as done"}, failing())
	committed := func(_ context.Context, tx *ledger.Tx) error { return errors.Join(tx.Commit(), refused) }
	h.Commit = committed
	require.Subset(t, failing(), []string{
		"work that its user committed is neither refused nor done again",
		"commit remembers what its user committed",
		"once tells what its work has done to the transaction",
	})
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
)

// found holds for the error of a store that found its transaction ended.
func found(err error) bool {
	return errors.Is(err, store.ErrTxEnded) && errors.Is(err, store.ErrUnknown)
}

// forget removes the record that the transaction was settled with.
func forget(ctx context.Context, s *ledger.Store, id store.ID) {
	ctx = context.WithoutCancel(ctx)
	if r, err := s.Find(ctx, id); err == nil {
		_ = s.Forget(ctx, r.Lease())
	}
}

// remember settles the claim's record in a separate transaction.
func remember(ctx context.Context, s *ledger.Store, c store.Claim, o store.Outcome) {
	ctx = context.WithoutCancel(ctx)
	if g, err := s.Reserve(ctx, c); err == nil {
		_ = s.Complete(ctx, g.Lease, o)
	}
}

var txEndedMutants = []txMutant{{
	name: "user's commit commits",
	user: func(h *TxHarness[*ledger.Tx]) {
		h.Commit = func(_ context.Context, tx *ledger.Tx) error { return tx.End(true) }
	},
}, {
	name: "user's commit is refused and made",
	user: func(h *TxHarness[*ledger.Tx]) {
		h.Commit = func(_ context.Context, tx *ledger.Tx) error { return errors.Join(tx.End(true), tx.Commit()) }
	},
}, {
	name: "refused commit spoils the transaction",
	user: func(h *TxHarness[*ledger.Tx]) {
		h.Commit = func(_ context.Context, tx *ledger.Tx) error { return errors.Join(tx.Fail(), tx.Commit()) }
	},
}, {
	name: "user's rollback is not refused",
	user: func(h *TxHarness[*ledger.Tx]) {
		h.Rollback = func(_ context.Context, tx *ledger.Tx) error { _ = tx.Rollback(); return nil }
	},
}, {
	name: "refused rollback is forgotten",
	user: func(h *TxHarness[*ledger.Tx]) {
		h.Rollback = func(context.Context, *ledger.Tx) error { return store.ErrTxEnded }
	},
}, {
	name: "refused rollback is unknown",
	defect: settlesBy(func(ctx context.Context, o store.Outcome, _ store.Claim, end settleFunc) error {
		err := end(ctx, o)
		if errors.Is(err, store.ErrTxEnded) {
			err = errors.Join(err, store.ErrUnknown)
		}
		return err
	}),
}, {
	name: "refusal is kept after a refused rollback",
	defect: altered(func(a *alteredTx, s *ledger.Store, c store.Claim, _ store.Grant) {
		a.discard = func(ctx context.Context, o store.Outcome) error {
			err := a.sound.Discard(ctx, o)
			if errors.Is(err, store.ErrTxEnded) && !found(err) {
				remember(ctx, s, c, o)
			}
			return err
		}
	}),
}, {
	name: "rollback after a refused one is an error",
	user: func(h *TxHarness[*ledger.Tx]) {
		h.Rollback = func(_ context.Context, tx *ledger.Tx) error { return errors.Join(tx.Fail(), tx.Rollback()) }
	},
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.rollback = func(ctx context.Context) error {
			failed := a.sound.Tx().Add("")
			if err := a.sound.Rollback(ctx); !errors.Is(failed, ledger.ErrStatement) {
				return err
			}
			return failed
		}
	}),
}, {
	name: "work of an ended transaction is done again",
	defect: altered(func(a *alteredTx, s *ledger.Store, c store.Claim, _ store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error {
			err := a.sound.Commit(ctx, o)
			if found(err) {
				again, _, _ := s.Begin(context.WithoutCancel(ctx), unleased("another"))
				_ = again.Tx().Add(c.ID.Key)
				_ = again.Commit(context.WithoutCancel(ctx), store.Outcome{})
				forget(ctx, s, unleased("another").ID)
			}
			return err
		}
	}),
}, {
	name: "commit hides that its transaction has ended",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error {
			if err := a.sound.Commit(ctx, o); !found(err) {
				return err
			}
			return nil
		}
	}),
}, {
	name: "rollback hides that its transaction has ended",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.rollback = func(ctx context.Context) error {
			if err := a.sound.Rollback(ctx); !found(err) {
				return err
			}
			return nil
		}
	}),
}, {
	name: "ended context hides that the transaction has ended",
	defect: settlesBy(func(ctx context.Context, o store.Outcome, _ store.Claim, end settleFunc) error {
		err := end(ctx, o)
		if found(err) && ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}),
}, {
	name: "refusal of an ended transaction is remembered",
	defect: altered(func(a *alteredTx, s *ledger.Store, c store.Claim, g store.Grant) {
		a.discard = func(ctx context.Context, o store.Outcome) error {
			err := a.sound.Discard(ctx, o)
			if found(err) {
				forget(ctx, s, c.ID)
				remember(ctx, s, c, o)
			}
			return err
		}
	}),
}, {
	name: "rollback frees the id of an ended transaction",
	defect: altered(func(a *alteredTx, s *ledger.Store, c store.Claim, _ store.Grant) {
		a.rollback = func(ctx context.Context) error {
			err := a.sound.Rollback(ctx)
			if found(err) {
				forget(ctx, s, c.ID)
			}
			return err
		}
	}),
}, {
	name: "transaction that is rolled back without the store is free",
	user: func(h *TxHarness[*ledger.Tx]) {
		h.Ends[1] = func(_ context.Context, tx *ledger.Tx) error { _ = tx.Rollback(); return nil }
	},
}, {
	name: "unknown outcome has the transaction's fence",
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

// txVariants differ from the ledger and are right all the same.
var txVariants = []txMutant{{
	name: "other payload on a held id is a mismatch",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if open, held := b.held(c.ID); held && g.Verdict == store.InFlight &&
				open.Record.Fingerprint != c.Fingerprint {
				g.Verdict = store.Mismatch
			}
			return tx, g, err
		}
	},
}, {
	name: "refusals name their reason",
	user: func(h *TxHarness[*ledger.Tx]) {
		h.Commit = func(_ context.Context, tx *ledger.Tx) error { return fmt.Errorf("a commit: %w", tx.Commit()) }
		h.Rollback = func(_ context.Context, tx *ledger.Tx) error { return fmt.Errorf("a rollback: %w", tx.Rollback()) }
	},
}}

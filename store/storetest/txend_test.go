package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
)

var txEndMutants = []txMutant{{
	name: "rollback after the end is an error",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.rollback = func(ctx context.Context) error {
			if err := a.sound.Tx().Add(""); err != nil && !errors.Is(err, ledger.ErrStatement) {
				return err
			}
			return a.sound.Rollback(ctx)
		}
	}),
}, {
	name: "rollback undoes a commit",
	defect: altered(func(a *alteredTx, s *ledger.Store, _ store.Claim, g store.Grant) {
		committed := false
		a.commit = func(ctx context.Context, o store.Outcome) error {
			err := a.sound.Commit(ctx, o)
			committed = err == nil
			return err
		}
		a.rollback = func(ctx context.Context) error {
			if committed {
				_ = s.Forget(ctx, g.Lease)
			}
			return a.sound.Rollback(ctx)
		}
	}),
}, {
	name: "settling after the end returns nil",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		over := false
		a.rollback = func(ctx context.Context) error {
			over = true
			return a.sound.Rollback(ctx)
		}
		a.commit = func(ctx context.Context, o store.Outcome) error {
			if over {
				return nil
			}
			return a.sound.Commit(ctx, o)
		}
	}),
}, {
	name: "discard after the end is kept",
	defect: altered(func(a *alteredTx, s *ledger.Store, c store.Claim, g store.Grant) {
		a.discard = func(ctx context.Context, o store.Outcome) error {
			err := a.sound.Discard(ctx, o)
			if err != nil && s.Forget(ctx, g.Lease) == nil {
				next, _ := s.Reserve(ctx, c)
				_ = s.Complete(ctx, next.Lease, o)
			}
			return err
		}
	}),
}, {
	name: "begin puts an invalid claim right",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			c.Lease, c.Meta = 0, nil
			return s.Begin(ctx, c)
		}
	},
}, {
	name: "invalid outcome is put right",
	defect: settlesBy(func(ctx context.Context, o store.Outcome, _ store.Claim, end settleFunc) error {
		o.Retention = max(o.Retention, 0)
		return end(ctx, o)
	}),
}, {
	name: "invalid outcome leaves the transaction open",
	defect: settlesBy(func(ctx context.Context, o store.Outcome, _ store.Claim, end settleFunc) error {
		if err := o.Validate(); err != nil {
			return err
		}
		return end(ctx, o)
	}),
}, {
	name: "ended context begins",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			return s.Begin(context.WithoutCancel(ctx), c)
		}
	},
}, {
	name: "transaction is begun and then the context looked at",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(context.WithoutCancel(ctx), c)
			if ctx.Err() != nil {
				return nil, store.Grant{}, ctx.Err()
			}
			return tx, g, err
		}
	},
}, {
	name: "transaction ends with begin's context",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if tx != nil {
				context.AfterFunc(ctx, func() { _ = tx.Rollback(context.WithoutCancel(ctx)) })
			}
			return tx, g, err
		}
	},
}, {
	name: "ended context settles",
	defect: settlesBy(func(ctx context.Context, o store.Outcome, _ store.Claim, end settleFunc) error {
		return end(context.WithoutCancel(ctx), o)
	}),
}, {
	name: "ended context leaves the transaction open",
	defect: settlesBy(func(ctx context.Context, o store.Outcome, _ store.Claim, end settleFunc) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return end(ctx, o)
	}),
}, {
	name: "rollback under an ended context does nothing",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.rollback = func(ctx context.Context) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return a.sound.Rollback(ctx)
		}
	}),
}}

// pause lets every other goroutine of a bubble go on.
func pause(ctx context.Context) {
	select {
	case <-time.After(poll):
	case <-ctx.Done():
	}
}

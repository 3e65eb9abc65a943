package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
)

type ledgerTx = store.Tx[*ledger.Tx]

var txBeginMutants = []txMutant{{
	name: "begin shows the claim's meta",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if g.Verdict == store.Acquired {
				g.Record.Meta = c.Meta
			}
			return tx, g, err
		}
	},
}, {
	name: "claim's lease stretches the retention",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			if c.Validate() == nil {
				c.Retention = max(c.Retention, c.Lease)
			}
			return s.Begin(ctx, c)
		}
	},
}, {
	name: "failed record returns complete to begin",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if g.Verdict == store.Failed {
				g.Verdict = store.Complete
			}
			return tx, g, err
		}
	},
}, {
	name: "replay moves the expiry",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if r := g.Record; g.Verdict == store.Failed && r.ExpiresAt.Sub(r.ReadAt) < c.Retention {
				_ = s.Forget(ctx, r.Lease())
				again, err := s.Reserve(ctx,
					store.Claim{ID: c.ID, Fingerprint: c.Fingerprint, Retention: c.Retention, Meta: r.Meta})
				if err != nil {
					return nil, store.Grant{}, err
				}
				_ = s.Complete(ctx, again.Lease, store.Outcome{Failed: true, Result: r.Result})
			}
			return tx, g, err
		}
	},
}, {
	name: "transaction takes over a live lease",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if g.Verdict == store.InFlight && g.Record.LeaseLeft() > 0 {
				_ = s.Extend(ctx, g.Record.Lease(), 0, nil)
				return s.Begin(ctx, c)
			}
			return tx, g, err
		}
	},
}, {
	name: "mismatch without a live lease is taken over by begin",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if r := g.Record; g.Verdict == store.Mismatch && r.State == store.StatePending && r.LeaseLeft() == 0 {
				c.Fingerprint = r.Fingerprint
				return s.Begin(ctx, c)
			}
			return tx, g, err
		}
	},
}, {
	name: "no transaction is a nil in an interface",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if g.Verdict == store.Mismatch {
				return (*closedTx)(nil), g, err
			}
			return tx, g, err
		}
	},
}, {
	name: "take-over is reported as new",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			before, _ := s.Find(ctx, c.ID)
			tx, g, err := s.Begin(ctx, c)
			if g.Verdict == store.TakenOver && !before.LeaseUntil.IsZero() {
				g.Verdict = store.Acquired
			}
			return tx, g, err
		}
	},
}, {
	name: "take-over hides the meta",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if g.Verdict == store.TakenOver {
				g.Record.Meta = nil
			}
			return tx, g, err
		}
	},
}, {
	name: "take-over keeps the expiry",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			if r, err := s.Find(ctx, c.ID); err == nil && c.Validate() == nil {
				c.Retention = r.ExpiresAt.Sub(r.ReadAt)
			}
			return s.Begin(ctx, c)
		}
	},
}, {
	name: "discard leaves a taken-over record",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, g store.Grant) {
		a.discard = func(ctx context.Context, o store.Outcome) error {
			if g.Verdict == store.TakenOver && o.Failed {
				return a.sound.Rollback(ctx)
			}
			return a.sound.Discard(ctx, o)
		}
	}),
}, {
	name: "rollback keeps the take-over",
	defect: altered(func(a *alteredTx, s *ledger.Store, c store.Claim, g store.Grant) {
		a.rollback = func(ctx context.Context) error {
			open := a.sound.Tx().Add("") == nil
			err := a.sound.Rollback(ctx)
			if g.Verdict == store.TakenOver && open {
				c.Lease = 0
				_, _ = s.Reserve(ctx, c)
			}
			return err
		}
	}),
}, {
	name: "payload outlives its record",
	defect: func(b *brokenTx, s *ledger.Store) {
		var mu sync.Mutex
		last := map[store.ID]store.Fingerprint{}
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			mu.Lock()
			defer mu.Unlock()
			last[c.ID] = c.Fingerprint
			return s.Reserve(ctx, c)
		}
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			mu.Lock()
			fp, ok := last[c.ID]
			mu.Unlock()
			if _, err := s.Find(ctx, c.ID); errors.Is(err, store.ErrNotFound) && ok && fp != c.Fingerprint {
				return nil, store.Grant{Verdict: store.Mismatch, Record: store.Record{ID: c.ID}}, nil
			}
			return s.Begin(ctx, c)
		}
	},
}}

// closedTx is a value that an engine might return if it has no transaction.
type closedTx struct{ ledgerTx }

func (*closedTx) Rollback(context.Context) error { return nil }

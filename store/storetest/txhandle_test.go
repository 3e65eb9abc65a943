package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
)

func soundTx(*brokenTx, *ledger.Store) {}

var txHandleMutants = []txMutant{{
	name: "check, then begin",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			if _, err := s.Find(ctx, c.ID); !errors.Is(err, store.ErrNotFound) || b.isHeld(c) {
				return s.Begin(ctx, c)
			}
			// In virtual time every racer gets here before the first of them goes on.
			pause(ctx)
			return b.beginOver(ctx, c)
		}
	},
}, {
	name: "check, then take over in a transaction",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			r, err := s.Find(ctx, c.ID)
			if err != nil || r.State != store.StatePending || r.LeaseLeft() > 0 || r.Fingerprint != c.Fingerprint ||
				b.isHeld(c) {
				return s.Begin(ctx, c)
			}
			pause(ctx)
			return b.beginOver(ctx, c)
		}
	},
}, {
	name: "racer gets no result",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if c.ID.Key == "k0" {
				g.Record.Result = nil
			}
			return tx, g, err
		}
	},
}, {
	name: "begin fails where many are open",
	defect: func(b *brokenTx, s *ledger.Store) {
		var failed atomic.Bool
		var begun atomic.Int64
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			b.mu.Lock()
			open := len(b.open)
			b.mu.Unlock()
			if open > 8 {
				failed.Store(true)
				return nil, store.Grant{}, fmt.Errorf("%d transactions are open: %w", open, store.ErrUnavailable)
			}
			tx, g, err := s.Begin(ctx, c)
			if tx == nil {
				return nil, g, err
			}
			begun.Add(1)
			a := &alteredTx{sound: tx}
			a.commit = func(ctx context.Context, o store.Outcome) error {
				pause(ctx)
				for range 500 { // a busy machine may begin few at a time
					if failed.Load() || begun.Load() < 8 {
						break
					}
					pause(ctx)
				}
				return tx.Commit(ctx, o)
			}
			return a, g, err
		}
	},
}, {
	name: "handle has a separate engine",
	beside: func(*testing.T, store.Store) store.Store {
		return newBrokenTx(ledger.New(), soundTx)
	},
}, {
	name: "handle does not know the IDs that others hold",
	beside: func(_ *testing.T, first store.Store) store.Store {
		return newBrokenTx(first.(*brokenTx).Store, func(b *brokenTx, s *ledger.Store) {
			b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
				for {
					tx, g, err := s.Begin(ctx, c)
					if err != nil || g.Record.Fence > 0 || g.Verdict == store.Mismatch {
						return tx, g, err
					}
					pause(ctx)
				}
			}
		})
	},
}, {
	name: "handle reads an old snapshot",
	beside: func(_ *testing.T, first store.Store) store.Store {
		return newBrokenTx(first.(*brokenTx).Store, func(b *brokenTx, s *ledger.Store) {
			b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
				r, err := s.Find(ctx, id)
				r.Result = nil
				return r, err
			}
		})
	},
}, {
	name: "transactions are not durable",
	reopen: func(*testing.T, store.Store) store.Store {
		return newBrokenTx(ledger.New(), soundTx)
	},
}, {
	name: "effects are not durable",
	reopen: func(t *testing.T, st store.Store) store.Store {
		return newBrokenTx(ledger.New(), func(b *brokenTx, _ *ledger.Store) {
			s := st.(*brokenTx).Store
			b.begin, b.find = s.Begin, s.Find
		})
	},
}}

func (b *brokenTx) isHeld(c store.Claim) bool {
	_, held := b.held(c.ID)
	return held
}

// beginOver begins like a caller that has found no holder, and does not read again.
func (b *brokenTx) beginOver(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
	for {
		tx, g, err := b.Store.Begin(ctx, c)
		switch {
		case err != nil || g.Verdict.Owned() || g.Verdict == store.Mismatch:
			return tx, g, err
		case g.Verdict == store.InFlight:
			pause(ctx)
		default:
			_ = b.Forget(ctx, g.Record.Lease())
		}
	}
}

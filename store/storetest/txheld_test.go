package storetest

import (
	"context"
	"iter"
	"sync"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
)

var txHeldMutants = []txMutant{{
	name: "begin waits for the transaction of its id",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			for {
				tx, g, err := s.Begin(ctx, c)
				if g.Verdict != store.InFlight || g.Record.Fence > 0 {
					return tx, g, err
				}
				pause(ctx)
			}
		}
	},
}, {
	name: "other payload waits for the transaction of its id",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			for {
				g, held := b.held(c.ID)
				if !held || g.Record.Fingerprint == c.Fingerprint || ctx.Err() != nil {
					return s.Begin(ctx, c)
				}
				pause(ctx)
			}
		}
	},
}, {
	name: "rollback lets go of its id late",
	defect: func(b *brokenTx, s *ledger.Store) {
		late := map[store.ID]ledgerTx{}
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			b.mu.Lock()
			defer b.mu.Unlock()
			if last := late[c.ID]; last != nil && tx == nil {
				delete(late, c.ID)
				_ = last.Rollback(ctx)
			}
			if tx == nil {
				return nil, g, err
			}
			return &alteredTx{sound: tx, rollback: func(context.Context) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				late[c.ID] = tx
				return nil
			}}, g, err
		}
	},
}, {
	name:   "one transaction at a time",
	ledger: ledger.NewSingleWriter,
}, {
	name:   "transaction beside the single writer's",
	single: true,
	ledger: ledger.New,
}, {
	name:   "begin gives up on the single writer",
	single: true,
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			brief, cancel := context.WithTimeout(ctx, short/8)
			defer cancel()
			return s.Begin(brief, c)
		}
	},
}, {
	name: "reserve owns a held id",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.InFlight && g.Record.Fence == 0 {
				g.Verdict = store.Acquired
			}
			return g, err
		}
	},
}, {
	name: "find shows uncommitted records",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			if g, held := b.held(id); held {
				return g.Record, nil
			}
			return s.Find(ctx, id)
		}
	},
}, {
	name: "list shows uncommitted records",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for r, err := range s.Pending(ctx, scope) {
					if !yield(r, err) {
						return
					}
				}
				if g, held := b.held(unleased("new").ID); held {
					yield(g.Record, nil)
				}
			}
		}
	},
}, {
	name: "list leaves out taken-over records",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for r, err := range s.Pending(ctx, scope) {
					if _, held := b.held(r.ID); !held && !yield(r, err) {
						return
					}
				}
			}
		}
	},
}, {
	name: "purge takes the record from under a transaction",
	defect: func(b *brokenTx, s *ledger.Store) {
		var mu sync.Mutex
		purged := map[store.Lease]bool{}
		b.begin = func(ctx context.Context, c store.Claim) (ledgerTx, store.Grant, error) {
			tx, g, err := s.Begin(ctx, c)
			if tx == nil {
				return nil, g, err
			}
			a := &alteredTx{sound: tx}
			a.commit = func(ctx context.Context, o store.Outcome) error {
				err := tx.Commit(ctx, o)
				mu.Lock()
				defer mu.Unlock()
				if purged[g.Lease] {
					_ = s.Forget(ctx, g.Lease)
				}
				return err
			}
			return a, g, err
		}
		b.purge = func(ctx context.Context, limit int) (int, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			for _, g := range b.open {
				purged[g.Lease] = true
			}
			return s.Purge(ctx, limit)
		}
	},
}, {
	name: "purge waits for transactions",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.purge = func(ctx context.Context, limit int) (int, error) {
			for {
				b.mu.Lock()
				open := len(b.open)
				b.mu.Unlock()
				if open == 0 || ctx.Err() != nil {
					return s.Purge(ctx, limit)
				}
				pause(ctx)
			}
		}
	},
}, {
	name: "wait is not woken by a transaction",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.wait = func(ctx context.Context, id store.ID, fence uint64) error {
			if err := s.Wait(ctx, id, fence); err != nil {
				return err
			}
			if r, err := s.Find(ctx, id); err == nil && r.Fence != fence {
				<-ctx.Done()
			}
			return ctx.Err()
		}
	},
}}

package storetest

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
)

var txSettleMutants = []txMutant{{
	name: "commit keeps the record alone",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.commit = a.sound.Discard
	}),
}, {
	name: "commit keeps the effect alone",
	defect: altered(func(a *alteredTx, s *ledger.Store, _ store.Claim, g store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error {
			if err := a.sound.Commit(ctx, o); err != nil {
				return err
			}
			return s.Forget(ctx, g.Lease)
		}
	}),
}, {
	name: "failed outcome undoes its effect",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error {
			if o.Failed {
				return a.sound.Discard(ctx, o)
			}
			return a.sound.Commit(ctx, o)
		}
	}),
}, {
	name: "rollback keeps the record",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, g store.Grant) {
		a.rollback = func(ctx context.Context) error {
			if g.Verdict == store.Acquired && a.sound.Tx().Add("") == nil {
				return a.sound.Discard(ctx, store.Outcome{Failed: true})
			}
			return a.sound.Rollback(ctx)
		}
	}),
}, {
	name: "rollback keeps the effect",
	defect: altered(func(a *alteredTx, s *ledger.Store, _ store.Claim, g store.Grant) {
		a.rollback = func(ctx context.Context) error {
			if g.Verdict != store.Acquired || a.sound.Commit(ctx, store.Outcome{}) != nil {
				return a.sound.Rollback(ctx)
			}
			return s.Forget(ctx, g.Lease)
		}
	}),
}, {
	name: "discard keeps the effect",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.discard = func(ctx context.Context, o store.Outcome) error {
			if a.sound.Tx().Add("") == nil {
				return a.sound.Commit(ctx, o)
			}
			return a.sound.Discard(ctx, o)
		}
	}),
}, {
	name: "discard needs a sound transaction",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.discard = func(ctx context.Context, o store.Outcome) error {
			if a.sound.Tx().Add("") != nil {
				return a.sound.Commit(ctx, o)
			}
			return a.sound.Discard(ctx, o)
		}
	}),
}, {
	name: "commit of a spoilt transaction keeps the record",
	defect: altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, _ store.Grant) {
		a.commit = func(ctx context.Context, o store.Outcome) error {
			if a.sound.Tx().Add("") != nil {
				return a.sound.Discard(ctx, o)
			}
			return a.sound.Commit(ctx, o)
		}
	}),
}, {
	name: "empty result becomes none",
	defect: settlesBy(func(ctx context.Context, o store.Outcome, _ store.Claim, end settleFunc) error {
		if len(o.Result) == 0 {
			o.Result = nil
		}
		return end(ctx, o)
	}),
}, {
	name: "result is the caller's buffer",
	defect: func(b *brokenTx, s *ledger.Store) {
		var mu sync.Mutex
		kept := map[store.ID][]byte{}
		settlesBy(func(ctx context.Context, o store.Outcome, c store.Claim, end settleFunc) error {
			mu.Lock()
			defer mu.Unlock()
			kept[c.ID] = o.Result
			return end(ctx, o)
		})(b, s)
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if result, ok := kept[id]; ok && err == nil && len(result) == len(r.Result) {
				r.Result = result
			}
			return r, err
		}
	},
}, {
	name: "retention is counted from the commit",
	defect: settlesBy(func(ctx context.Context, o store.Outcome, c store.Claim, end settleFunc) error {
		if o.Retention == 0 {
			o.Retention = c.Retention
		}
		return end(ctx, o)
	}),
}, {
	name: "record of an open transaction does not expire",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.begin = func(ctx context.Context, c store.Claim) (store.Tx[*ledger.Tx], store.Grant, error) {
			if c.Retention == short {
				c.Retention = long
			}
			return s.Begin(ctx, c)
		}
	},
}, {
	name: "transaction's outcome has no retention",
	defect: settlesBy(func(ctx context.Context, o store.Outcome, _ store.Claim, end settleFunc) error {
		o.Retention = min(o.Retention, 0)
		return end(ctx, o)
	}),
}, {
	name: "purge leaves records that transactions settled",
	defect: func(b *brokenTx, s *ledger.Store) {
		var mu sync.Mutex
		settled := false
		settlesBy(func(ctx context.Context, o store.Outcome, _ store.Claim, end settleFunc) error {
			mu.Lock()
			defer mu.Unlock()
			settled = true
			return end(ctx, o)
		})(b, s)
		b.purge = func(ctx context.Context, limit int) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if settled {
				return 0, nil
			}
			return s.Purge(ctx, limit)
		}
	},
}, {
	name:   "fence of a rollback is given out again",
	defect: reusesFences,
}, {
	name: "lease of a rolled back transaction is good",
	defect: func(b *brokenTx, s *ledger.Store) {
		var mu sync.Mutex
		over := map[store.Lease]bool{}
		altered(func(a *alteredTx, _ *ledger.Store, _ store.Claim, g store.Grant) {
			a.rollback = func(ctx context.Context) error {
				mu.Lock()
				over[g.Lease] = true
				mu.Unlock()
				return a.sound.Rollback(ctx)
			}
		})(b, s)
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			mu.Lock()
			isOver := over[l]
			mu.Unlock()
			if r, err := s.Find(ctx, l.ID); err == nil && isOver {
				l = r.Lease()
			}
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name: "stale owner gets a success",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			err := s.Complete(ctx, l, o)
			if r, find := s.Find(ctx, l.ID); find == nil && r.State != store.StatePending {
				return nil
			}
			return err
		}
	},
}, {
	name: "complete is lost before the transaction is over",
	defect: func(b *brokenTx, s *ledger.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if _, held := b.held(l.ID); held {
				return store.ErrLost
			}
			return s.Complete(ctx, l, o)
		}
	},
}}

// reusesFences shows fences of which a rollback takes the last one back.
func reusesFences(b *brokenTx, s *ledger.Store) {
	var (
		mu    sync.Mutex
		last  uint64
		shown = map[uint64]uint64{}
		own   = map[uint64]uint64{}
	)
	show := func(g store.Grant) store.Grant {
		mu.Lock()
		defer mu.Unlock()
		if g.Verdict.Owned() {
			last++
			shown[g.Lease.Fence], own[last] = last, g.Lease.Fence
			g.Lease.Fence = last
		}
		g.Record.Fence = shown[g.Record.Fence]
		return g
	}
	b.begin = func(ctx context.Context, c store.Claim) (store.Tx[*ledger.Tx], store.Grant, error) {
		tx, g, err := s.Begin(ctx, c)
		g = show(g)
		if tx == nil {
			return nil, g, err
		}
		a := &alteredTx{sound: tx}
		a.rollback = func(ctx context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if last == g.Lease.Fence && a.sound.Tx().Add("") == nil {
				last--
			}
			return a.sound.Rollback(ctx)
		}
		return a, g, err
	}
	b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
		g, err := s.Reserve(ctx, c)
		return show(g), err
	}
	b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
		r, err := s.Find(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		r.Fence = shown[r.Fence]
		return r, err
	}
	lease := func(l store.Lease) store.Lease {
		mu.Lock()
		defer mu.Unlock()
		l.Fence = own[l.Fence]
		return l
	}
	b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
		return s.Extend(ctx, lease(l), d, meta)
	}
	b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
		return s.Complete(ctx, lease(l), o)
	}
	b.release = func(ctx context.Context, l store.Lease) error { return s.Release(ctx, lease(l)) }
	b.wait = func(ctx context.Context, id store.ID, fence uint64) error {
		return s.Wait(ctx, id, lease(store.Lease{ID: id, Fence: fence}).Fence)
	}
	b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			for r, err := range s.Pending(ctx, scope) {
				if r, _ = b.find(ctx, r.ID); !yield(r, err) {
					return
				}
			}
		}
	}
}

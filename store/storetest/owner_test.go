package storetest

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var ownerMutants = []mutant{{
	name:   "owner is not kept",
	defect: ownersBecome(func(string) string { return "" }),
}, {
	name:   "owner is cut at 32 bytes",
	defect: ownersBecome(func(owner string) string { return owner[:min(len(owner), 32)] }),
}, {
	name: "owner is text",
	defect: ownersBecome(func(owner string) string {
		return string([]rune(owner))
	}),
}, {
	name: "settled record keeps its owner",
	defect: func(b *broken, s *memstore.Store) {
		var owners sync.Map
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict.Owned() {
				owners.Store(g.Lease, c.Owner)
			}
			return g, err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if owner, ok := owners.Load(r.Lease()); ok {
				r.Owner = owner.(string)
			}
			return r, err
		}
	},
}, {
	name: "take-over keeps the first owner",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if r, err := s.Find(ctx, c.ID); err == nil && r.State == store.StatePending &&
				len(c.Owner) <= store.MaxOwner {
				c.Owner = r.Owner
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "take-over without an owner keeps the last one",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if r, err := s.Find(ctx, c.ID); err == nil && r.State == store.StatePending && c.Owner == "" {
				c.Owner = r.Owner
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "extend drops the owner",
	defect: func(b *broken, s *memstore.Store) {
		var extended sync.Map
		b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
			err := s.Extend(ctx, l, d, meta)
			if err == nil {
				extended.Store(l, true)
			}
			return err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if _, ok := extended.Load(r.Lease()); ok {
				r.Owner = ""
			}
			return r, err
		}
	},
}, {
	name: "in flight hides the owner",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.InFlight {
				g.Record.Owner = ""
			}
			return g, err
		}
	},
}, {
	name: "too long an owner is cut",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			c.Owner = c.Owner[:min(len(c.Owner), store.MaxOwner)]
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "list leaves the owner out",
	defect: func(b *broken, s *memstore.Store) {
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for r, err := range s.Pending(ctx, scope) {
					if r.Owner = ""; !yield(r, err) {
						return
					}
				}
			}
		}
	},
}, {
	name: "take-over is created anew",
	defect: func(b *broken, s *memstore.Store) {
		var taken sync.Map
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.TakenOver {
				g.Record.CreatedAt = g.Record.ReadAt
				taken.Store(g.Lease, g.Record.ReadAt)
			}
			return g, err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if at, ok := taken.Load(r.Lease()); ok {
				r.CreatedAt = at.(time.Time)
			}
			return r, err
		}
	},
}}

// ownersBecome changes the owner that readers of a record see.
func ownersBecome(f func(owner string) string) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			g.Record.Owner = f(g.Record.Owner)
			return g, err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			r.Owner = f(r.Owner)
			return r, err
		}
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for r, err := range s.Pending(ctx, scope) {
					if r.Owner = f(r.Owner); !yield(r, err) {
						return
					}
				}
			}
		}
	}
}

package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func sound(*broken, *memstore.Store) {}

var handleMutants = []mutant{{
	name:   "handle judges leases by its own clock",
	defect: sound,
	beside: func(_ *testing.T, first store.Store) store.Store {
		return newBroken(func(b *broken, _ *memstore.Store) {
			wrap(b, first)
			b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
				g, err := first.Reserve(ctx, c)
				if ahead := time.Now().Add(3 * long); g.Verdict == store.InFlight && g.Record.LeaseUntil.Before(ahead) {
					_ = first.Extend(ctx, g.Record.Lease(), 0, nil)
					return first.Reserve(ctx, c)
				}
				return g, err
			}
		})
	},
}, {
	name:   "handle has a separate store",
	defect: sound,
	beside: func(*testing.T, store.Store) store.Store { return newBroken(sound) },
}, {
	name:   "handle reads its cache",
	defect: sound,
	beside: func(_ *testing.T, first store.Store) store.Store {
		return newBroken(func(b *broken, s *memstore.Store) {
			wrap(b, first)
			b.find = s.Find
		})
	},
}, {
	name:   "nothing is durable",
	defect: sound,
	reopen: func(*testing.T, store.Store) store.Store { return newBroken(sound) },
}, {
	name:   "restart drops leases",
	defect: sound,
	reopen: func(t *testing.T, st store.Store) store.Store {
		for r := range st.(store.Lister).Pending(t.Context(), "") {
			_ = st.Extend(t.Context(), r.Lease(), 0, nil)
		}
		return st
	},
}, {
	name: "release is not durable",
	defect: func(b *broken, s *memstore.Store) {
		b.release = func(ctx context.Context, l store.Lease) error {
			if err := s.Release(ctx, l); err != nil {
				return err
			}
			b.undone = append(b.undone, l.ID)
			return nil
		}
	},
	reopen: func(t *testing.T, st store.Store) store.Store {
		for _, id := range st.(*broken).undone {
			c := leased("")
			c.ID = id
			_, _ = st.Reserve(t.Context(), c)
		}
		return st
	},
}, {
	name:   "restart makes records last",
	defect: sound,
	reopen: func(t *testing.T, st store.Store) store.Store {
		for r := range st.(store.Lister).Pending(t.Context(), "") {
			if r.LeaseUntil.IsZero() {
				_, _ = st.Reserve(t.Context(), store.Claim{ID: r.ID, Fingerprint: r.Fingerprint, Retention: day})
			}
		}
		return st
	},
}}

// wrap makes b another handle on first.
func wrap(b *broken, first store.Store) {
	b.reserve, b.extend, b.complete, b.release = first.Reserve, first.Extend, first.Complete, first.Release
	b.find, b.purge = first.Find, first.Purge
}

package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var idMutants = []mutant{
	{name: "scope is ignored", defect: idsBecome(func(id store.ID) store.ID { return store.ID{Key: id.Key} })},
	{name: "scope and key are joined by a slash", defect: idsBecome(func(id store.ID) store.ID {
		return store.ID{Key: id.Scope + "/" + id.Key}
	})},
	{name: "keys ignore upper and lower case", defect: idsBecome(func(id store.ID) store.ID {
		return store.ID{Scope: id.Scope, Key: strings.ToLower(id.Key)}
	})},
	{name: "keys are trimmed", defect: idsBecome(func(id store.ID) store.ID {
		if trimmed := strings.TrimSpace(id.Key); trimmed != "" {
			id.Key = trimmed
		}
		return id
	})},
	{name: "keys are cut at 255 bytes", defect: idsBecome(func(id store.ID) store.ID {
		return store.ID{Scope: id.Scope, Key: id.Key[:min(len(id.Key), 255)]}
	})},
	{name: "too long a key is cut", defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			c.ID.Key = c.ID.Key[:min(len(c.ID.Key), store.MaxKey)]
			return s.Reserve(ctx, c)
		}
	}},
	{name: "find makes a record", defect: func(b *broken, s *memstore.Store) {
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if errors.Is(err, store.ErrNotFound) {
				_, _ = s.Reserve(ctx, store.Claim{ID: id, Retention: long})
			}
			return r, err
		}
	}},
}

// idsBecome keeps each ID's record under another ID, and shows the first ID that was kept there.
func idsBecome(f func(store.ID) store.ID) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		inner := func(id store.ID) store.ID {
			if id.Validate() != nil {
				return id
			}
			return f(id)
		}
		var names sync.Map
		own := func(l store.Lease) store.Lease { return store.Lease{ID: inner(l.ID), Fence: l.Fence} }
		outer := func(r store.Record) store.Record {
			if id, ok := names.Load(r.ID); ok {
				r.ID = id.(store.ID)
			}
			return r
		}
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			id := c.ID
			c.ID = inner(id)
			names.LoadOrStore(c.ID, id)
			g, err := s.Reserve(ctx, c)
			g.Record = outer(g.Record)
			if g.Verdict.Owned() {
				g.Lease.ID = id
			}
			return g, err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, inner(id))
			return outer(r), err
		}
		b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
			return s.Extend(ctx, own(l), d, meta)
		}
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			return s.Complete(ctx, own(l), o)
		}
		b.release = func(ctx context.Context, l store.Lease) error { return s.Release(ctx, own(l)) }
		b.forget = func(ctx context.Context, l store.Lease) error { return s.Forget(ctx, own(l)) }
		b.wait = func(ctx context.Context, id store.ID, fence uint64) error {
			return s.Wait(ctx, inner(id), fence)
		}
		b.pending = filtered(s, "", outer)
	}
}

package memstore

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/redo-go/redo/store"
)

// Pending implements store.Lister. It yields the records that are pending when the loop begins, as they are then.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		list, err := s.listPending(ctx, scope)
		for _, l := range list {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(detach(l.rec), nil) {
				return
			}
		}
		if err != nil {
			yield(store.Record{}, err)
		}
	}
}

func (s *Store) listPending(ctx context.Context, scope string) (list []entry, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i := range s.shards {
		if list, err = s.appendPending(list, &s.shards[i], scope); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(a.rec.CreatedAt.Compare(b.rec.CreatedAt), cmp.Compare(a.born, b.born))
	})
	return list, nil
}

func (s *Store) appendPending(list []entry, sh *shard, scope string) ([]entry, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		return nil, errClosed
	}
	now := s.now()
	for e := range sh.pending {
		if (scope == "" || e.rec.ID.Scope == scope) && !e.rec.Expired(now) {
			list = append(list, entry{rec: e.read(now), born: e.born})
		}
	}
	return list, nil
}

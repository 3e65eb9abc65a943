package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// A damage gives a memstore records that can't be read. Its functions may be replaced, to give it a defect.
type damage struct {
	mu  sync.Mutex
	ids map[store.ID]bool

	reserve func(context.Context, store.Claim) (store.Grant, error)
	find    func(context.Context, store.ID) (store.Record, error)
	list    func(store.ID) (r store.Record, err error, more bool) // the result of Pending, and whether it goes on
	drop    func(context.Context, store.ID) error
}

func newDamage(s *memstore.Store) *damage {
	d := &damage{ids: map[store.ID]bool{}}
	d.reserve = func(_ context.Context, c store.Claim) (store.Grant, error) { return store.Grant{}, damaged(c.ID) }
	d.find = func(_ context.Context, id store.ID) (store.Record, error) { return store.Record{}, damaged(id) }
	d.list = func(id store.ID) (store.Record, error, bool) { return store.Record{ID: id}, damaged(id), true }
	d.drop = func(ctx context.Context, id store.ID) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := readable(ctx, s, id); !d.ids[id] {
			return err
		}
		delete(d.ids, id)
		return remove(ctx, s, id)
	}
	return d
}

func damaged(id store.ID) error {
	return fmt.Errorf("the record of %v: %w: %w", id, store.ErrDamaged, store.ErrUnavailable)
}

// readable is the error of a Drop of a record that is not damaged.
func readable(ctx context.Context, s store.Store, id store.ID) error {
	if err := errors.Join(ctx.Err(), id.Validate()); err != nil {
		return err
	}
	if _, err := s.Find(ctx, id); err != nil {
		return err
	}
	return store.ErrInvalid
}

func remove(ctx context.Context, s *memstore.Store, id store.ID) error {
	r, err := s.Find(ctx, id)
	switch {
	case err != nil:
		return err
	case r.State == store.StatePending:
		return s.Release(ctx, r.Lease())
	}
	return s.Forget(ctx, r.Lease())
}

func (d *damage) holds(id store.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids[id]
}

func damageRecord(_ *testing.T, st store.Store, id store.ID) store.Store {
	d := st.(*broken).damage
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids[id] = true
	return st
}

// among replaces the damaged records of a list.
func (d *damage) among(list iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range list {
			more := true
			if err == nil && d.holds(r.ID) {
				r, err, more = d.list(r.ID)
			}
			if err == nil && r.ID == (store.ID{}) {
				continue // left out
			}
			if !yield(r, err) || !more {
				return
			}
		}
	}
}

var damageMutants = []mutant{{
	name: "list ends at a damaged record",
	defect: func(b *broken, _ *memstore.Store) {
		b.damage.list = func(id store.ID) (store.Record, error, bool) {
			return store.Record{ID: id}, damaged(id), false
		}
	},
}, {
	name: "list ends at a damaged record without its name",
	defect: func(b *broken, _ *memstore.Store) {
		b.damage.list = func(id store.ID) (store.Record, error, bool) { return store.Record{}, damaged(id), false }
	},
}, {
	name: "list leaves damaged records out",
	defect: func(b *broken, _ *memstore.Store) {
		b.damage.list = func(store.ID) (store.Record, error, bool) { return store.Record{}, nil, true }
	},
}, {
	name: "list yields the rest of a damaged record",
	defect: func(b *broken, _ *memstore.Store) {
		b.damage.list = func(id store.ID) (store.Record, error, bool) {
			return store.Record{ID: id, State: store.StatePending}, damaged(id), true
		}
	},
}, {
	name: "damage has no kind",
	defect: func(b *broken, _ *memstore.Store) {
		b.damage.find = func(_ context.Context, id store.ID) (store.Record, error) {
			return store.Record{}, fmt.Errorf("the record of %v: %w", id, store.ErrUnavailable)
		}
	},
}, {
	name: "damage is not named",
	defect: func(b *broken, _ *memstore.Store) {
		b.damage.find = func(context.Context, store.ID) (store.Record, error) {
			return store.Record{}, errors.Join(store.ErrDamaged, store.ErrUnavailable)
		}
	},
}, {
	name: "damaged record is absent to find",
	defect: func(b *broken, _ *memstore.Store) {
		b.damage.find = func(context.Context, store.ID) (store.Record, error) {
			return store.Record{}, store.ErrNotFound
		}
	},
}, {
	name: "damaged record is acquired",
	defect: func(b *broken, s *memstore.Store) {
		b.damage.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if err := b.damage.drop(ctx, c.ID); err != nil {
				return store.Grant{}, err
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "drop removes nothing",
	defect: func(b *broken, _ *memstore.Store) {
		b.damage.drop = func(context.Context, store.ID) error { return nil }
	},
}, {
	name: "drop removes a readable record",
	defect: func(b *broken, s *memstore.Store) {
		sound := b.damage.drop
		b.damage.drop = func(ctx context.Context, id store.ID) error {
			if err := sound(ctx, id); !errors.Is(err, store.ErrInvalid) || id.Key == "" {
				return err
			}
			return remove(ctx, s, id)
		}
	},
}, {
	name: "check, then drop",
	defect: func(b *broken, s *memstore.Store) {
		sound := b.damage.drop
		b.damage.drop = func(ctx context.Context, id store.ID) error {
			if !b.damage.holds(id) {
				return sound(ctx, id)
			}
			// In virtual time every racer gets here before the first of them goes on.
			time.Sleep(time.Nanosecond)
			err := sound(ctx, id)
			if err != nil {
				_ = remove(ctx, s, id)
			}
			return nil
		}
	},
}}

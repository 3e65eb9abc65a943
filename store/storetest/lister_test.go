package storetest

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var listMutants = []mutant{{
	name: "list is by key",
	defect: listBecomes(func(list []store.Record) []store.Record {
		slices.SortFunc(list, func(a, b store.Record) int { return cmp.Compare(a.ID.Key, b.ID.Key) })
		return list
	}),
}, {
	name: "list is by fence",
	defect: listBecomes(func(list []store.Record) []store.Record {
		slices.SortFunc(list, func(a, b store.Record) int { return cmp.Compare(a.Fence, b.Fence) })
		return list
	}),
}, {
	name: "list leaves live leases out",
	defect: listBecomes(func(list []store.Record) []store.Record {
		return slices.DeleteFunc(list, func(r store.Record) bool { return r.LeaseLeft() > 0 })
	}),
}, {
	name: "list leaves the meta out",
	defect: listBecomes(func(list []store.Record) []store.Record {
		for i := range list {
			list[i].Meta = nil
		}
		return list
	}),
}, {
	name: "list is of every scope",
	defect: func(b *broken, s *memstore.Store) {
		b.pending = func(ctx context.Context, _ string) iter.Seq2[store.Record, error] { return s.Pending(ctx, "") }
	},
}, {
	name: "list is read on in the loop",
	defect: func(b *broken, s *memstore.Store) {
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				var list []store.Record
				for n := 0; ; n++ {
					if n < 4*racers { // a longer list is read to its end, which takes less time
						list = slices.Collect(records(s.Pending(ctx, scope)))
					}
					if n >= len(list) || !yield(list[n], nil) {
						break
					}
				}
				if err := ctx.Err(); err != nil {
					yield(store.Record{}, err)
				}
			}
		}
	},
}, {
	name: "list is made once",
	defect: func(b *broken, s *memstore.Store) {
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			list := slices.Collect(records(s.Pending(ctx, scope)))
			return func(yield func(store.Record, error) bool) {
				for _, r := range list {
					if !yield(r, nil) {
						return
					}
				}
				if err := ctx.Err(); err != nil {
					yield(store.Record{}, err)
				}
			}
		}
	},
}, {
	name: "list cut short looks whole",
	defect: func(b *broken, s *memstore.Store) {
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return s.Pending(context.WithoutCancel(ctx), scope)
		}
	},
}, {
	name: "check fails",
	defect: func(b *broken, _ *memstore.Store) {
		b.check = func(context.Context) error { return store.ErrUnavailable }
	},
}, {
	name: "failed record cannot be forgotten",
	defect: func(b *broken, s *memstore.Store) {
		b.forget = func(ctx context.Context, l store.Lease) error {
			if r, err := s.Find(ctx, l.ID); err == nil && r.State == store.StateFailed {
				return store.ErrLost
			}
			return s.Forget(ctx, l)
		}
	},
}, {
	name: "forget removes a pending record",
	defect: func(b *broken, s *memstore.Store) {
		b.forget = func(ctx context.Context, l store.Lease) error {
			if err := s.Forget(ctx, l); !errors.Is(err, store.ErrLost) {
				return err
			}
			return s.Release(ctx, l)
		}
	},
}, {
	name: "forget goes by the id",
	defect: func(b *broken, s *memstore.Store) {
		b.forget = func(ctx context.Context, l store.Lease) error {
			if r, err := s.Find(ctx, l.ID); err == nil {
				l = r.Lease()
			}
			return s.Forget(ctx, l)
		}
	},
}, {
	name: "wait is not woken by complete",
	defect: waitsOn(func(before, now store.Record, err error) bool {
		return err == nil && before.State == store.StatePending && now.State != store.StatePending
	}),
}, {
	name: "wait is not woken by release and expiry",
	defect: waitsOn(func(_, _ store.Record, err error) bool {
		return errors.Is(err, store.ErrNotFound)
	}),
}, {
	name:   "wait is not woken by take-over",
	defect: waitsOn(func(before, now store.Record, err error) bool { return err == nil && now.Fence != before.Fence }),
}, {
	name: "wait does not look at the fence",
	defect: func(b *broken, s *memstore.Store) {
		b.wait = func(ctx context.Context, id store.ID, fence uint64) error {
			if r, err := s.Find(ctx, id); err == nil {
				fence = r.Fence
			}
			return s.Wait(ctx, id, fence)
		}
	},
}, {
	name: "wait ends at the expiry that it saw first",
	defect: func(b *broken, s *memstore.Store) {
		b.wait = func(ctx context.Context, id store.ID, fence uint64) error {
			r, err := s.Find(ctx, id)
			if err != nil || r.ExpiresAt.IsZero() {
				return s.Wait(ctx, id, fence)
			}
			before, cancel := context.WithTimeout(ctx, r.ExpiresAt.Sub(r.ReadAt))
			defer cancel()
			if err := s.Wait(before, id, fence); ctx.Err() != nil {
				return err
			}
			return nil
		}
	},
}, {
	name: "wait gives up early",
	defect: func(b *broken, s *memstore.Store) {
		b.wait = func(ctx context.Context, id store.ID, fence uint64) error {
			early, cancel := context.WithTimeout(ctx, 3*short/2)
			defer cancel()
			if err := s.Wait(early, id, fence); ctx.Err() != nil {
				return err
			}
			return nil
		}
	},
}, {
	name: "wait reports no cancellation",
	defect: func(b *broken, s *memstore.Store) {
		b.wait = func(ctx context.Context, id store.ID, fence uint64) error {
			if err := s.Wait(ctx, id, fence); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
	},
}}

// waitsOn makes Wait sleep on when deaf reports its wake-up as one to miss.
func waitsOn(deaf func(before, now store.Record, err error) bool) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		b.wait = func(ctx context.Context, id store.ID, fence uint64) error {
			before, err := s.Find(ctx, id)
			if err != nil || before.State != store.StatePending || before.Fence != fence {
				return s.Wait(ctx, id, fence)
			}
			if err := s.Wait(ctx, id, fence); err != nil {
				return err
			}
			if now, err := s.Find(ctx, id); !deaf(before, now, err) {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}
}

func listBecomes(f func([]store.Record) []store.Record) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				if err := ctx.Err(); err != nil {
					yield(store.Record{}, err)
					return
				}
				for _, r := range f(slices.Collect(records(s.Pending(ctx, scope)))) {
					if !yield(r, nil) {
						return
					}
				}
			}
		}
	}
}

// filtered lists the scope that a record shows once outer has renamed it.
func filtered(
	s *memstore.Store, all string, outer func(store.Record) store.Record,
) func(context.Context, string) iter.Seq2[store.Record, error] {
	return func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			for r, err := range s.Pending(ctx, all) {
				if r = outer(r); err == nil && scope != "" && r.ID.Scope != scope {
					continue
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

func records(list iter.Seq2[store.Record, error]) iter.Seq[store.Record] {
	return func(yield func(store.Record) bool) {
		for r, err := range list {
			if err != nil || !yield(r) {
				return
			}
		}
	}
}

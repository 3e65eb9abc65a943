package storetest

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var fenceMutants = []mutant{
	{name: "fence starts again after release", defect: restartsFences("release")},
	{name: "fence starts again after forget", defect: restartsFences("forget")},
	{name: "fence starts again after expiry", defect: restartsFences("expiry")},
	{name: "fence starts again after purge", defect: restartsFences("purge")},
	{name: "fence stays over take-over", defect: restartsFences("take-over")},
}

// A refencer shows fences that start again at 1 where an ID's count was restarted.
type refencer struct {
	mu    sync.Mutex
	event string                    // the event that restarts the count
	known map[store.ID]store.Record // the last grant of the ID, under the store's own fence
	fresh map[store.ID]bool         // the next owner's count starts again
	base  map[store.ID]uint64       // the number that is taken off the ID's fences
}

func restartsFences(event string) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		f := &refencer{
			event: event, known: map[store.ID]store.Record{}, fresh: map[store.ID]bool{}, base: map[store.ID]uint64{},
		}
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			g, err := s.Reserve(ctx, c)
			if g.Verdict.Owned() {
				f.owned(c.ID, g)
				g.Lease.Fence -= f.base[c.ID]
			}
			g.Record.Fence -= f.base[c.ID]
			return g, err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			return f.shown(r), err
		}
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for r, err := range s.Pending(ctx, scope) {
					if !yield(f.shown(r), err) {
						return
					}
				}
			}
		}
		b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
			return s.Extend(ctx, f.own(l), d, meta)
		}
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			return s.Complete(ctx, f.own(l), o)
		}
		b.release = func(ctx context.Context, l store.Lease) error {
			return f.gone("release", l.ID, s.Release(ctx, f.own(l)))
		}
		b.forget = func(ctx context.Context, l store.Lease) error {
			return f.gone("forget", l.ID, s.Forget(ctx, f.own(l)))
		}
		b.wait = func(ctx context.Context, id store.ID, fence uint64) error {
			return s.Wait(ctx, id, f.own(store.Lease{ID: id, Fence: fence}).Fence)
		}
		b.purge = func(ctx context.Context, limit int) (int, error) {
			n, err := s.Purge(ctx, limit)
			f.mu.Lock()
			defer f.mu.Unlock()
			for id, r := range f.known {
				if n > 0 && event == "purge" && !time.Now().Before(r.ExpiresAt) {
					f.fresh[id] = true
				}
			}
			return n, err
		}
	}
}

// owned notes a new owner. An ID that was acquired before and neither released nor forgotten has expired.
func (f *refencer) owned(id store.ID, g store.Grant) {
	last, known := f.known[id]
	switch {
	case f.fresh[id], f.event == "expiry" && known && g.Verdict == store.Acquired:
		f.base[id] = g.Lease.Fence - 1
	case f.event == "take-over" && g.Verdict == store.TakenOver:
		f.base[id] += g.Lease.Fence - last.Fence
	}
	f.known[id] = g.Record
	delete(f.fresh, id)
}

func (f *refencer) gone(event string, id store.ID, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.known, id)
		f.fresh[id] = f.event == event
	}
	return err
}

func (f *refencer) shown(r store.Record) store.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Fence -= f.base[r.ID]
	return r
}

func (f *refencer) own(l store.Lease) store.Lease {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.Fence += f.base[l.ID]
	return l
}

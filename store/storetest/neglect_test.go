package storetest

import (
	"context"
	"errors"
	"iter"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// neglectMutants keep each rule in the usual case, and neglect it in a rarer one.
var neglectMutants = []mutant{{
	name: "fence of a record without a lease is not compared",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if r, err := s.Find(ctx, l.ID); err == nil && r.State == store.StatePending && r.LeaseUntil.IsZero() {
				l = r.Lease()
			}
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name: "fence is compared in 32 bits",
	defect: func(b *broken, s *memstore.Store) {
		b.release = func(ctx context.Context, l store.Lease) error {
			if r, err := s.Find(ctx, l.ID); err == nil && uint32(r.Fence) == uint32(l.Fence) {
				l = r.Lease()
			}
			return s.Release(ctx, l)
		}
	},
}, {
	name: "fingerprint's version is not compared",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if r, err := s.Find(ctx, c.ID); err == nil && slices.Equal(r.Fingerprint[1:], c.Fingerprint[1:]) {
				c.Fingerprint = r.Fingerprint
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "purge deletes a dead owner's record",
	defect: func(b *broken, s *memstore.Store) {
		b.purge = func(ctx context.Context, limit int) (int, error) {
			n, err := s.Purge(ctx, limit)
			for r := range s.Pending(ctx, "") {
				if !r.LeaseUntil.IsZero() && r.LeaseLeft() == 0 && n < limit && s.Release(ctx, r.Lease()) == nil {
					n++
				}
			}
			return n, err
		}
	},
}, {
	name: "purge deletes what expires within a second",
	defect: func(b *broken, s *memstore.Store) {
		b.purge = func(ctx context.Context, limit int) (int, error) {
			n, err := s.Purge(ctx, limit)
			for r := range s.Pending(ctx, "") {
				if !r.ExpiresAt.IsZero() && r.ExpiresAt.Sub(r.ReadAt) < time.Second && n < limit &&
					s.Release(ctx, r.Lease()) == nil {
					n++
				}
			}
			return n, err
		}
	},
}, {
	name: "failed record is never purged",
	defect: outcomesBecome(func(_ store.Record, o *store.Outcome) {
		if o.Failed && o.Retention != 0 {
			o.Retention = store.Forever
		}
	}),
}, {
	name: "outcome's retention is counted from the claim",
	defect: outcomesBecome(func(r store.Record, o *store.Outcome) {
		if o.Retention > 0 && o.Retention < store.Forever-1 {
			o.Retention = max(o.Retention-r.Age(), 1)
		}
	}),
}, {
	name: "outcome's retention does not end forever",
	defect: outcomesBecome(func(r store.Record, o *store.Outcome) {
		if r.ExpiresAt.IsZero() {
			o.Retention = 0
		}
	}),
}, {
	name: "take-over never shortens a retention",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if r, err := s.Find(ctx, c.ID); err == nil && r.State == store.StatePending && c.Retention > 0 {
				c.Retention = max(c.Retention, r.ExpiresAt.Sub(r.ReadAt))
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "take-over expires before its lease ends",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.TakenOver && c.Lease > c.Retention {
				g.Record.ExpiresAt = g.Record.ReadAt.Add(c.Retention)
			}
			return g, err
		}
	},
}, {
	name: "claim in flight prolongs the retention",
	defect: expiriesBecome(func(r store.Record, c store.Claim, v store.Verdict) time.Time {
		if at := r.ReadAt.Add(c.Retention); v == store.InFlight && at.After(r.ExpiresAt) {
			return at
		}
		return r.ExpiresAt
	}),
}, {
	name: "replay prolongs the retention",
	defect: expiriesBecome(func(r store.Record, c store.Claim, v store.Verdict) time.Time {
		if at := r.ReadAt.Add(c.Retention); v == store.Complete && at.After(r.ExpiresAt) {
			return at
		}
		return r.ExpiresAt
	}),
}, {
	name: "new record keeps an expired one's meta",
	defect: func(b *broken, s *memstore.Store) {
		var metas sync.Map
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			_, err := s.Find(ctx, c.ID)
			if old, ok := metas.LoadAndDelete(c.ID); ok && errors.Is(err, store.ErrNotFound) && c.Meta == nil {
				c.Meta = old.([]byte)
			}
			metas.Store(c.ID, c.Meta)
			return s.Reserve(ctx, c)
		}
		b.release = func(ctx context.Context, l store.Lease) error {
			metas.Delete(l.ID)
			return s.Release(ctx, l)
		}
	},
}, {
	name: "extend limits forever",
	defect: extensionsShow(func(r *store.Record) {
		if r.ExpiresAt.IsZero() {
			r.ExpiresAt = r.LeaseUntil
		}
	}),
}, {
	name:   "extend makes a record younger",
	defect: extensionsShow(func(r *store.Record) { r.CreatedAt = r.ReadAt }),
}, {
	name: "extend by zero writes no meta",
	defect: extensionsBecome(func(_ store.Record, d *time.Duration, meta *[]byte) {
		if *d == 0 {
			*meta = nil
		}
	}),
}, {
	name: "extend by zero ends the owner's right",
	defect: func(b *broken, s *memstore.Store) {
		var given sync.Map
		b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
			err := s.Extend(ctx, l, d, meta)
			if err == nil && d == 0 {
				given.Store(l, true)
			}
			return err
		}
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if _, ok := given.Load(l); ok {
				return store.ErrLost
			}
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name:   "result is cut at 1 MiB",
	defect: resultsBecome(func(result []byte) []byte { return result[:min(len(result), 1<<20)] }),
}, {
	name: "forget of an expired record succeeds",
	defect: func(b *broken, s *memstore.Store) {
		var expiring sync.Map
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if o.Retention == short {
				expiring.Store(l, true)
			}
			return s.Complete(ctx, l, o)
		}
		b.forget = func(ctx context.Context, l store.Lease) error {
			if _, ok := expiring.Load(l); ok {
				return nil
			}
			return s.Forget(ctx, l)
		}
	},
}, {
	name: "ended context forgets",
	defect: func(b *broken, s *memstore.Store) {
		b.forget = func(ctx context.Context, l store.Lease) error { return s.Forget(context.WithoutCancel(ctx), l) }
	},
}, {
	name: "wait is not woken by a failure",
	defect: waitsOn(func(_, now store.Record, err error) bool {
		return err == nil && now.State == store.StateFailed
	}),
}, {
	name:   "handle wakes its own waiters only",
	defect: sound,
	beside: func(_ *testing.T, first store.Store) store.Store {
		return newBroken(func(b *broken, _ *memstore.Store) {
			wrap(b, first)
			b.wait = func(ctx context.Context, _ store.ID, _ uint64) error {
				<-ctx.Done()
				return ctx.Err()
			}
		})
	},
}, {
	name: "list has what has expired",
	defect: func(b *broken, s *memstore.Store) {
		var mu sync.Mutex
		var last store.Record
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.Acquired && c.Retention == short {
				mu.Lock()
				last = g.Record
				mu.Unlock()
			}
			return g, err
		}
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for r, err := range s.Pending(ctx, scope) {
					if !yield(r, err) {
						return
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if ctx.Err() == nil && last.Fence != 0 {
					yield(last, nil)
				}
			}
		}
	},
}, {
	name: "scope of a list is a pattern",
	defect: func(b *broken, s *memstore.Store) {
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for r, err := range s.Pending(ctx, "") {
					matches, _ := path.Match(scope, r.ID.Scope)
					if (err != nil || scope == "" || matches) && !yield(r, err) {
						return
					}
				}
			}
		}
	},
}, {
	name: "list that is cut in the loop looks whole",
	defect: func(b *broken, s *memstore.Store) {
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				n := 0
				for r, err := range s.Pending(ctx, scope) {
					if err != nil && n > 0 || !yield(r, err) {
						return
					}
					n++
				}
			}
		}
	},
}, {
	name: "list has no lazy claim",
	defect: func(b *broken, s *memstore.Store) {
		var lazy sync.Map
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if c.Lazy {
				lazy.Store(g.Lease, true)
			}
			return g, err
		}
		b.pending = func(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for r, err := range s.Pending(ctx, scope) {
					if _, ok := lazy.Load(r.Lease()); !ok && !yield(r, err) {
						return
					}
				}
			}
		}
	},
}, {
	name: "second page of 1000 begins one late",
	defect: listBecomes(func(list []store.Record) []store.Record {
		if len(list) > 1000 {
			return slices.Delete(list, 1000, 1001)
		}
		return list
	}),
}}

// neglectFoundBy is foundBy for neglectMutants.
var neglectFoundBy = map[string][]string{
	"fence of a record without a lease is not compared": {"stale owner cannot complete"},
	"fence is compared in 32 bits":                      {"unknown lease is lost"},
	"fingerprint's version is not compared":             {"fingerprints are compared to the last byte"},
	"purge deletes a dead owner's record":               {"purge leaves what has not expired"},
	"purge deletes what expires within a second":        {"purge deletes nothing before its expiry"},
	"failed record is never purged": {
		"outcome's retention replaces the claim's",
		"purge deletes what has expired, at most limit at a time",
	},
	"outcome's retention is counted from the claim": {"outcome's retention replaces the claim's"},
	"outcome's retention does not end forever":      {"outcome's retention replaces the claim's"},
	"take-over never shortens a retention":          {"take-over counts retention anew"},
	"take-over expires before its lease ends":       {"lease keeps its record past the retention"},
	"claim in flight prolongs the retention":        {"live lease excludes"},
	"replay prolongs the retention":                 {"settled record answers with its result"},
	"new record keeps an expired one's meta":        {"expired record is absent at once"},
	"extend limits forever":                         {"extend never brings the expiry nearer"},
	"extend makes a record younger":                 {"extend moves the lease's end"},
	"extend by zero writes no meta": {
		"extend by zero gives the lease up",
		"pending record survives a restart with its lease",
	},
	"extend by zero ends the owner's right":    {"extend by zero gives the lease up"},
	"result is cut at 1 MiB":                   {"larger result is kept whole or refused"},
	"forget of an expired record succeeds":     {"forget goes by the fence"},
	"ended context forgets":                    {"ended context changes nothing"},
	"wait is not woken by a failure":           {"wait ends when the record is completed"},
	"handle wakes its own waiters only":        {"wait ends when another handle ends it"},
	"list has what has expired":                {"only what is pending is listed"},
	"scope of a list is a pattern":             {"list is of one scope, or of all"},
	"list that is cut in the loop looks whole": {"list whose context ends in the loop is whole, or ends with the error"},
	"list has no lazy claim":                   {"lazy claim is listed at once"},
	"second page of 1000 begins one late":      {"long list is whole"},
}

// outcomesBecome changes outcomes on their way in, knowing the record.
func outcomesBecome(f func(r store.Record, o *store.Outcome)) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if r, err := s.Find(ctx, l.ID); err == nil {
				f(r, &o)
			}
			return s.Complete(ctx, l, o)
		}
	}
}

// expiriesBecome changes the expiry that Find shows after a claim that was not granted.
func expiriesBecome(
	f func(r store.Record, c store.Claim, v store.Verdict) time.Time,
) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		var shown sync.Map
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if err == nil && !g.Verdict.Owned() && !g.Record.ExpiresAt.IsZero() && c.Retention != store.Forever {
				shown.Store(g.Record.Lease(), f(g.Record, c, g.Verdict))
			}
			return g, err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if at, ok := shown.Load(r.Lease()); ok {
				r.ExpiresAt = at.(time.Time)
			}
			return r, err
		}
	}
}

// extensionsShow changes what Find shows of a pending record that was extended.
func extensionsShow(f func(*store.Record)) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		var extended sync.Map
		b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
			err := s.Extend(ctx, l, d, meta)
			if err == nil && d > 0 {
				extended.Store(l, true)
			}
			return err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if _, ok := extended.Load(r.Lease()); ok && r.State == store.StatePending {
				f(&r)
			}
			return r, err
		}
	}
}

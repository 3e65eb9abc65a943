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

var timeMutants = []mutant{{
	name: "lease is as long as the retention",
	defect: claimsBecome(func(c *store.Claim) {
		if c.Lease > 0 && c.Retention != store.Forever {
			c.Lease = c.Retention
		}
	}),
}, {
	name: "record lives as long as its lease",
	defect: claimsBecome(func(c *store.Claim) {
		if c.Lease > 0 && c.Retention > 0 {
			c.Retention = min(c.Retention, c.Lease)
		}
	}),
}, {
	name: "expired record is replayed until it is purged",
	defect: func(b *broken, s *memstore.Store) {
		var settled sync.Map
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			err := s.Complete(ctx, l, o)
			if r, ferr := s.Find(ctx, l.ID); err == nil && ferr == nil {
				settled.Store(l.ID, r)
			}
			return err
		}
		b.forget = func(ctx context.Context, l store.Lease) error {
			settled.Delete(l.ID)
			return s.Forget(ctx, l)
		}
		b.purge = func(ctx context.Context, limit int) (int, error) {
			if ctx.Err() == nil {
				settled.Clear()
			}
			return s.Purge(ctx, limit)
		}
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if r, ok := settled.Load(c.ID); ok && g.Verdict == store.Acquired {
				return store.Grant{Verdict: store.Complete, Record: r.(store.Record)}, s.Release(ctx, g.Lease)
			}
			return g, err
		}
	},
}, {
	name: "expired record is completed",
	defect: func(b *broken, s *memstore.Store) {
		var pending sync.Map
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict.Owned() {
				pending.Store(g.Lease, g.Record)
			}
			return g, err
		}
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			err := s.Complete(ctx, l, o)
			r, ok := pending.Load(l)
			if ok && errors.Is(err, store.ErrLost) && !time.Now().Before(r.(store.Record).ExpiresAt) {
				return nil
			}
			return err
		}
	},
}, {
	name: "retention is over before the lease's end",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if c.Validate() == nil {
				c.Lease = min(c.Lease, c.Retention)
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "take-over keeps the first claim's expiry",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if r, err := s.Find(ctx, c.ID); err == nil && c.Retention > 0 && r.State == store.StatePending &&
				!r.ExpiresAt.IsZero() {
				c.Retention = max(r.ExpiresAt.Sub(r.ReadAt), 1)
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "forever is a year",
	defect: claimsBecome(func(c *store.Claim) {
		if c.Retention == store.Forever {
			c.Retention = 365 * day
		}
	}),
}, {
	name: "years beyond 2262 overflow",
	defect: claimsBecome(func(c *store.Claim) {
		if c.Retention > 230*365*day && c.Retention != store.Forever {
			c.Retention, c.Lease = 1, 0
		}
	}),
}, {
	name: "extend adds to the lease that is left",
	defect: extensionsBecome(func(r store.Record, d *time.Duration, _ *[]byte) {
		if *d > 0 && *d < 3*day {
			*d += r.LeaseLeft()
		}
	}),
}, {
	name: "extend by zero keeps the lease",
	defect: extensionsBecome(func(r store.Record, d *time.Duration, _ *[]byte) {
		if *d == 0 {
			*d = r.LeaseLeft()
		}
	}),
}, {
	name: "extend needs a live lease",
	defect: func(b *broken, s *memstore.Store) {
		b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
			if r, err := s.Find(ctx, l.ID); err == nil && r.LeaseLeft() == 0 {
				return store.ErrLost
			}
			return s.Extend(ctx, l, d, meta)
		}
	},
}, {
	name: "extend without a meta drops the meta",
	defect: extensionsBecome(func(_ store.Record, _ *time.Duration, meta *[]byte) {
		if *meta == nil {
			*meta = []byte{}
		}
	}),
}, {
	name: "extend with an empty meta keeps the meta",
	defect: extensionsBecome(func(_ store.Record, _ *time.Duration, meta *[]byte) {
		if len(*meta) == 0 {
			*meta = nil
		}
	}),
}, {
	name: "extend stops at the expiry",
	defect: extensionsBecome(func(r store.Record, d *time.Duration, _ *[]byte) {
		if !r.ExpiresAt.IsZero() {
			*d = min(*d, r.ExpiresAt.Sub(r.ReadAt)-time.Second)
		}
	}),
}, {
	name: "extend leaves the expiry",
	defect: func(b *broken, s *memstore.Store) {
		var claimed sync.Map
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict.Owned() {
				claimed.Store(g.Lease, g.Record.ExpiresAt)
			}
			return g, err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if at, ok := claimed.Load(r.Lease()); ok && r.State == store.StatePending {
				r.ExpiresAt = at.(time.Time)
			}
			return r, err
		}
	},
}, {
	name: "extend shows an expiry at the lease's end",
	defect: extensionsShow(func(r *store.Record) {
		if !r.LeaseUntil.IsZero() {
			r.ExpiresAt = r.LeaseUntil
		}
	}),
}, {
	name: "extend keeps no rules",
	defect: extensionsBecome(func(_ store.Record, d *time.Duration, _ *[]byte) {
		*d = max(*d, 0)
	}),
}, {
	name: "reading is stamped by the reader's clock",
	defect: func(b *broken, s *memstore.Store) {
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			r.ReadAt = r.ReadAt.Add(-2 * time.Second)
			return r, err
		}
	},
}, {
	name: "purge deletes live leases",
	defect: func(b *broken, s *memstore.Store) {
		b.purge = func(ctx context.Context, limit int) (int, error) {
			n, err := s.Purge(ctx, limit)
			for r := range s.Pending(ctx, "") {
				// Only the retention would have been over by now.
				if r.LeaseLeft() > 0 && r.ExpiresAt.Equal(r.LeaseUntil) && n < limit &&
					s.Release(ctx, r.Lease()) == nil {
					n++
				}
			}
			return n, err
		}
	},
}, {
	name: "purge deletes settled records",
	defect: func(b *broken, s *memstore.Store) {
		var settled sync.Map
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			err := s.Complete(ctx, l, o)
			if err == nil && o.Failed {
				settled.Store(l, true)
			}
			return err
		}
		b.purge = func(ctx context.Context, limit int) (int, error) {
			settled.Range(func(l, _ any) bool { return s.Forget(ctx, l.(store.Lease)) != nil })
			return s.Purge(ctx, limit)
		}
	},
}, {
	name: "purge knows no limit",
	defect: func(b *broken, s *memstore.Store) {
		b.purge = func(ctx context.Context, limit int) (int, error) {
			if limit < 1 {
				return s.Purge(ctx, limit)
			}
			return s.Purge(ctx, 1<<20)
		}
	},
}, {
	name: "purge does not count",
	defect: func(b *broken, s *memstore.Store) {
		b.purge = func(ctx context.Context, limit int) (int, error) {
			_, err := s.Purge(ctx, limit)
			return 0, err
		}
	},
}, {
	name: "reserve deletes nothing",
	defect: func(b *broken, s *memstore.Store) {
		// Each ID has a different store, so that no Reserve meets another ID's record.
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if !strings.HasPrefix(c.ID.Key, "new ") {
				return s.Reserve(ctx, c)
			}
			return memstore.New().Reserve(ctx, c)
		}
	},
}, {
	name: "reserve deletes records that are pending",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			for r := range s.Pending(ctx, "") {
				if r.Age() > short && r.ID != c.ID && g.Verdict == store.Acquired {
					_ = s.Release(ctx, r.Lease())
				}
			}
			return g, err
		}
	},
}, {
	name: "reserve deletes records past their claim's retention",
	defect: func(b *broken, s *memstore.Store) {
		var claims sync.Map
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.Acquired {
				claims.Store(g.Lease, c.Retention)
				claims.Range(func(l, retention any) bool {
					if r, err := s.Find(ctx, l.(store.Lease).ID); err == nil && r.Age() > retention.(time.Duration) {
						_ = s.Release(ctx, l.(store.Lease))
					}
					return true
				})
			}
			return g, err
		}
	},
}, {
	name: "purge by none is no error",
	defect: func(b *broken, s *memstore.Store) {
		b.purge = func(ctx context.Context, limit int) (int, error) {
			if limit < 1 {
				return 0, nil
			}
			return s.Purge(ctx, limit)
		}
	},
}}

// claimsBecome changes valid claims on their way in.
func claimsBecome(f func(*store.Claim)) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if c.Validate() == nil {
				f(&c)
			}
			return s.Reserve(ctx, c)
		}
	}
}

// extensionsBecome changes extensions on their way in, knowing the record.
func extensionsBecome(f func(r store.Record, d *time.Duration, meta *[]byte)) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
			r, _ := s.Find(ctx, l.ID)
			f(r, &d, &meta)
			return s.Extend(ctx, l, d, meta)
		}
	}
}

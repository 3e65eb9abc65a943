package storetest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var settleMutants = []mutant{{
	name: "complete does not compare the fence",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if r, err := s.Find(ctx, l.ID); err == nil {
				l = r.Lease()
			}
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name: "complete compares, then sets",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			r, err := s.Find(ctx, l.ID)
			if err != nil || r.Lease() != l || r.State != store.StatePending {
				return s.Complete(ctx, l, o)
			}
			time.Sleep(time.Nanosecond)
			if err := s.Complete(ctx, l, o); err != nil && !errors.Is(err, store.ErrLost) {
				return err
			}
			return nil
		}
	},
}, {
	name: "second complete succeeds",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			r, err := s.Find(ctx, l.ID)
			if err == nil && r.Lease() == l && r.State != store.StatePending {
				return nil
			}
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name: "complete fails after the lease's end",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if r, err := s.Find(ctx, l.ID); err == nil && !r.LeaseUntil.IsZero() && r.LeaseLeft() == 0 {
				return store.ErrLost
			}
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name: "complete needs a live lease",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if r, err := s.Find(ctx, l.ID); err == nil && r.LeaseUntil.IsZero() {
				return store.ErrLost
			}
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name: "settled record keeps its lease",
	defect: func(b *broken, s *memstore.Store) {
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if err == nil && r.State != store.StatePending {
				r.LeaseUntil = r.CreatedAt.Add(time.Hour)
			}
			return r, err
		}
	},
}, {
	name: "lazy completion is queued",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if !o.Lazy || ctx.Err() != nil {
				return s.Complete(ctx, l, o)
			}
			time.AfterFunc(time.Millisecond, func() { _ = s.Complete(context.WithoutCancel(ctx), l, o) })
			return nil
		}
	},
}, {
	name: "outcome's retention is ignored",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			o.Retention = min(o.Retention, 0)
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name: "outcome always counts a retention anew",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if o.Retention == 0 {
				o.Retention = 2 * day
			}
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name: "negative retention of an outcome is none",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			o.Retention = max(o.Retention, 0)
			return s.Complete(ctx, l, o)
		}
	},
}, {
	name:   "nil result turns empty",
	defect: resultsBecome(func(result []byte) []byte { return append([]byte{}, result...) }),
}, {
	name:   "empty result turns nil",
	defect: resultsBecome(func(result []byte) []byte { return append([]byte(nil), result...) }),
}, {
	name:   "result ends at the first NUL",
	defect: resultsBecome(func(result []byte) []byte { return cut(result, bytes.IndexByte(result, 0)) }),
}, {
	name:   "result is cut at 64 KiB",
	defect: resultsBecome(func(result []byte) []byte { return result[:min(len(result), 1<<16):len(result)] }),
}, {
	name: "meta ends at the first NUL",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if len(c.Meta) <= store.MaxMeta {
				c.Meta = cut(c.Meta, bytes.IndexByte(c.Meta, 0))
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "caller's buffer is kept",
	defect: func(b *broken, s *memstore.Store) {
		var given sync.Map
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			err := s.Complete(ctx, l, o)
			if err == nil {
				given.Store(l, o.Result)
			}
			return err
		}
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if result, ok := given.Load(r.Lease()); ok {
				r.Result = bytes.Clone(result.([]byte))
			}
			return r, err
		}
	},
}, {
	name: "readers share a record",
	defect: func(b *broken, s *memstore.Store) {
		var shared sync.Map
		b.find = func(ctx context.Context, id store.ID) (store.Record, error) {
			r, err := s.Find(ctx, id)
			if r.State == store.StateComplete {
				result, _ := shared.LoadOrStore(r.Lease(), r.Result)
				r.Result = result.([]byte)
			}
			return r, err
		}
	},
}, {
	name: "stale owner can release",
	defect: func(b *broken, s *memstore.Store) {
		b.release = func(ctx context.Context, l store.Lease) error {
			if r, err := s.Find(ctx, l.ID); err == nil {
				l = r.Lease()
			}
			return s.Release(ctx, l)
		}
	},
}, {
	name: "release deletes a settled record",
	defect: func(b *broken, s *memstore.Store) {
		b.release = func(ctx context.Context, l store.Lease) error {
			if err := s.Release(ctx, l); !errors.Is(err, store.ErrLost) {
				return err
			}
			return s.Forget(ctx, l)
		}
	},
}, {
	name: "release leaves the record",
	defect: func(b *broken, s *memstore.Store) {
		b.release = func(ctx context.Context, l store.Lease) error { return s.Extend(ctx, l, 0, nil) }
	},
}, {
	name: "stale owner can extend",
	defect: func(b *broken, s *memstore.Store) {
		b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
			if r, err := s.Find(ctx, l.ID); err == nil {
				l = r.Lease()
			}
			return s.Extend(ctx, l, d, meta)
		}
	},
}, {
	name: "extend of a settled record succeeds",
	defect: func(b *broken, s *memstore.Store) {
		b.extend = func(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
			r, err := s.Find(ctx, l.ID)
			if err == nil && r.Lease() == l && r.State != store.StatePending {
				return nil
			}
			return s.Extend(ctx, l, d, meta)
		}
	},
}}

func resultsBecome(f func([]byte) []byte) func(*broken, *memstore.Store) {
	return func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			o.Result = f(o.Result)
			return s.Complete(ctx, l, o)
		}
	}
}

func cut(b []byte, at int) []byte {
	if at < 0 {
		return b
	}
	return b[:at:at]
}

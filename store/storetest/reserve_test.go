package storetest

import (
	"bytes"
	"context"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var reserveMutants = []mutant{{
	name: "check, then insert",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if _, err := s.Find(ctx, c.ID); err == nil {
				return s.Reserve(ctx, c)
			}
			// In virtual time every racer gets here before the first of them goes on.
			time.Sleep(time.Nanosecond)
			g, err := s.Reserve(ctx, c)
			for err == nil && g.Verdict != store.Acquired && g.Record.State == store.StatePending {
				// The insert overwrites a record that came in between.
				_ = s.Release(ctx, g.Record.Lease())
				g, err = s.Reserve(ctx, c)
			}
			return g, err
		}
	},
}, {
	name: "check, then take over",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			r, err := s.Find(ctx, c.ID)
			if err != nil || r.State != store.StatePending || r.LeaseLeft() > 0 || r.Fingerprint != c.Fingerprint {
				return s.Reserve(ctx, c)
			}
			time.Sleep(time.Nanosecond)
			g, err := s.Reserve(ctx, c)
			for err == nil && g.Verdict == store.InFlight {
				_ = s.Extend(ctx, g.Record.Lease(), 0, nil)
				g, err = s.Reserve(ctx, c)
			}
			return g, err
		}
	},
}, {
	name: "lazy claim is queued",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			_, err := s.Find(ctx, c.ID)
			g, failed := s.Reserve(ctx, c)
			if c.Lazy && err != nil && failed == nil {
				_ = s.Release(ctx, g.Lease)
				time.AfterFunc(time.Millisecond, func() { _, _ = s.Reserve(context.WithoutCancel(ctx), c) })
			}
			return g, failed
		}
	},
}, {
	name: "claim without a lease excludes",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			if c.Lease == 0 {
				c.Lease = time.Second
			}
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "claim without a lease takes over a live lease",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if err == nil && g.Verdict == store.InFlight && c.Lease == 0 {
				_ = s.Extend(ctx, g.Record.Lease(), 0, nil)
				return s.Reserve(ctx, c)
			}
			return g, err
		}
	},
}, {
	name: "take-over gets no lease",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.TakenOver {
				_ = s.Extend(ctx, g.Lease, 0, nil)
				g.Record, _ = s.Find(ctx, c.ID)
			}
			return g, err
		}
	},
}, {
	name: "take-over writes the new claim's meta",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.TakenOver && !bytes.Equal(g.Record.Meta, c.Meta) {
				_ = s.Extend(ctx, g.Lease, c.Lease, c.Meta)
				g.Record, _ = s.Find(ctx, c.ID)
			}
			return g, err
		}
	},
}, {
	name: "ended lease is acquired",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			before, _ := s.Find(ctx, c.ID)
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.TakenOver && !before.LeaseUntil.IsZero() {
				g.Verdict = store.Acquired
			}
			return g, err
		}
	},
}, {
	name: "failed record returns complete",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.Failed {
				g.Verdict = store.Complete
			}
			return g, err
		}
	},
}, {
	name: "in flight hides a mismatch",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.Mismatch && g.Record.LeaseLeft() > 0 {
				g.Verdict = store.InFlight
			}
			return g, err
		}
	},
}, {
	name: "mismatch of a settled record runs again",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.Mismatch && g.Record.State != store.StatePending {
				_ = s.Forget(ctx, g.Record.Lease())
				return s.Reserve(ctx, c)
			}
			return g, err
		}
	},
}, {
	name: "mismatch of a record without a live lease takes it over",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.Mismatch && g.Record.State == store.StatePending && g.Record.LeaseLeft() == 0 {
				c.Fingerprint = g.Record.Fingerprint
				return s.Reserve(ctx, c)
			}
			return g, err
		}
	},
}, {
	name: "no fingerprint matches all",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			g, err := s.Reserve(ctx, c)
			if g.Verdict == store.Mismatch && c.Fingerprint.IsZero() {
				c.Fingerprint = g.Record.Fingerprint
				return s.Reserve(ctx, c)
			}
			return g, err
		}
	},
}, {
	name: "invalid claim is put right",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			c.Lease = max(c.Lease, 0)
			return s.Reserve(ctx, c)
		}
	},
}, {
	name: "ended context reserves",
	defect: func(b *broken, s *memstore.Store) {
		b.reserve = func(ctx context.Context, c store.Claim) (store.Grant, error) {
			return s.Reserve(context.WithoutCancel(ctx), c)
		}
	},
}, {
	name: "ended context is noticed after the work",
	defect: func(b *broken, s *memstore.Store) {
		b.complete = func(ctx context.Context, l store.Lease, o store.Outcome) error {
			if err := s.Complete(context.WithoutCancel(ctx), l, o); err != nil {
				return err
			}
			return ctx.Err()
		}
	},
}}

package sim

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

// repeats makes a mode's seeds repeat requests often.
func repeats(m mode) func(*plan) {
	return func(p *plan) {
		rough(p)
		p.mode, p.twice, p.apps, p.phones, p.skew, p.servers = m, 300, 3, 0, false, 2
		p.work = max(p.work, time.Second)
	}
}

// stops makes owners stop for longer than their leases.
func stops(m mode) func(*plan) {
	return func(p *plan) {
		repeats(m)(p)
		p.pauses, p.kills, p.servers, p.lease, p.work, p.window = 40, 0, 3, 2*time.Second, 10*time.Second,
			40*time.Second
		p.apps, p.relays, p.consumers, p.ops, p.together, p.replicas = 3, 0, 1, 6, 3, 1
		p.twice, p.attempts = 700, 5
	}
}

// dies makes servers die often.
func dies(m mode) func(*plan) {
	return func(p *plan) {
		stops(m)(p)
		p.pauses, p.kills = 0, 30
	}
}

// then calls f after the handler.
func then(f func(*http.Request)) func(*world, http.Handler) http.Handler {
	return func(_ *world, h http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(rw, r)
			f(r)
		})
	}
}

// serverDefects are in servers and their stores.
var serverDefects = []defect{
	{
		name: "the key is released after the effect", breaks: []rule{oneEffect, ackedEffect, sameResponse},
		plan: repeats(refusing), handler: then(func(r *http.Request) { server.Release(r.Context()) }),
	},
	{
		name: "a transaction is released after the effect", breaks: []rule{ackedEffect, oneEffect, sameResponse},
		plan: repeats(transactional), handler: then(func(r *http.Request) { server.Release(r.Context()) }),
	},
	{
		name: "no heartbeat", breaks: []rule{oneEffect, rightEnd},
		plan: func(p *plan) {
			repeats(applying)(p)
			p.lease, p.work, p.attempts = 2*time.Second, 10*time.Second, 5
		},
		store: func(_ *world, st *txGate) store.Store { return noHeartbeat{st} },
	},
	{
		name: "leases are ignored", breaks: []rule{oneEffect, sameResponse}, plan: repeats(applying),
		store: func(w *world, st *txGate) store.Store { return noLeases{st, w.service} },
	},
	{
		name: "fences are reset", breaks: []rule{oneEffect, sameResponse}, plan: stops(recovering),
		store: func(w *world, st *txGate) store.Store { return noFences{st, w.service} },
	},
	{
		name: "a lost lease is ignored", breaks: []rule{sameResponse, oneEffect}, plan: stops(recovering),
		store: func(_ *world, st *txGate) store.Store { return lostLease{st} },
	},
	{
		name: "reserve checks, and then acts", breaks: []rule{oneEffect, sameResponse}, plan: repeats(applying),
		store: func(w *world, st *txGate) store.Store { return checkThenAct{st, w.service} },
	},
	{
		name: "the lock is removed with the outcome", breaks: []rule{oneEffect, sameResponse}, plan: repeats(applying),
		store: func(_ *world, st *txGate) store.Store { return unlocks{st} },
	},
	{
		name: "the outcome is acknowledged and not written", breaks: []rule{sameResponse, oneEffect},
		plan: repeats(refusing), store: func(_ *world, st *txGate) store.Store { return forgetful{st} },
	},
	{
		name: "the outcome is written after the response", breaks: []rule{sameResponse, oneEffect},
		plan:  dies(refusing),
		store: func(w *world, st *txGate) store.Store { return &late{st, w} },
	},
	{
		name: "an unknown outcome counts as written", breaks: []rule{sameResponse, oneEffect},
		plan: func(p *plan) {
			repeats(refusing)(p)
			p.unmade = 200
		},
		store: func(_ *world, st *txGate) store.Store { return optimist{st} },
	},
	{
		name: "fingerprints are not compared", breaks: []rule{mismatch}, plan: repeats(applying),
		store: func(_ *world, st *txGate) store.Store { return sameForAll{st} },
	},
	{
		name: "pending records are purged", breaks: []rule{oneEffect, sameResponse, settles}, plan: repeats(applying),
		store: func(w *world, st *txGate) store.Store { return purges{st, w.service} },
	},
	{
		name: "the retention is shorter than promised", breaks: []rule{oneEffect, sameResponse},
		plan: func(p *plan) {
			repeats(applying)(p)
			p.lease, p.work = 2*time.Second, time.Second
		},
		server: []server.Option{server.Retention(3 * time.Second), server.HandlerTimeout(2 * time.Second)},
	},
	{
		name: "a server fails open", breaks: []rule{oneEffect, sameResponse},
		plan: func(p *plan) {
			repeats(applying)(p)
			p.outages, p.down = 4, 200
		},
		server: []server.Option{server.FailOpen()},
	},
	{
		name: "a 5xx is stored for good", breaks: []rule{rightEnd},
		plan: func(p *plan) {
			repeats(recovering)(p)
			p.sick = 400
		},
		server: []server.Option{server.Keep(func(int) bool { return true })},
	},
	{
		name: "a dead owner's handler runs again", breaks: []rule{oneEffect}, plan: dies(refusing),
		server: []server.Option{server.TakeOver(server.Reexecute())},
	},
	{
		name: "recovery finds nothing", breaks: []rule{oneEffect}, plan: dies(recovering),
		server: []server.Option{server.TakeOver(server.Recover(
			func(context.Context, *http.Request, string, []byte) (http.Handler, error) { return nil, nil }))},
	},
	{
		name: "an adapter hides the response", breaks: []rule{rightEnd}, plan: repeats(applying),
		handler: func(_ *world, h http.Handler) http.Handler {
			return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(httptest.NewRecorder(), r)
			})
		},
	},
	{
		name: "all customers share their keys", breaks: []rule{rightEnd, ownResponse, settles},
		plan: func(p *plan) {
			repeats(applying)(p)
			p.identity = int(byTheCall)
		},
		outside: func(_ *world, h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				r.Header.Set(principalHeader, "everyone")
				h.ServeHTTP(rw, r)
			})
		},
	},
	{
		name: "a customer is known by its connection", breaks: []rule{oneEffect, sameResponse}, plan: repeats(applying),
		outside: func() func(*world, http.Handler) http.Handler {
			var mu sync.Mutex
			n := 0
			return func(_ *world, h http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					mu.Lock()
					n++
					r.Header.Set(principalHeader, r.Header.Get(principalHeader)+string(rune('a'+n%2)))
					mu.Unlock()
					h.ServeHTTP(rw, r)
				})
			}
		}(),
	},
	{
		name: "one process serves without the middleware", breaks: []rule{oneEffect, sameResponse, mismatch},
		plan: repeats(applying),
		outside: func(w *world, h http.Handler) http.Handler {
			s := &service{w.newProcess("bare", serviceHost), &fencedLedger{seen: map[string]uint64{}}}
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if w.draw("bare"+callOf(r.Context())).IntN(2) == 0 {
					s.order(rw, r)
					return
				}
				h.ServeHTTP(rw, r)
			})
		},
	},
}

// A noHeartbeat store does not renew leases.
type noHeartbeat struct{ *txGate }

func (s noHeartbeat) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if meta == nil && d > 0 {
		return nil
	}
	return s.txGate.Extend(ctx, l, d, meta)
}

// A noLeases store lets a claim take a live record over.
type noLeases struct {
	*txGate
	db *database
}

func (s noLeases) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	g, err := s.txGate.Reserve(ctx, c)
	if err == nil && g.Verdict == store.InFlight {
		_ = s.db.Extend(ctx, g.Record.Lease(), 0, nil) // the owner does not know
		return s.txGate.Reserve(ctx, c)
	}
	return g, err
}

// A noFences store gives each owner the same fence.
type noFences struct {
	*txGate
	db *database
}

func (s noFences) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	g, err := s.txGate.Reserve(ctx, c)
	if g.Verdict.Owned() {
		g.Lease.Fence, g.Record.Fence = 1, 1
	}
	return g, err
}

// current returns the lease of the record's present owner.
func (s noFences) current(ctx context.Context, l store.Lease) store.Lease {
	if rec, err := s.db.Find(ctx, l.ID); err == nil {
		return rec.Lease()
	}
	return l
}

func (s noFences) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return s.txGate.Extend(ctx, s.current(ctx, l), d, meta)
}

func (s noFences) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return s.txGate.Complete(ctx, s.current(ctx, l), o)
}

func (s noFences) Release(ctx context.Context, l store.Lease) error {
	return s.txGate.Release(ctx, s.current(ctx, l))
}

// A lostLease store hides from an owner that it has lost its lease.
type lostLease struct{ *txGate }

func (s lostLease) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return ignoreLost(s.txGate.Extend(ctx, l, d, meta))
}

func (s lostLease) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return ignoreLost(s.txGate.Complete(ctx, l, o))
}

// A checkThenAct store reads the record first and writes later, although another claim may have written meanwhile.
type checkThenAct struct {
	*txGate
	db *database
}

func (s checkThenAct) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	_, err := s.txGate.Find(ctx, c.ID)
	if !errors.Is(err, store.ErrNotFound) {
		return s.txGate.Reserve(ctx, c)
	}
	if rec, err := s.db.Find(ctx, c.ID); err == nil && rec.State == store.StatePending {
		_ = s.db.Release(ctx, rec.Lease())
	}
	return s.db.Reserve(ctx, c)
}

// An unlocks store removes the record where it should complete it.
type unlocks struct{ *txGate }

func (s unlocks) Complete(ctx context.Context, l store.Lease, _ store.Outcome) error {
	return s.txGate.Release(ctx, l)
}

// A forgetful store acknowledges one outcome in three and does not write it.
type forgetful struct{ *txGate }

func (s forgetful) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if s.world.draw("forgetful"+l.ID.Key).IntN(3) == 0 {
		return nil
	}
	return s.txGate.Complete(ctx, l, o)
}

// A late store acknowledges an outcome some seconds before it writes it.
type late struct {
	*txGate
	world *world
}

func (s *late) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	ctx = context.WithoutCancel(ctx)
	go func() {
		if s.wait(ctx, 3*time.Second) == nil {
			_ = s.txGate.Complete(ctx, l, o)
		}
	}()
	return nil
}

// An optimist takes a lost response for a write.
type optimist struct{ *txGate }

func (s optimist) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := s.txGate.Complete(ctx, l, o); !errors.Is(err, store.ErrUnknown) {
		return err
	}
	return nil
}

// A sameForAll store compares no fingerprints.
type sameForAll struct{ *txGate }

func (s sameForAll) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	c.Fingerprint = store.Fingerprint{}
	return s.txGate.Reserve(ctx, c)
}

// A purges store removes the pending records when it reserves.
type purges struct {
	*txGate
	db *database
}

func (s purges) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	for rec := range s.db.Pending(ctx, "") {
		_ = s.db.Release(ctx, rec.Lease())
	}
	return s.txGate.Reserve(ctx, c)
}

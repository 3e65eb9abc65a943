package sim

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

// A backend has the methods of a store that clients, gateways, servers and consumers need.
type backend interface {
	store.Store
	store.Lister
	store.Forgetter
}

// An engine is a backend with transactions.
type engine interface {
	backend
	store.TxStore[*work]
}

// A link is the way to one store, or to one queue. It has outages.
type link struct {
	name string
	mu   sync.Mutex
	down []outage
}

// An outage is a time in which a store can't be reached. Calls fail immediately, or hang until their context ends.
type outage struct {
	from, to time.Duration
	hangs    bool
}

func (l *link) outage(now time.Duration) (hangs, down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.down {
		if o.from <= now && now < o.to {
			return o.hangs, true
		}
	}
	return false, false
}

// A gate is one process's way to a store. Each call passes the process's edge twice, and may fail.
type gate struct {
	backend
	*process
	link *link
}

// made is the treatment of one call.
type made struct {
	err  error // instead of the call, or in place of its response
	call bool  // make the call
}

// enter decides the treatment of a call. A read has no unknown outcome.
func (p *process) enter(ctx context.Context, l *link, what string, write bool) made {
	place := l.name + what
	if err := p.edge(ctx, place); err != nil {
		return made{err: err}
	}
	w, odds := p.world, p.world.plan
	rng := w.draw(p.name + "fault" + place)
	hangs, down := l.outage(w.now())
	switch {
	case down && !w.quiet():
		if hangs {
			p.hang(ctx)
		}
		return made{err: fmt.Errorf("sim: an outage: %w", store.ErrUnavailable)}
	case w.happens(rng, odds.down):
		return made{err: fmt.Errorf("sim: refused: %w", store.ErrUnavailable)}
	case write && w.happens(rng, odds.unmade):
		return made{err: fmt.Errorf("sim: the request is lost: %w", store.ErrUnknown)}
	case write && w.happens(rng, odds.unheard):
		return made{err: fmt.Errorf("sim: the response is lost: %w", store.ErrUnknown), call: true}
	}
	return made{call: true}
}

// hang blocks until ctx ends, but for a minute at most.
func (p *process) hang(ctx context.Context) {
	select {
	case <-p.world.over:
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
}

// leave passes the response of a call that was made. If it does not arrive, the outcome of a write is unknown.
func (p *process) leave(ctx context.Context, l *link, what string, m made, err error) error {
	if m.err != nil {
		err = m.err
	} else if late := p.edge(ctx, l.name+what+" back"); late != nil {
		err = fmt.Errorf("sim: no response: %w: %w", store.ErrUnknown, late)
	}
	if err != nil {
		p.world.note(p.name, "%s %s: %v", l.name, what, err)
	}
	return err
}

func (g *gate) write(ctx context.Context, what string, f func() error) error {
	m := g.enter(ctx, g.link, what, true)
	if !m.call {
		g.world.note(g.name, "%s %s: %v", g.link.name, what, m.err)
		return m.err
	}
	err := f()
	g.world.note(g.name, "%s %s makes %v", g.link.name, what, err)
	return g.leave(ctx, g.link, what, m, err)
}

// Reserve implements store.Store.
func (g *gate) Reserve(ctx context.Context, c store.Claim) (grant store.Grant, err error) {
	err = g.write(ctx, "Reserve "+c.ID.Key, func() error {
		grant, err = g.backend.Reserve(ctx, c)
		g.world.note(g.name, "%s is %v", c.ID.Key, grant.Verdict)
		return err
	})
	if err != nil {
		return store.Grant{}, err
	}
	return grant, nil
}

// Extend implements store.Store.
func (g *gate) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return g.write(ctx, "Extend "+l.ID.Key, func() error { return g.backend.Extend(ctx, l, d, meta) })
}

// Complete implements store.Store.
func (g *gate) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return g.write(ctx, "Complete "+l.ID.Key, func() error { return g.backend.Complete(ctx, l, o) })
}

// Release implements store.Store.
func (g *gate) Release(ctx context.Context, l store.Lease) error {
	return g.write(ctx, "Release "+l.ID.Key, func() error { return g.backend.Release(ctx, l) })
}

// Forget implements store.Forgetter.
func (g *gate) Forget(ctx context.Context, l store.Lease) error {
	return g.write(ctx, "Forget "+l.ID.Key, func() error { return g.backend.Forget(ctx, l) })
}

// Find implements store.Store.
func (g *gate) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	m := g.enter(ctx, g.link, "Find "+id.Key, false)
	if !m.call {
		return store.Record{}, m.err
	}
	rec, err = g.backend.Find(ctx, id)
	if late := g.edge(ctx, g.link.name+"Find "+id.Key+" back"); late != nil {
		return store.Record{}, fmt.Errorf("%w: %w", store.ErrUnavailable, late)
	}
	return rec, err
}

// Pending implements store.Lister.
func (g *gate) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if m := g.enter(ctx, g.link, "Pending "+scope, false); !m.call {
			yield(store.Record{}, m.err)
			return
		}
		for rec, err := range g.backend.Pending(ctx, scope) {
			if !yield(rec, err) {
				return
			}
		}
	}
}

// A txGate is a gate to an engine with transactions. It ends them when the process dies.
type txGate struct {
	gate
	engine engine
}

// Begin implements store.TxStore.
func (g *txGate) Begin(ctx context.Context, c store.Claim) (tx store.Tx[*work], grant store.Grant, err error) {
	m := g.enter(ctx, g.link, "Begin "+c.ID.Key, false)
	if !m.call {
		return nil, store.Grant{}, m.err
	}
	tx, grant, err = g.engine.Begin(ctx, c)
	g.world.note(g.name, "begins %s: %v %v", c.ID.Key, grant.Verdict, err)
	if tx != nil {
		g.atEnd(tx.Tx().abort)
	}
	if late := g.edge(ctx, g.link.name+"Begin "+c.ID.Key+" back"); late != nil {
		if tx != nil {
			_ = tx.Rollback(ctx) // the engine does, when the connection ends
		}
		return nil, store.Grant{}, fmt.Errorf("%w: %w", store.ErrUnavailable, late)
	}
	if tx == nil {
		return nil, grant, err
	}
	return &txWire{tx, g, c.ID.Key}, grant, err
}

// A txWire is a transaction behind a gate.
type txWire struct {
	tx   store.Tx[*work]
	gate *txGate
	key  string
}

// Tx implements store.Tx.
func (t *txWire) Tx() *work { return t.tx.Tx() }

// Commit implements store.Tx. A request that is lost ends the transaction too, with its connection.
func (t *txWire) Commit(ctx context.Context, o store.Outcome) error {
	return t.end(ctx, "Commit ", func() error { return t.tx.Commit(ctx, o) })
}

// Discard implements store.Tx.
func (t *txWire) Discard(ctx context.Context, o store.Outcome) error {
	return t.end(ctx, "Discard ", func() error { return t.tx.Discard(ctx, o) })
}

// Rollback implements store.Tx.
func (t *txWire) Rollback(ctx context.Context) error {
	return t.end(ctx, "Rollback ", func() error { return t.tx.Rollback(ctx) })
}

func (t *txWire) end(ctx context.Context, what string, f func() error) error {
	err := t.gate.write(ctx, what+t.key, f)
	if err != nil {
		_ = t.tx.Rollback(context.WithoutCancel(ctx))
	}
	return err
}

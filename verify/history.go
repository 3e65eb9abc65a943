package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/store"
)

// A plan describes a history to be made: workers each make some calls, one after the other, on a few IDs. The seed
// decides every call, except for the fences, which the store gives out.
type plan struct {
	seed                uint64
	workers, calls, ids int
	scope               string // that nothing else on the backend has
	scale               timescale
	palette             palette
	weights             weights // nil: inTwoSteps
	// cancel ends a call's context while it runs; nil ends none. It returns when the context is not needed any more.
	cancel func(r *rand.Rand, cancel context.CancelFunc) (stop func())
	faults bool          // the engine is disturbed while the history is made
	seen   *board        // nil: nothing was seen before
	began  time.Duration // when it begins
}

// An event is a call that was made. Between its call and its return, which count the calls and the returns of all,
// it took effect if it did.
type event struct {
	worker       int
	in           input
	out          output
	licence      licence
	call, answer int64
	open         bool // its effect is known, but not its moment
}

// A history is a list of calls with their results.
type history struct {
	plan   plan
	events []event
	// effects are those that stand on the backend after it, when it has transactions in it.
	effects []string
}

// run makes the history on a store by its handles, which the workers share.
func (p plan) run(ctx context.Context, handles ...store.Store) history {
	if p.seen == nil {
		p.seen = &board{seen: map[store.ID][]uint64{}}
	}
	if p.weights == nil {
		p.weights = inTwoSteps
	}
	r := recorder{plan: p, ids: p.allIDs()}
	each := make([][]event, p.workers)
	var wg sync.WaitGroup
	for i := range p.workers {
		wg.Go(func() { each[i] = r.work(ctx, i, handles[i%len(handles)]) })
	}
	wg.Wait()
	h := history{plan: p}
	for _, events := range each {
		h.events = append(h.events, events...)
	}
	return h
}

func (p plan) allIDs() (ids []store.ID) {
	for i := range p.ids {
		ids = append(ids, store.ID{Scope: p.scope, Key: fmt.Sprint(i)})
	}
	return ids
}

// restarted is the history that goes on in another one, after a restart of the backend.
func (h history) restarted(next history) history {
	last := int64(0)
	for _, e := range h.events {
		last = max(last, e.answer)
	}
	whole := history{plan: next.plan, events: h.events}
	for _, id := range next.plan.allIDs() {
		in := input{call: restart, id: id, at: next.plan.began}
		whole.events = append(whole.events, event{in: in, call: last + 1, answer: last + 1})
	}
	for _, e := range next.events {
		e.call, e.answer = e.call+last+1, e.answer+last+1
		whole.events = append(whole.events, e)
	}
	return whole
}

type recorder struct {
	plan
	ids   []store.ID
	count atomic.Int64
}

func (r *recorder) work(ctx context.Context, worker int, st store.Store) (events []event) {
	g := &generator{
		Rand:    rand.New(rand.NewPCG(r.seed, uint64(worker))),
		palette: r.palette,
		weights: r.weights,
		ids:     r.ids,
		board:   r.seen,
	}
	for range r.calls {
		g.pause()
		for _, e := range r.call(ctx, g, st) {
			e.worker = worker
			r.learn(e)
			events = append(events, e)
		}
	}
	return events
}

// call makes one call. A list is a look at each ID, and so an event for each.
func (r *recorder) call(ctx context.Context, g *generator, st store.Store) []event {
	e := event{in: g.next()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.cancel != nil {
		switch g.IntN(8) {
		case 0:
			e.licence.ended = true
			cancel()
		case 1, 2:
			defer r.cancel(g.Rand, cancel)()
		}
	}
	e.licence.faults = r.faults
	e.call = r.count.Add(1)
	e.in.at = r.scale.now()
	if e.in.call == list {
		return r.list(ctx, st, e)
	}
	e.out = perform(ctx, st, e.in)
	r.end(ctx, &e)
	return []event{e}
}

func (r *recorder) list(ctx context.Context, st store.Store, e event) (events []event) {
	records, err := pending(ctx, st, r.scope)
	e.out.err = err
	r.end(ctx, &e)
	for _, id := range r.ids {
		look := e
		look.in.id = id
		for _, rec := range records {
			if rec.ID == id {
				look.out.listed, look.out.record = true, rec
			}
		}
		events = append(events, look)
	}
	return events
}

func (r *recorder) end(ctx context.Context, e *event) {
	if r.scale.exact() && r.scale.now() != e.in.at && e.out.err == nil {
		e.out.err = fmt.Errorf("verify: the clock went from %v to %v within a call", e.in.at, r.scale.now())
	}
	e.licence.ending = ctx.Err()
	e.answer = r.count.Add(1)
}

// learn puts the fences in a call's result on the board.
func (r *recorder) learn(e event) {
	r.seen.note(e.in.id, e.out.grant.Record.Fence)
	r.seen.note(e.in.id, e.out.record.Fence)
}

// cancelSoon ends a context after some turns of the scheduler.
func cancelSoon(r *rand.Rand, cancel context.CancelFunc) (stop func()) {
	turns := r.IntN(40)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range turns {
			runtime.Gosched()
		}
		cancel()
	}()
	return func() { <-done }
}

// cancelWithin ends a context within about the time that a call takes.
func cancelWithin(d time.Duration) func(*rand.Rand, context.CancelFunc) func() {
	return func(r *rand.Rand, cancel context.CancelFunc) func() {
		timer := time.AfterFunc(time.Duration(r.Int64N(int64(d))), cancel)
		return func() { timer.Stop() }
	}
}

package schedule

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo"
)

// A process has its own client over the shared store.
type process struct {
	run     *run
	number  int
	client  caller
	dead    bool
	paused  int                        // until this step
	running map[int]context.CancelFunc // calls that have not returned
	last    report                     // of the call that returned last
}

// A caller is a client under test.
type caller interface {
	// call calls the operation once. If resume is true, it continues a pending one from the store, where it can.
	call(ctx context.Context, name string, resume bool) report
}

// A report is the result of one call.
type report struct {
	ok     bool // success
	effect redo.Effect
	final  bool // another call brings no other result
	err    error
}

type callKey struct{}

// callOf returns the number of the call that ctx belongs to, 0 if it belongs to none.
func callOf(ctx context.Context) int {
	n, _ := ctx.Value(callKey{}).(int)
	return n
}

// park blocks until the scheduler grants the step. It returns false if the process is dead and the run is over.
func (p *process) park(t *turn) bool {
	t.process, t.next = p, make(chan bool, 1)
	r := p.run
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return false
	}
	r.parked = append(r.parked, t)
	r.mu.Unlock()
	return <-t.next
}

// start starts a call.
func (p *process) start(ctx context.Context, resume bool) {
	r := p.run
	r.calls++
	n := r.calls
	ctx, cancel := context.WithCancel(context.WithValue(ctx, callKey{}, n))
	p.running[n] = cancel
	r.active++
	what := "calls"
	if resume {
		what = "resumes"
	}
	r.logCall(p.number, n, what, r.name)
	r.returned.Go(func() {
		defer cancel()
		rep := p.client.call(ctx, r.name, resume)
		p.finish(n, rep)
	})
}

// finish checks a call's report at the instant at which the call returns. A dead process reports nothing.
func (p *process) finish(n int, rep report) {
	r := p.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.dead || r.over {
		return
	}
	delete(p.running, n)
	r.active--
	p.last = rep
	effects := r.server.effects()
	if rep.ok {
		r.left = min(r.left, 1) // later calls get the stored outcome
		r.logCall(p.number, n, "returns", "success")
	} else {
		r.logCall(p.number, n, "returns", rep.err.Error())
	}
	switch {
	case (rep.ok || rep.effect == redo.Applied) && effects == 0:
		r.violate(wrongApplied, "p%d.%d reports an effect that has not happened", p.number, n)
	case !rep.ok && rep.effect == redo.NotApplied && effects > 0:
		r.violate(wrongNotApplied, "p%d.%d reports NotApplied after the effect", p.number, n)
	case !rep.ok && rep.effect == redo.NotApplied && r.pending(""):
		r.violate(wrongNotApplied, "p%d.%d reports NotApplied while a request is under way", p.number, n)
	}
}

// kill stops the process for good. Its requests go on if they are on the wire.
func (p *process) kill() {
	r := p.run
	p.dead = true
	r.active -= len(p.running)
	r.logCall(p.number, 0, "is killed", "")
	for _, t := range r.parked {
		x := t.exchange
		if t.process != p || x == nil {
			continue
		}
		if x.stage == leaving && r.rng.IntN(2) == 0 {
			r.send(x)
		}
		r.abandon(x)
	}
}

// cancel ends the context of one of the calls.
func (p *process) cancel() {
	r := p.run
	var calls []int
	for n := range p.running {
		calls = append(calls, n)
	}
	slices.Sort(calls)
	n := calls[r.rng.IntN(len(calls))]
	r.logCall(p.number, n, "the caller gives up", "")
	p.running[n]()
}

// A client drives the real client.
type client struct{ *redo.Client }

// connect makes the real client of a process.
func connect(p *process) (caller, error) {
	c, err := redo.New(
		redo.WithStore(&gate{backend: p.run.store, process: p}),
		redo.WithTransport(p),
		redo.WithRetry(redo.RetryPolicy{
			MaxAttempts: p.run.attempts, BaseDelay: retryDelay, MaxDelay: retryDelay,
			AttemptTimeout: attemptTimeout, MaxElapsed: time.Hour, Jitter: redo.ConstantDelay,
		}),
	)
	return client{c}, err
}

// Durations in virtual time. No delay is random, so that the seed alone decides the schedule.
const (
	retryDelay     = 10 * time.Millisecond
	attemptTimeout = 300 * time.Millisecond
)

const target = "https://api.test/refunds"

func (c client) call(ctx context.Context, name string, resume bool) report {
	if resume {
		if op, ok := find(c.Pending(ctx), name); ok {
			return reportOf(c.Resume(ctx, op))
		}
	}
	ctx = redo.WithOperation(ctx, name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(`{"amount":1000}`))
	if err != nil {
		return report{effect: redo.EffectUnknown, err: err}
	}
	return reportOf(c.Do(req))
}

func find(pending iter.Seq2[redo.Operation, error], name string) (redo.Operation, bool) {
	for op, err := range pending {
		if err == nil && op.Name == name && op.Resumable {
			return op, true
		}
	}
	return redo.Operation{}, false
}

func reportOf(resp *http.Response, err error) report {
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return report{ok: true, effect: redo.Applied, err: err}
	}
	rep := report{effect: redo.EffectUnknown, final: !redo.SafeToRetry(err), err: err}
	if e, ok := errors.AsType[*redo.Error](err); ok {
		rep.effect = e.Effect
	}
	return rep
}

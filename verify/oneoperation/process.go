package oneoperation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/verify/internal/link"
)

const (
	operation = "refund:1138"
	target    = "https://api.test/refunds"
	patience  = 15 * time.Second // of one call
	pause     = 2 * time.Second  // of a stopped process, at most
)

// A process calls the operation until it is killed.
type process struct {
	life       *life
	name       string
	dead, down atomic.Bool  // down: it does not reach the store
	resumes    atomic.Int64 // when a pause ends, in nanoseconds of the life
	ctx        context.Context
	end        context.CancelFunc
	client     *redo.Client
}

// A backend has the methods of a store that a client needs here.
type backend interface {
	store.Store
	store.Forgetter
	store.Lister
}

// A way is a process's connection to the store.
type way struct {
	link.Link
	backend backend
	life    *life
}

// Reserve implements store.Store. Some claims reach the store when their caller has given up, and a person waits for
// them. In crowded lives no claim fails: the claim of a Resume makes an operation anew that was forgotten just before,
// and if its response is lost, the Resume does not see that.
func (w way) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	l := w.life
	switch {
	case l.crowded:
		if w.Before(); w.Down() {
			return store.Grant{}, store.ErrUnavailable
		}
		return w.backend.Reserve(ctx, c)
	case !l.chance(l.faulty / 5):
		return w.Link.Reserve(ctx, c)
	}
	l.server.delay(1)
	l.running.Go(func() {
		time.Sleep(l.span(delay))
		_, err := w.backend.Reserve(context.WithoutCancel(ctx), c)
		l.log("a late claim reaches the store: %v", err)
		l.server.delay(-1)
	})
	return store.Grant{}, store.ErrUnknown
}

// Find implements store.Store. A Resume that can't read the store relies on the key. So in lives in which a person acts
// while one waits, reads do not fail.
func (w way) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if !w.life.crowded {
		return w.Link.Find(ctx, id)
	}
	if w.Before(); w.Down() {
		return store.Record{}, store.ErrUnavailable
	}
	return w.backend.Find(ctx, id)
}

// Forget implements store.Forgetter.
func (w way) Forget(ctx context.Context, l store.Lease) error {
	return w.Over(ctx, func() error { return w.backend.Forget(ctx, l) })
}

// Pending implements store.Lister.
func (w way) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	if !w.Reads() {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, store.ErrUnavailable) }
	}
	return w.backend.Pending(ctx, scope)
}

// start starts a process.
func (l *life) start(name string) (*process, error) {
	p := &process{life: l, name: name}
	p.ctx, p.end = context.WithCancel(context.Background())
	var transport http.RoundTripper = p
	if l.plant.transport != nil {
		transport = l.plant.transport(p)
	}
	opts := []redo.Option{
		redo.WithTransport(transport),
		redo.WithProfile(redo.Profile{Name: "test", Retention: retention}),
		redo.WithKeys(l.makeKey),
		redo.WithRetry(redo.RetryPolicy{
			MaxAttempts: l.attempts, BaseDelay: 200 * time.Millisecond, AttemptTimeout: 3 * time.Second, MaxElapsed: patience,
		}),
		redo.WithStore(way{backend: l.store, life: l, Link: link.Link{
			Store: l.store, Before: p.approach, Draw: l.drawFault,
			Down: func() bool { return p.dead.Load() || p.down.Load() && !l.calm.Load() && !l.crowded },
		}}),
	}
	if l.probes {
		opts = append(opts, redo.WithProbe(p.probe))
	}
	if l.limits {
		opts = append(opts, redo.WithLimiter(p))
	}
	var err error
	if p.client, err = redo.New(opts...); err != nil {
		return nil, err
	}
	if l.resumed {
		l.running.Go(p.resumeEvery)
	}
	return p, nil
}

// makeKey is the client's KeyFunc.
func (l *life) makeKey(name string) (string, error) {
	key, err := redo.RandomKeys(name)
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	l.server.made = append(l.server.made, key)
	return key, err
}

// kill ends the process. Nothing that it does later has an effect.
func (p *process) kill() {
	p.dead.Store(true)
	p.life.log("%s is killed", p.name)
	p.end()
}

// stop pauses the process, as SIGSTOP does, before its next calls of the store and requests.
func (p *process) stop(d time.Duration) {
	p.life.log("%s is stopped for %v", p.name, d)
	p.resumes.Store(int64(time.Since(p.life.began) + d))
}

func (p *process) waitForResume() {
	time.Sleep(time.Duration(p.resumes.Load()) - time.Since(p.life.began))
}

// approach takes the time of the way to the store.
func (p *process) approach() {
	time.Sleep(p.life.span(20 * time.Millisecond))
	p.waitForResume()
}

// Wait implements limit.Limiter.
func (p *process) Wait(ctx context.Context) error {
	most := time.Second
	if p.life.chance(20) {
		most = 2 * patience
	}
	select {
	case <-time.After(p.life.span(most)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errUndecided = errors.New("a request is on the wire")

// probe is an honest redo.ProbeFunc.
func (p *process) probe(context.Context, redo.Operation) (redo.Finding, error) {
	l := p.life
	time.Sleep(l.span(time.Second))
	p.waitForResume()
	effect, quiet := l.server.truth()
	l.log("%s probes: effect %q, nothing on the wire: %v", p.name, effect, quiet)
	switch {
	case l.plant.denies:
		effect = ""
	case effect == "" && !quiet:
		return redo.Finding{}, errUndecided
	}
	return l.finding(effect, ""), nil
}

// finding returns the finding of the truth.
func (l *life) finding(effect, by string) redo.Finding {
	f := redo.Finding{Effect: redo.NotApplied, Evidence: fmt.Sprintf("%s-%d", by, l.draw(1e6)), By: by}
	if effect != "" {
		f.Effect = redo.Applied
		if by == "" || l.draw(2) == 0 {
			f.Response = (&reply{status: 201, body: effect}).response(nil)
		}
	}
	return f
}

// resumeEvery resumes what is pending until the process is killed.
func (p *process) resumeEvery() {
	for p.ctx.Err() == nil && !p.life.calm.Load() {
		time.Sleep(p.life.span(10 * time.Second))
		within(p.life.resumes, func() {
			ctx, cancel := context.WithTimeout(p.ctx, p.life.span(time.Minute))
			defer cancel()
			_ = p.client.ResumeEvery(ctx, 3*time.Second, func(op redo.Operation, err error) {
				if e, ok := errors.AsType[*redo.Error](err); op.Name != "" && (err == nil || ok) {
					p.life.check(p, "ResumeEvery", "", err, e)
				}
			})
		})
	}
}

// call calls the operation once, or resumes it if it is pending. It returns the error.
func (p *process) call(ctx context.Context, resume bool) error {
	l, what := p.life, "Do"
	var resp *http.Response
	var err error
	if resume {
		what = "Resume"
		op, ok := find(p.client.Pending(ctx))
		if !ok {
			return nil
		}
		time.Sleep(l.span(time.Second))
		resp, err = p.client.Resume(ctx, op)
	} else {
		ctx = redo.WithOperation(ctx, operation)
		req, bad := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(`{"amount":1000}`))
		if bad != nil {
			return bad
		}
		l.log("%s: Do begins", p.name)
		resp, err = p.client.Do(req)
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	e, _ := errors.AsType[*redo.Error](err)
	l.check(p, what, string(body), err, e)
	return err
}

func find(pending iter.Seq2[redo.Operation, error]) (redo.Operation, bool) {
	for op, err := range pending {
		if err == nil && op.Name == operation && op.Resumable {
			return op, true
		}
	}
	return redo.Operation{}, false
}

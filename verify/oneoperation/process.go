package oneoperation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/verify/internal/random"
)

const (
	operation = "refund:1138"
	target    = "https://api.test/refunds"
	patience  = 15 * time.Second // of one call
	pause     = 2 * time.Second  // of a stopped process, at most
)

// A process calls the operation until it is killed.
type process struct {
	random.Process
	life   *life
	ctx    context.Context
	end    context.CancelFunc
	client *redo.Client
}

// A backend has the methods of a store that a client needs here.
type backend interface {
	store.Store
	store.Forgetter
	store.Lister
}

// A way is a process's connection to the store.
type way struct {
	random.Link
	life *life
}

// Reserve implements store.Store. Some claims reach the store when their caller has given up, and a person waits for
// them.
func (w way) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	l := w.life
	if !l.Chance(l.Faulty / 5) {
		return w.Link.Reserve(ctx, c)
	}
	l.server.delay(1)
	l.running.Go(func() {
		time.Sleep(l.Span(delay))
		_, err := w.Store.Reserve(context.WithoutCancel(ctx), c)
		l.Log("a late claim reaches the store: %v", err)
		l.server.delay(-1)
	})
	return store.Grant{}, store.ErrUnknown
}

// Find implements store.Store. A Resume that can't read the store relies on the key. So in lives in which a person acts
// while one waits, reads fail only in a process that was killed.
func (w way) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if w.life.crowded {
		w.Draw = func() random.Fault { return random.None }
	}
	return w.Link.Find(ctx, id)
}

// start starts a process.
func (l *life) start() (*process, error) {
	p := &process{life: l}
	p.Start(l.Life)
	way := way{Link: p.Link(l.store), life: l}
	way.Before = p.approach
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
		redo.WithStore(way),
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

// Kill ends the process. Nothing that it does later has an effect.
func (p *process) Kill() {
	p.Process.Kill()
	p.end()
}

// approach takes the time of the way to the store.
func (p *process) approach(context.Context) {
	time.Sleep(p.life.Span(20 * time.Millisecond))
	p.WaitForResume()
}

// Wait implements limit.Limiter.
func (p *process) Wait(ctx context.Context) error {
	most := time.Second
	if p.life.Chance(20) {
		most = 2 * patience
	}
	select {
	case <-time.After(p.life.Span(most)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errUndecided = errors.New("a request is on the wire")

// probe is an honest redo.ProbeFunc.
func (p *process) probe(context.Context, redo.Operation) (redo.Finding, error) {
	l := p.life
	time.Sleep(l.Span(time.Second))
	p.WaitForResume()
	effect, quiet := l.server.truth()
	l.Log("%s probes: effect %q, nothing on the wire: %v", p.Name, effect, quiet)
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
	f := redo.Finding{Effect: redo.NotApplied, Evidence: fmt.Sprintf("%s-%d", by, l.Draw(1e6)), By: by}
	if effect != "" {
		f.Effect = redo.Applied
		if by == "" || l.Draw(2) == 0 {
			f.Response = (&reply{status: 201, body: effect}).response(nil)
		}
	}
	return f
}

type resumeKey struct{}

// resuming marks the requests of a Resume.
func resuming(ctx context.Context) context.Context { return context.WithValue(ctx, resumeKey{}, true) }

// resumeEvery resumes what is pending until the process is killed.
func (p *process) resumeEvery() {
	for p.ctx.Err() == nil && !p.life.Calm.Load() {
		time.Sleep(p.life.Span(10 * time.Second))
		within(p.life.resumes, func() {
			ctx, cancel := context.WithTimeout(resuming(p.ctx), p.life.Span(time.Minute))
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
		time.Sleep(l.Span(time.Second))
		resp, err = p.client.Resume(resuming(ctx), op)
	} else {
		ctx = redo.WithOperation(ctx, operation)
		req, bad := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(`{"amount":1000}`))
		if bad != nil {
			return bad
		}
		l.Log("%s: Do begins", p.Name)
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

package onekey

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

const (
	leaseTTL       = 3 * time.Second
	storeTimeout   = time.Second
	handlerTimeout = 4 * time.Second
	maxResponse    = 200
)

// A process serves the operation until it is killed. Its handlers may run on then, without an effect.
type process struct {
	life       *life
	name       string
	dead, down atomic.Bool  // down: it does not reach the store
	resumes    atomic.Int64 // when a pause ends, in nanoseconds of the life
	background server.Background
	handler    http.Handler
}

func (l *life) start(name string) (*process, error) {
	p := &process{life: l, name: name}
	policy := map[policy]server.TakeOverPolicy{
		reexecuting: server.Reexecute(), refusing: server.Refuse(), recovering: server.Recover(p.recover),
	}[l.policy]
	opts := []server.Option{
		server.RunIn(&p.background), server.SharedKeys(), server.Route("POST /charges"), server.LeaseTTL(leaseTTL),
		server.StoreTimeout(storeTimeout), server.HandlerTimeout(handlerTimeout), server.MaxResponse(maxResponse),
		server.TakeOver(policy), server.Logger(slog.New(slog.DiscardHandler)),
	}
	if l.waits {
		opts = append(opts, server.Wait(2*time.Second))
	}
	if l.parts {
		opts = append(opts, server.CancelOnDisconnect())
	}
	mw, err := server.New(link{l.store, p}, opts...)
	if err != nil {
		return nil, err
	}
	p.handler = mw(http.HandlerFunc(p.serve))
	return p, nil
}

// kill ends the process's work. Nothing that it does later has an effect.
func (p *process) kill() {
	p.dead.Store(true)
	p.life.log("%s is killed", p.name)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	go func() { _ = p.background.Shutdown(ended) }()
}

// die is a step of a handler whose process is killed. It does not return.
func (p *process) die() {
	p.kill()
	panic(http.ErrAbortHandler)
}

// stop pauses the process, as SIGSTOP does, before its next steps and calls of the store.
func (p *process) stop(d time.Duration) {
	p.life.log("%s is stopped for %v", p.name, d)
	p.resumes.Store(int64(time.Since(p.life.began) + d))
}

func (p *process) waitForResume() {
	time.Sleep(time.Duration(p.resumes.Load()) - time.Since(p.life.began))
}

// live waits until a stopped process goes on, and ends the handler of one that was killed.
func (p *process) live() {
	p.waitForResume()
	if p.dead.Load() {
		panic(http.ErrAbortHandler)
	}
}

// A link is a process's connection to the store. Calls fail on it in every way that the store's contract allows.
type link struct {
	store.Store
	p *process
}

// A fault is what happens to a call of the store.
type fault int

const (
	none       fault = iota
	refused          // nothing is changed, and the error shows it
	lost             // nothing is changed, and the error does not show it
	unanswered       // the call takes effect, and its response is lost
	hangs            // the call takes effect, and its response does not come
)

// over makes a call of the store that may fail on the way.
func (k link) over(ctx context.Context, call func() error) error {
	k.p.waitForResume()
	defer k.p.waitForResume()
	if k.p.dead.Load() || k.p.down.Load() && !k.p.life.calm.Load() {
		return store.ErrUnavailable
	}
	switch k.p.life.drawFault() {
	case refused:
		return store.ErrUnavailable
	case lost:
		return store.ErrUnknown
	case unanswered:
		_ = call()
		return store.ErrUnknown
	case hangs:
		_ = call()
		<-ctx.Done()
		return store.ErrUnknown
	case none:
	}
	return call()
}

// Reserve implements store.Store.
func (k link) Reserve(ctx context.Context, c store.Claim) (g store.Grant, err error) {
	err = k.over(ctx, func() (err error) {
		g, err = k.Store.Reserve(ctx, c)
		return err
	})
	if err != nil {
		return store.Grant{}, err
	}
	return g, nil
}

// Extend implements store.Store.
func (k link) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return k.over(ctx, func() error { return k.Store.Extend(ctx, l, d, meta) })
}

// Complete implements store.Store.
func (k link) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return k.over(ctx, func() error { return k.Store.Complete(ctx, l, o) })
}

// Release implements store.Store.
func (k link) Release(ctx context.Context, l store.Lease) error {
	return k.over(ctx, func() error { return k.Store.Release(ctx, l) })
}

// Find implements store.Store. A read that fails has no unknown effect.
func (k link) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	k.p.waitForResume()
	if k.p.dead.Load() || k.p.down.Load() && !k.p.life.calm.Load() || k.p.life.drawFault() != none {
		return store.Record{}, store.ErrUnavailable
	}
	return k.Store.Find(ctx, id)
}

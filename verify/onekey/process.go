package onekey

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/verify/internal/link"
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
	mw, err := server.New(p.link(), opts...)
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

// link is the process's connection to the store.
func (p *process) link() link.Link {
	return link.Link{
		Store: p.life.store, Before: p.waitForResume, After: p.waitForResume, Draw: p.life.drawFault,
		Down: func() bool { return p.dead.Load() || p.down.Load() && !p.life.calm.Load() },
	}
}

package onekey

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/verify/internal/random"
)

const (
	leaseTTL       = 3 * time.Second
	storeTimeout   = time.Second
	handlerTimeout = 4 * time.Second
	maxResponse    = 200
)

// A process serves the operation until it is killed. Its handlers may run on then, without an effect.
type process struct {
	random.Process
	life       *life
	background server.Background
	handler    http.Handler
}

func (l *life) start() (*process, error) {
	p := &process{life: l}
	p.Start(l.Life)
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
	mw, err := server.New(p.Link(l.store), opts...)
	if err != nil {
		return nil, err
	}
	p.handler = mw(http.HandlerFunc(p.serve))
	return p, nil
}

// Kill ends the process's work. Nothing that it does later has an effect.
func (p *process) Kill() {
	p.Process.Kill()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	go func() { _ = p.background.Shutdown(ended) }()
}

// die is a step of a handler whose process is killed. It does not return.
func (p *process) die() {
	p.Kill()
	panic(http.ErrAbortHandler)
}

// live waits until a stopped process goes on, and ends the handler of one that was killed.
func (p *process) live() {
	p.WaitForResume()
	if p.Dead.Load() {
		panic(http.ErrAbortHandler)
	}
}

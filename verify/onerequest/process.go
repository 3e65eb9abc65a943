package onerequest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/verify/internal/random"
)

const (
	leaseTTL     = 3 * time.Second
	storeTimeout = time.Second
	statusPath   = "/status"
)

// A process is a gateway until it is killed.
type process struct {
	random.Process
	life    *life
	gateway *gateway.Gateway
	ctx     context.Context
	end     context.CancelFunc
}

// A backend has the methods of a store that a gateway needs.
type backend interface {
	store.Store
	store.Forgetter
	store.Lister
}

func (l *life) start() (*process, error) {
	p := &process{life: l}
	p.Start(l.Life)
	way := p.Link(l.store)
	travel := func(ctx context.Context) { p.Travel(ctx, storeTimeout/4) }
	way.Before, way.After = travel, travel
	g, err := gateway.New(&url.URL{Scheme: "https", Host: "upstream.test"}, way,
		gateway.Principal(func(*http.Request) string { return "phone" }),
		gateway.Secret([]byte("a secret of the gateways")), gateway.Wait(l.wait), gateway.StatusPath(statusPath),
		gateway.Client(redo.WithTransport(p), redo.WithRetry(redo.RetryPolicy{
			MaxAttempts: l.attempts, BaseDelay: 200 * time.Millisecond, AttemptTimeout: 3 * time.Second,
			MaxElapsed: 10 * time.Second,
		})),
		gateway.Middleware(server.LeaseTTL(leaseTTL), server.StoreTimeout(storeTimeout),
			server.Logger(slog.New(slog.DiscardHandler))),
	)
	if err != nil {
		return nil, err
	}
	p.gateway = g
	p.ctx, p.end = context.WithCancel(context.Background())
	go func() {
		if err := g.Run(p.ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, redo.ErrClosed) {
			l.Violate("Run returns %v", err)
		}
	}()
	return p, nil
}

// Kill ends the process's work. Nothing that it does later has an effect.
func (p *process) Kill() {
	p.Process.Kill()
	p.end()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	go func() { _ = p.gateway.Shutdown(ended) }()
}

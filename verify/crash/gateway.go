package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/server"
)

// runGateway is a gateway's process.
func runGateway(ctx context.Context, r role) error {
	at, err := r.Place.open(ctx, r.Dir, "gateway")
	if err != nil {
		return err
	}
	upstream, err := url.Parse(r.Back)
	if err != nil {
		return err
	}
	g, err := gateway.New(upstream, at.records, gateway.Principal(user), gateway.Secret([]byte(r.Secret)),
		gateway.Wait(patience/2),
		gateway.Client(redo.WithRetry(quick), redo.WithBudget(limit.Budget{Unlimited: true}),
			redo.WithTransport(&http.Transport{ResponseHeaderTimeout: patience, MaxIdleConnsPerHost: workers})),
		gateway.Middleware(server.LeaseTTL(leaseTTL), server.StoreTimeout(storeTimeout), server.Required()))
	if err != nil {
		return err
	}
	go func() { _ = g.Run(ctx) }()
	return listen(g)
}

// quick is the retry policy of gateways and clients. A call ends before the client's patience, and is made again.
var quick = redo.RetryPolicy{
	MaxAttempts: 8, BaseDelay: 10 * time.Millisecond, MaxDelay: 100 * time.Millisecond, MaxElapsed: 5 * time.Second,
	AttemptTimeout: patience,
}

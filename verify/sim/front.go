package sim

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/server"
)

// newGateway starts a gateway process in its place. Run continues the operations that a dead gateway left pending.
func (w *world) newGateway(place, generation int, link *link) (*process, error) {
	p := w.newProcess(fmt.Sprintf("gateway%d.%d", place, generation), gatewayHost)
	var transport http.RoundTripper = wire{p}
	if wrap := w.defect.transport; wrap != nil {
		transport = wrap(w, transport)
	}
	secret := "a secret of the simulation"
	if w.defect.secrets {
		secret += p.name
	}
	upstream := &url.URL{Scheme: "http", Host: serviceHost}
	g, err := gateway.New(upstream, w.clientStore(p, link),
		gateway.Principal(principal), gateway.Secret([]byte(secret)), gateway.Wait(2*time.Second),
		gateway.Client(
			redo.WithTransport(transport), redo.WithRetry(w.plan.policy(w.plan.work)),
			redo.WithBudget(limit.Budget{Ratio: budgetRatio, Reserve: w.plan.reserve}),
		),
		gateway.Middleware(server.LeaseTTL(w.plan.lease), server.Required()),
	)
	if err != nil {
		return nil, err
	}
	p.serve = g.ServeHTTP
	w.atEnd(func(ctx context.Context) { _ = g.Shutdown(ctx) })
	ctx, cancel := context.WithCancel(w.context)
	p.atEnd(cancel)
	go func() { _ = g.Run(ctx) }()
	w.net.listen(p, place)
	return p, nil
}

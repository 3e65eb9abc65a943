package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

// A Gateway forwards requests to one upstream. Create one with [New].
type Gateway struct {
	config
	client     *redo.Client
	background server.Background
	proxy      *httputil.ReverseProxy
	guarded    http.Handler // the proxy behind the middleware
	status     http.Handler // nil without StatusPath
}

// New returns a gateway for an upstream, whose requests and responses it keeps in st. The path of the URL precedes that
// of each request. A pending request belongs to the URL to which it was sent first: change the URL only while no
// operation is pending. The error names every option that is wrong.
func New(upstream *url.URL, st store.Store, opts ...Option) (*Gateway, error) {
	c, err := newConfig(opts)
	if null.Is(st) {
		err = errors.Join(errors.New("gateway: the store must not be nil"), err)
	}
	if upstream == nil || upstream.Host == "" || upstream.Scheme != "http" && upstream.Scheme != "https" {
		err = errors.Join(fmt.Errorf("gateway: the upstream %v is not an absolute http or https URL", upstream), err)
	}
	if err == nil {
		err = plain(upstream)
	}
	if err != nil {
		return nil, err
	}
	g := &Gateway{config: c}
	profile := redo.RedoProfile()
	profile.KeepHeaders = true // an app's headers must not keep Run from continuing its requests
	profile.AnyHeaders = true  // a repetition is known by its key, path and body, as in the middleware in front
	g.client, err = redo.New(slices.Concat(
		[]redo.Option{redo.WithProfile(profile)}, c.client,
		[]redo.Option{redo.WithStore(st), redo.WithScope("gateway"), redo.WithMaxBufferedBody(c.maxBuffered)})...)
	if err == nil {
		err = sends(g.client.Profile())
	}
	if err != nil {
		return nil, err
	}
	options := slices.Concat([]server.Option{server.Methods(guardedMethods...)}, c.middleware, g.guards())
	guard, err := server.New(newLazyStore(st), options...)
	if err != nil {
		return nil, err
	}
	if c.statusPath != "" {
		g.status, err = server.StatusHandler(st, options...)
		if err != nil {
			return nil, err
		}
	}
	g.proxy = g.newProxy(upstream)
	g.guarded = guard(http.HandlerFunc(g.forward))
	return g, nil
}

// sends returns an error for a profile under which the upstream keys can't be sent.
func sends(p redo.Profile) error {
	switch {
	case p.NoKeys:
		return fmt.Errorf("gateway: the profile %q has no idempotency keys, the upstream must honour them", p.Name)
	case p.KeyInBody:
		return fmt.Errorf("gateway: the profile %q has the key in the body, the gateway sends it in a header", p.Name)
	case p.MaxKey < keyLength:
		return fmt.Errorf("gateway: the profile %q takes keys of at most %d bytes, those of the gateway have %d",
			p.Name, p.MaxKey, keyLength)
	}
	return nil
}

// plain returns an error for an upstream with a part that would be lost.
func plain(upstream *url.URL) error {
	switch {
	case upstream.User != nil:
		return errors.New("gateway: the upstream has credentials in its URL: set them with Client(redo.WithCredentials(f))")
	case upstream.Fragment != "":
		return fmt.Errorf("gateway: the upstream has the fragment %q, which is never sent", upstream.Fragment)
	case upstream.Hostname() == "":
		return fmt.Errorf("gateway: the upstream %q has no host name", upstream.Host)
	}
	if port := upstream.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("gateway: the upstream has the port %q, it must be from 1 to 65535", port)
		}
	}
	return nil
}

// guards returns the options of the middleware that the gateway sets itself. All routes of an upstream share one scope:
// the fingerprint has the path, so that a key is refused on a second path.
func (g *Gateway) guards() []server.Option {
	return []server.Option{
		server.Principal(func(r *http.Request) string { return tapOf(r.Context()).user }),
		server.Header(wire.HeaderKey), server.Route("gateway"), server.MaxBody(g.maxBuffered), server.Wait(g.wait),
		server.RunIn(&g.background),
	}
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.status != nil && r.URL.Path == g.statusPath {
		g.serveStatus(w, r)
		return
	}
	r, t := g.read(r)
	if t.keyed && !wire.SafeMethod(r.Method) && g.long(r) {
		g.stream(w, r, t)
		return
	}
	if g.status != nil && t.key != "" {
		w = &accepting{ResponseWriter: w, location: g.statusURL(t.key)}
	}
	g.guarded.ServeHTTP(w, r)
}

// guardedMethods are the methods whose requests the middleware records, unless an option sets others.
var guardedMethods = []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

// forward is the handler behind the middleware. A request without a key goes upstream as it is. A key goes upstream
// with any other unsafe method too.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	t := tapOf(r.Context())
	if key := server.Key(r.Context()); key != "" {
		r = r.WithContext(named(r.Context(), g.upstreamKey(t.user, key)))
	} else if t.key != "" && t.user != "" && !wire.SafeMethod(r.Method) {
		r = r.WithContext(redo.WithKey(r.Context(), g.upstreamKey(t.user, t.key)))
	}
	g.proxy.ServeHTTP(w, r)
}

// resumeEvery is the pause between two searches for operations of a crashed gateway.
const resumeEvery = 5 * time.Second

// Run continues the operations that a crashed gateway has left behind, until ctx ends. Gateways that share the store
// take turns. Run returns the error of ctx, or redo.ErrClosed after Shutdown.
func (g *Gateway) Run(ctx context.Context) error { return g.client.ResumeEvery(ctx, resumeEvery, nil) }

// Shutdown waits until every response is recorded, or until ctx ends. Call it after http.Server.Shutdown and before the
// store is closed.
func (g *Gateway) Shutdown(ctx context.Context) error {
	return errors.Join(g.background.Shutdown(ctx), g.client.Close())
}

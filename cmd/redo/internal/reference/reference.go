// Package reference is a server that keeps the rules of the Idempotency-Key: redo's middleware in front of a shop. It
// counts effects and has everything else that a conformance target can declare. It plays scripts of faults, to check
// clients.
package reference

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/internal/shop"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Config holds the server's settings. The zero value is a server with redo's own profile that requires keys, over
// a store in memory.
type Config struct {
	// Store keeps the records and stays the caller's to close; nil is one in memory.
	Store store.Store
	// Profile is redo, ietf or stripe; empty is redo.
	Profile string
	// KeyOptional runs requests without a key.
	KeyOptional bool
	// Wait is the maximum time that a duplicate waits for the first request. Zero refuses the duplicate.
	Wait time.Duration
	// Bare forgets keys: every request makes an effect.
	Bare bool
	// Script lists the faults of requests, see package script.
	Script []servertest.Option
}

// How the target's special operations are set.
const (
	slowness       = 400 * time.Millisecond
	shortRetention = 2 * time.Second
	lease          = time.Second
)

// Profiles returns the names that Config.Profile may have.
func Profiles() []string { return []string{"redo", "ietf", "stripe"} }

// Serve starts the server on the listener, which it owns from then on. The caller closes it. If logf is not nil,
// it logs panics.
func Serve(l net.Listener, cfg Config, logf func(string, ...any)) (*servertest.Server, error) {
	if cfg.Profile != "" && !slices.Contains(Profiles(), cfg.Profile) {
		_ = l.Close() // nothing was accepted yet
		return nil, fmt.Errorf("there is no profile %q, there are %s", cfg.Profile, strings.Join(Profiles(), ", "))
	}
	s := newApp()
	opts := append([]servertest.Option{servertest.Handler(s), servertest.Principal(principal)}, cfg.Script...)
	switch {
	case cfg.Bare && cfg.Store != nil:
		_ = l.Close() // as above
		return nil, errors.New("a bare server forgets keys, and so has no store")
	case cfg.Bare:
		opts = append(opts, servertest.Bare())
	default:
		if cfg.Store != nil {
			opts = append(opts, servertest.WithStore(cfg.Store))
		}
		opts = append(opts, servertest.Guard(cfg.guard))
	}
	srv, err := servertest.Serve(l, logf, opts...)
	if err != nil {
		return nil, err
	}
	s.open(srv.Ledger())
	return srv, nil
}

// guard makes the middlewares: one of the routes, and one of the route whose keys are forgotten soon.
func (c Config) guard(st store.Store) (func(http.Handler) http.Handler, error) {
	opts := []server.Option{server.Principal(principal), server.LeaseTTL(lease), server.Wait(c.Wait),
		server.MaxResponse(2 << 20)}
	if !c.KeyOptional {
		opts = append(opts, server.Required())
	}
	switch c.Profile {
	case "ietf":
		opts = append(opts, server.IETFStatuses())
	case "stripe":
		opts = append(opts, server.Keep(func(status int) bool { return status >= 500 || server.DefaultKeep(status) }))
	}
	usual, err := server.New(st, opts...)
	if err != nil {
		return nil, err
	}
	short, err := server.New(st, append(opts, server.Retention(shortRetention))...)
	if err != nil {
		return nil, err
	}
	return func(h http.Handler) http.Handler {
		usual, short := usual(h), short(h)
		routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/short" {
				short.ServeHTTP(w, r)
				return
			}
			usual.ServeHTTP(w, r)
		})
		if c.Profile == "stripe" {
			return browsers(stripeStatuses(routes))
		}
		return browsers(routes)
	}, nil
}

// origin is the origin of the pages that may send orders.
const origin = "http://localhost:3000"

// browsers lets pages of that origin send orders. It is outside of the middleware: a preflight has no key, and a replay
// has the headers for its own page.
func browsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if r.Header.Get("Origin") == origin {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", wire.HeaderReplayed+", "+wire.HeaderStatus)
			if r.Method == http.MethodOptions {
				h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, "+wire.HeaderKey)
				h.Set("Access-Control-Allow-Methods", "POST, PATCH")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// principal is whose token it is. Those without one are one principal.
func principal(r *http.Request) string {
	if token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); token != "" {
		return token
	}
	return "anonymous"
}

// stripeStatuses responds to a mismatch with Stripe's status, for which the middleware has no option.
func stripeStatuses(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&stripeWriter{ResponseWriter: w}, r)
	})
}

type stripeWriter struct {
	http.ResponseWriter
	replaced bool
}

func (w *stripeWriter) WriteHeader(status int) {
	if status != http.StatusConflict || w.Header().Get("Error-Code") != string(taxonomy.PayloadMismatch) {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.replaced = true
	w.Header().Del("Content-Length")
	wire.WriteProblem(w.ResponseWriter, wire.Problem{
		Title: "Idempotency-Key used for another request", Status: http.StatusBadRequest,
		Code: string(taxonomy.PayloadMismatch),
	})
}

func (w *stripeWriter) Write(b []byte) (int, error) {
	if w.replaced {
		return len(b), nil // of the document that was replaced
	}
	return w.ResponseWriter.Write(b)
}

func (w *stripeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Target describes the server for conformance runs.
func Target(baseURL string, c Config) conformance.Target {
	required := !c.KeyOptional
	t := conformance.Target{
		Name:    "redo serve",
		BaseURL: baseURL,
		Profile: c.Profile,
		Operation: conformance.Operation{
			Method: "POST", Path: "/orders",
			Headers: map[string]string{"Content-Type": "application/json"},
			Body:    `{"account":"{{case}}","item":"{{payload}}","amount":{{number}}}`,
		},
		Key: conformance.Key{Required: &required, MaxLength: 255, Strict: true},
		Principals: []conformance.Principal{
			{Name: "alice", Headers: map[string]string{"Authorization": "Bearer alice-of-redo-serve"}},
			{Name: "bob", Headers: map[string]string{"Authorization": "Bearer bob-of-redo-serve"}},
		},
		Effects: &conformance.Effects{URL: "/effects?account={{case}}", Path: "count"},
		Second:  &conformance.Operation{Path: "/refunds"},
		Patch:   &conformance.Operation{Method: "PATCH"},
		Empty:   &conformance.Operation{Path: "/empty"},
		Large:   &conformance.Operation{Path: "/large"},
		Invalid: &conformance.Operation{Body: `{"account":"{{case}}","item":"{{payload}}","amount":0}`},
		Interim: new(headed(shop.HeaderInterim, "1")),
		Get:     &conformance.Operation{Method: "GET", Path: "/orders?account={{case}}"},
		Query: &conformance.Operation{Method: "QUERY", Path: "/orders?account={{case}}",
			Body: `{"item":"{{payload}}"}`},
		Advertised: &conformance.Advertised{
			Operation: conformance.Operation{Method: "GET", Path: "/config"}, Member: "idempotency-key-lifetime",
		},
		Fault:   &conformance.Fault{Operation: headed(shop.HeaderFault, "500")},
		Limited: new(headed(shop.HeaderFault, "429")),
		Slow: &conformance.Slow{
			Operation: headed(shop.HeaderSlow, slowness.String()), Takes: conformance.Duration(slowness),
		},
		Crash: &conformance.Crash{
			Operation: headed(shop.HeaderFault, "crash"), Lease: conformance.Duration(2 * lease),
		},
		Expiring: &conformance.Expiring{Operation: conformance.Operation{Path: "/short"},
			Retention: conformance.Duration(shortRetention)},
	}
	if !c.Bare {
		t.Origin = origin
	}
	return t
}

// headed returns the variant that a header selects.
func headed(name, value string) conformance.Operation {
	return conformance.Operation{Headers: map[string]string{name: value}}
}

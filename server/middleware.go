package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Middleware returns a function that makes a handler safe to repeat, with its records in st. The function may wrap any
// number of handlers. They share the limits on waiters.
//
// With wrong options no handler runs, and every response is a 500 that names the options. A wrong option therefore
// never leaves a handler untracked. [New] returns the error instead.
func Middleware(st store.Store, opts ...Option) func(http.Handler) http.Handler {
	cfg, err := newConfig(opts)
	mw, err := newMiddleware(st, cfg, err)
	if err != nil {
		return func(http.Handler) http.Handler { return cfg.refuseAll(err) }
	}
	return mw
}

// New is Middleware with an error, which names every option that is wrong.
func New(st store.Store, opts ...Option) (func(http.Handler) http.Handler, error) {
	cfg, err := newConfig(opts)
	return newMiddleware(st, cfg, err)
}

// newMiddleware returns the middleware of a configuration. err is the error of its options.
func newMiddleware(st store.Store, cfg config, err error) (func(http.Handler) http.Handler, error) {
	var begin opener
	switch {
	case null.Is(st):
		err = errors.Join(errNoStore, err)
	case cfg.transactional != nil:
		var unfit error
		begin, unfit = cfg.transactional(st)
		err = errors.Join(unfit, err)
	}
	if err != nil {
		return nil, err
	}
	g := &gate{config: cfg, store: &observedStore{st, cfg.observer}, begin: begin}
	if g.background == nil {
		g.background, g.running = new(Background), &unbound
	} else {
		g.running = &g.background.running
	}
	if g.records = g; reflect.ValueOf(st).Comparable() {
		g.records = st
	}
	if cfg.wait > 0 {
		if waiter, ok := st.(store.Waiter); ok {
			g.waiter = waiter
		} else {
			g.waiter = store.Poll(st)
		}
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			return cfg.refuseAll(errors.New("server: the handler must not be nil"))
		}
		return &route{gate: g, next: next}
	}, nil
}

// errNoStore is the error for a nil store.
var errNoStore = errors.New("server: the store must not be nil")

// A gate is one middleware: its options, its store and the requests that wait.
type gate struct {
	config
	store   *observedStore
	running *registry
	records any    // the store as an identity: several middlewares may share its records
	begin   opener // nil: by lease
	waiter  store.Waiter
	seats   seats
}

// A route is one handler behind a gate.
type route struct {
	*gate
	next     http.Handler
	duration estimate
}

// ServeHTTP implements http.Handler.
func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rt.skip != nil && rt.skip(r) || !rt.covers(r.Method) {
		rt.next.ServeHTTP(w, r)
		return
	}
	key, err := wire.ParseKey(r.Header[rt.keyHeader])
	if errors.Is(err, wire.ErrKeyMissing) && !rt.required {
		rt.next.ServeHTTP(w, r)
		return
	}
	c := &execution{route: rt, w: w, r: r, key: key, started: time.Now()}
	c.observe()
	defer c.report()
	if err != nil {
		no := c.refuseKey(err)
		c.refuse(no.code, no.detail)
		return
	}
	c.background.requests.Add(1)
	defer c.background.leave()
	if c.admit() {
		c.serve()
	}
}

// admit makes the checks that need no store, and makes the claim. It reports false if it has refused the request.
func (c *execution) admit() bool {
	principal, no := c.checkOwner(c.r, c.key)
	if no != nil {
		c.refuse(no.code, no.detail)
		return false
	}
	c.caller = principal
	payload, err := readBody(c.r, c.maxBody)
	if err != nil {
		c.refuseBody(err)
		return false
	}
	c.payload = payload
	fp, err := c.identify()
	if err != nil {
		c.refuse(taxonomy.BadRequest, "The body can't be identified: "+plain(err)+".")
		return false
	}
	c.claim = store.Claim{
		ID:          c.recordID(c.r, c.key, c.caller, c.pepper()),
		Fingerprint: fp,
		Lease:       c.leaseTTL,
		Retention:   c.retention,
	}
	return true
}

// serve reserves the key and acts on the verdict.
func (c *execution) serve() {
	c.start()
	defer c.unguard() // after stop, which ends an open transaction
	defer c.stop()

	old := c.refuseExpired && expired(c.key, c.retention, time.Now())
	if old && !c.remembered() {
		return
	}
	g, err := c.reserve()
	if err == nil && g.Verdict == store.InFlight {
		c.used = true
		if c.nested() {
			c.refuseNested()
			return
		}
		if c.wait > 0 {
			g, err = c.await(g)
		}
	}
	if err != nil {
		c.storeDown(err)
		return
	}
	c.event.From = g.Record.State
	c.event.To = g.Record.State
	switch g.Verdict {
	case store.Acquired:
		c.event.From = 0
		if old {
			// The record that remembered found has expired since.
			_ = c.own.release()
			c.refuseOld()
			return
		}
		c.event.Kind = Created
		c.execute(g)
	case store.TakenOver:
		c.event.Kind = TookOver
		c.execute(g)
	case store.Complete, store.Failed:
		c.replay(g.Record)
	case store.InFlight:
		c.refuseInFlight(g.Record)
	case store.Mismatch:
		c.refuse(taxonomy.PayloadMismatch, "The key was used for another request on this route. Send that "+
			"request again, or send this one under a new key.")
	default:
		c.storeDown(errors.New("server: the store gave " + g.Verdict.String()))
	}
}

// remembered reports whether an old key has a record. If not, it refuses the request before anything is written.
func (c *execution) remembered() bool {
	ids := c.recordIDs(c.r, c.key, c.caller)
	if _, ok := c.runs(ids); ok {
		return true // also while the store is down
	}
	_, err := find(c.callContext(time.Now()), c.store, ids)
	switch {
	case err == nil:
		c.used = true
		return true
	case errors.Is(err, store.ErrNotFound):
		c.refuseOld()
	default:
		c.storeDown(err)
	}
	return false
}

// find returns the first record that one of the IDs has, or store.ErrNotFound.
func find(ctx context.Context, st store.Store, ids []store.ID) (rec store.Record, err error) {
	for _, id := range ids {
		if rec, err = st.Find(ctx, id); !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	return rec, err
}

// replay sends the recorded response.
func (c *execution) replay(rec store.Record) {
	if rec.OutcomeUnknown() {
		c.refuse(taxonomy.OutcomeUnknown,
			"The outcome of the first request with this key is not known: read its effect back.")
		return
	}
	resp, err := wire.DecodeResponse(rec.Result)
	switch {
	case errors.Is(err, wire.ErrNotStored) && rec.State == store.StateFailed: // ResultNotStored would mean: applied
		c.refuse(taxonomy.OutcomeUnknown, fmt.Sprintf("The request failed with the status %d, and its response was "+
			"not kept.", resp.Status))
		return
	case errors.Is(err, wire.ErrNotStored):
		c.refuse(taxonomy.ResultNotStored, "The request was done, and its response was not kept.")
		return
	case err != nil:
		// The handler must not run again.
		c.err = err
		no := unreadable(err)
		c.refuse(no.code, no.detail)
		return
	}
	c.event.Kind, c.event.Status = Replayed, resp.Status
	h := c.w.Header()
	for name, list := range resp.Header {
		if c.replayHeader == nil || c.replayHeader(http.CanonicalHeaderKey(name)) {
			h[name] = list
		}
	}
	h[wire.HeaderStatus] = replayedValues
	h[wire.HeaderReplayed] = trueValues
	if bodyAllowed(resp.Status) {
		setLength(h, nil, len(resp.Body))
	}
	c.w.WriteHeader(resp.Status)
	if resp.Body != nil {
		_, _ = c.w.Write(resp.Body) // a client that is gone may ask again
	}
}

// plain returns the text of an error for a client, without the package's prefix.
func plain(err error) string {
	s := err.Error()
	for _, prefix := range [...]string{"server: ", "store: "} {
		s = strings.TrimPrefix(s, prefix)
	}
	return s
}

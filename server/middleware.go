package server

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Middleware returns what makes a handler safe to repeat, with its records in st. It may wrap any number of
// handlers; those share the limit on waiters.
//
// With wrong options (see New, which returns the error instead) every request is answered with a 500 problem that
// names them, and no handler runs: nothing is ever done untracked because of a typing error.
func Middleware(st store.Store, opts ...Option) func(http.Handler) http.Handler {
	mw, err := New(st, opts...)
	if err != nil {
		return func(http.Handler) http.Handler { return refuseAll(err) }
	}
	return mw
}

// New is Middleware with an error, which names every option that is wrong.
func New(st store.Store, opts ...Option) (func(http.Handler) http.Handler, error) {
	cfg, err := newConfig(opts)
	var begin opener
	switch {
	case st == nil:
		err = errors.Join(errors.New("server: the store must not be nil"), err)
	case cfg.transactional != nil:
		var unfit error
		begin, unfit = cfg.transactional(st)
		err = errors.Join(unfit, err)
	}
	if err != nil {
		return nil, err
	}
	g := &gate{config: cfg, store: st, begin: begin, places: make(chan struct{}, cfg.maxWaiters)}
	if cfg.wait > 0 {
		if waiter, ok := st.(store.Waiter); ok {
			g.waiter = waiter
		} else {
			g.waiter = newPoller(st, cfg.storeTimeout)
		}
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			return refuseAll(errors.New("server: the handler must not be nil"))
		}
		return &route{gate: g, next: next}
	}, nil
}

// A gate is one middleware: its options, its store and its waiting room.
type gate struct {
	config
	store  store.Store
	begin  opener // nil: by lease
	waiter store.Waiter
	places chan struct{} // one taken for each request that waits
}

// A route is one handler behind a gate.
type route struct {
	*gate
	next     http.Handler
	duration estimate
}

// ServeHTTP implements http.Handler.
func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !rt.covers(r.Method) {
		rt.next.ServeHTTP(w, r)
		return
	}
	key, err := wire.ParseKey(r.Header[rt.keyHeader])
	if errors.Is(err, wire.ErrKeyMissing) && !rt.required {
		rt.next.ServeHTTP(w, r)
		return
	}
	c := &execution{route: rt, w: w, r: r, key: key, started: time.Now()}
	defer c.report()
	if err != nil {
		c.refuseKey(err)
		return
	}
	if c.admit() {
		c.serve()
	}
}

// admit checks what can be checked without the store, and makes the claim. It answers what it refuses.
func (c *execution) admit() bool {
	if err := c.checkFormat(c.key); err != nil {
		c.refuse(taxonomy.KeyMalformed, "The key breaks a rule of this route: "+err.Error()+".")
		return false
	}
	principal := ""
	if c.principal != nil {
		if principal = c.principal(c.r); principal == "" {
			c.refuse(taxonomy.Unauthenticated, "A key belongs to an authenticated principal, and there is none.")
			return false
		}
	}
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
		ID:          c.recordID(c.r, c.key, principal),
		Fingerprint: fp,
		Lease:       c.leaseTTL,
		Retention:   c.retention,
	}
	return true
}

// serve reserves the key and does what the verdict asks for.
func (c *execution) serve() {
	c.open()
	defer c.close()

	old := c.refuseExpired && expired(c.key, c.retention, time.Now())
	if old && !c.remembered() {
		return
	}
	g, err := c.reserve()
	if err == nil && g.Verdict == store.InFlight && c.wait > 0 {
		g, err = c.await(g)
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
			// The record that remembered saw has expired since.
			_ = c.own.giveBack()
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
		c.refuse(taxonomy.PayloadMismatch, "The key was used for another request on this route.")
	default:
		c.storeDown(errors.New("server: the store gave " + g.Verdict.String()))
	}
}

// remembered looks an old key up before anything is written for it.
func (c *execution) remembered() bool {
	_, err := c.find(c.visit(), c.claim.ID)
	switch {
	case err == nil:
		return true
	case errors.Is(err, store.ErrNotFound):
		c.refuseOld()
	default:
		c.storeDown(err)
	}
	return false
}

// replay answers with what is recorded.
func (c *execution) replay(rec store.Record) {
	if rec.OutcomeUnknown() {
		c.refuse(taxonomy.OutcomeUnknown, "What the first request with this key did is not known: read back what it did.")
		return
	}
	resp, err := wire.DecodeResponse(rec.Result)
	switch {
	case errors.Is(err, wire.ErrNotStored):
		c.refuse(taxonomy.ResultNotStored, "The request was done, and its response was not kept.")
		return
	case err != nil:
		// Running the handler again is the one thing that must not happen here.
		c.err = err
		c.refuse(Unreadable, "The stored response was written by another version of this service, or is damaged.")
		return
	}
	c.event.Kind, c.event.Status = Replayed, resp.Status
	h := c.w.Header()
	for name, list := range resp.Header {
		h[name] = list
	}
	h[wire.HeaderStatus] = replayedValues
	h[wire.HeaderReplayed] = trueValues
	if bodyAllowed(resp.Status) {
		setLength(h, len(resp.Body))
	}
	c.w.WriteHeader(resp.Status)
	if resp.Body != nil {
		_, _ = c.w.Write(resp.Body) // a client that is gone may ask again
	}
}

// plain takes the package's prefix off an error that a client is told.
func plain(err error) string {
	s := err.Error()
	for _, prefix := range [...]string{"wire: ", "server: ", "store: "} {
		s = strings.TrimPrefix(s, prefix)
	}
	return s
}

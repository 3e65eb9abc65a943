package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// StatusHandler returns a handler that reports the state of a key to the principal that used it. It serves GET and
// HEAD, and reads the key from the same header as the middleware. The body of a 200 is JSON, for example:
//
//	{"state":"complete","status":201}
//
// The state is pending, complete, failed or unknown:
//
//	pending    a request is running, or it has died and the next one takes the key over
//	complete   the request was done; status is that of its response
//	failed     the request was refused for good; status is that of its response
//	unknown    the request has ended or died, and its effect is not known; the next one is refused; there is no status
//
// A key without a record, a key of another principal, and a key whose transaction is still open all get 404 with the
// same body. Other refusals are those of the middleware, and [Refusal] renders them.
//
// The options are those of the route whose keys are reported. [Route] is required, because the handler's own pattern
// is not that of the route. If the route has no name, give the route's pattern as the name:
//
//	mux.Handle("POST /refunds", server.Middleware(st, server.Principal(customer))(createRefund))
//	status, err := server.StatusHandler(st, server.Principal(customer), server.Route("POST /refunds"))
//	mux.Handle("GET /refunds/status", status)
//
// The host of a pattern is part of the scope of its keys. If the name has a host, as in "POST a.example/refunds" or
// "a.example/refund", the handler may be served at any host. Otherwise serve it under a pattern with the route's host,
// or with none if the route's pattern has none.
//
// The error names every option that is wrong. An observer gets the calls to the store, and no event.
func StatusHandler(st store.Store, opts ...Option) (http.Handler, error) {
	cfg, err := newConfig(opts)
	if null.Is(st) {
		err = errors.Join(errNoStore, err)
	}
	if cfg.routeName == "" {
		err = errors.Join(err, errNoRoute)
	}
	if err != nil {
		return nil, err
	}
	return &statusHandler{cfg, &observedStore{st, cfg.observer}}, nil
}

// errNoRoute is the error of StatusHandler for a configuration without a name.
var errNoRoute = errors.New("server: StatusHandler requires Route, " +
	"with the name or the pattern of the route whose keys it reports")

// A statusHandler reports the states of a route's keys.
type statusHandler struct {
	config
	store *observedStore
}

// ServeHTTP implements http.Handler.
func (s *statusHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, status, refused := s.read(r)
	if refused != nil {
		p := s.problem(refused.code, refused.detail)
		p.Key = key
		switch {
		case refused.code == taxonomy.MethodNotAllowed:
			w.Header().Set("Allow", "GET, HEAD")
		case refused.code.In(taxonomy.Dependency):
			p.RetryAfter = time.Duration(seconds(time.Second, random())) * time.Second
		}
		s.send(w, r, p)
		return
	}
	wire.WriteStatus(w, status)
}

// read returns the key of the request and its status, or why the request is refused.
func (s *statusHandler) read(r *http.Request) (string, wire.KeyStatus, *refused) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return "", wire.KeyStatus{}, &refused{taxonomy.MethodNotAllowed, "The status of a key is read with GET."}
	}
	key, err := wire.ParseKey(r.Header[s.keyHeader])
	if err != nil {
		return key, wire.KeyStatus{}, s.refuseKey(err)
	}
	principal, no := s.checkOwner(r, key)
	if no != nil {
		return key, wire.KeyStatus{}, no
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.storeTimeout, errStoreTimeout)
	defer cancel()
	rec, err := find(ctx, s.store, s.reported(r, key, principal))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return key, wire.KeyStatus{}, &refused{taxonomy.NotFound, "No request with this key is known on this route."}
	case err != nil:
		s.logError(r, err)
		return key, wire.KeyStatus{}, &refused{taxonomy.Unavailable, "The status of the key can't be read now."}
	}
	status, err := s.statusOf(rec)
	if err != nil {
		s.logError(r, err)
		return key, wire.KeyStatus{}, unreadable(err)
	}
	return key, status, nil
}

// reported returns the IDs that the key's record may have: those at the handler's own host, and those at the host in
// the route's name. A name with a slash may have no host, so both are needed.
func (s *statusHandler) reported(r *http.Request, key, principal string) []store.ID {
	ids := s.recordIDs(r, key, principal)
	if own, host := hostOf(r.Pattern), hostOf(s.routeName); own != "" && host != "" && own != host {
		route := r.WithContext(r.Context())
		route.Pattern = s.routeName
		ids = append(ids, s.recordIDs(route, key, principal)...)
	}
	return ids
}

func (s *statusHandler) logError(r *http.Request, err error) {
	if s.logger != nil {
		s.logger.LogAttrs(r.Context(), slog.LevelError, "idempotency key status",
			slog.String("operation", s.routeName), slog.String("error", err.Error()))
	}
}

// statusOf returns the status that a record shows. It returns an error if the stored response can't be read.
func (s *statusHandler) statusOf(rec store.Record) (wire.KeyStatus, error) {
	switch {
	case rec.State == store.StatePending && !s.stuck(rec):
		return wire.KeyStatus{State: "pending"}, nil
	case rec.State == store.StatePending, rec.OutcomeUnknown():
		return wire.KeyStatus{State: "unknown"}, nil
	}
	resp, err := wire.DecodeResponse(rec.Result)
	if err != nil && !errors.Is(err, wire.ErrNotStored) {
		return wire.KeyStatus{}, err
	}
	return wire.KeyStatus{State: rec.State.String(), Status: resp.Status}, nil
}

// stuck reports whether the owner of a pending record has died and the route lets no request take the key over.
func (s *statusHandler) stuck(rec store.Record) bool {
	left, err := decodeNote(rec.Meta)
	return err == nil && rec.LeaseLeft() == 0 && s.takeOver.refuses(left)
}

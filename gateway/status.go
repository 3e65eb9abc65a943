package gateway

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// serveStatus serves the state of the key in the query.
func (g *Gateway) serveStatus(w http.ResponseWriter, r *http.Request) {
	if key := r.URL.Query().Get("key"); key != "" && len(wire.Lines(r.Header, wire.HeaderKey)) == 0 {
		if as, err := wire.ParseKey([]string{key}); err == nil {
			key = as // it may have the form of the header, as in statusURL
		}
		r = keyed(r, key)
	}
	r, t := g.read(r)
	// Run may have continued the operation. The middleware's record is then pending until the phone repeats its request.
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && t.key != "" && t.user != "" {
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		op, err := g.client.Find(ctx, operationName(g.upstreamKey(t.user, t.key)))
		cancel()
		refused := op.State == store.StateFailed && op.Finding == nil // else a repetition is sent again
		if err == nil && (op.State == store.StateComplete || refused) {
			wire.WriteStatus(w, wire.KeyStatus{State: op.State.String(), Status: op.StatusCode})
			return
		}
	}
	g.status.ServeHTTP(w, r)
}

// statusURL returns the URL of a request's state.
func (g *Gateway) statusURL(key string) string {
	return g.statusPath + "?" + url.Values{"key": {wire.FormatKey(key, false, false)}}.Encode()
}

// An accepting writer sends 202 with a status URL instead of the middleware's refusal of a key in flight.
type accepting struct {
	http.ResponseWriter
	location string
	replaced bool
}

// Unwrap is for http.ResponseController.
func (a *accepting) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *accepting) WriteHeader(status int) {
	h := a.Header()
	if status == http.StatusConflict && h.Get(wire.HeaderErrorCode) == string(taxonomy.InFlight) {
		a.replaced = true
		status = http.StatusAccepted
		wire.ClearContent(h)
		h.Del(wire.HeaderErrorCode)
		h.Set("Location", a.location)
		h.Set("Content-Type", "application/json")
	}
	a.ResponseWriter.WriteHeader(status)
	if a.replaced {
		_, _ = io.WriteString(a.ResponseWriter, `{"state":"pending"}`+"\n") // a phone that is gone may ask again
	}
}

// Write drops the body of the refusal.
func (a *accepting) Write(p []byte) (int, error) {
	if a.replaced {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// reportKey is the context key of a request's redo.Report.
type reportKey struct{}

// reported returns a context with a report of the call that is made on it.
func reported(ctx context.Context) context.Context {
	ctx, report := redo.WithReport(ctx)
	return context.WithValue(ctx, reportKey{}, report)
}

func (g *Gateway) newProxy(upstream *url.URL) *httputil.ReverseProxy {
	transport := g.client.Transport()
	if g.hedge > 0 {
		transport = &hedger{transport, g.hedge}
	}
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(upstream)
			p.SetXForwarded()
			p.Out.Header.Del(wire.HeaderKey) // the phone's; the client sets that of the upstream
			p.Out.Header.Del(g.client.KeyHeader())
			p.Out = p.Out.WithContext(reported(p.Out.Context()))
		},
		Transport:      transport,
		ModifyResponse: g.check,
		ErrorHandler:   refuse,
	}
}

// check reports an unknown effect to the middleware, and reads the body of a guarded request. A response that breaks
// off is then an error, instead of a stored half.
func (g *Gateway) check(resp *http.Response) error {
	ctx := resp.Request.Context()
	report, _ := ctx.Value(reportKey{}).(*redo.Report)
	e := report.Err()
	if e != nil {
		mark(ctx, e)
		hint(resp.Header, e)
		if limited(ctx, e) {
			return e
		}
	}
	if server.Key(ctx) == "" || resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	if ends(ctx, resp, e) {
		if err := g.forget(ctx, redo.KeyOf(resp)); err != nil {
			server.Unknown(ctx)
			return err
		}
		if e != nil && e.Code.In(taxonomy.Auth) {
			server.Release(ctx) // the phone can renew its credentials, also after a refusal with the status 200
		}
	}
	head, err := wire.ReadHead(resp.Body, resp.ContentLength, g.maxBuffered+1)
	if err != nil {
		server.Unknown(ctx)
		return err
	}
	resp.Body = restored(head, resp.Body)
	return nil
}

// limited reports whether a limiter has refused a request with a key. The gateway keeps such a request, and Run
// continues it. A phone would take a 429 as proof that nothing is applied under its key.
func limited(ctx context.Context, e *redo.Error) bool {
	return server.Key(ctx) != "" && e.Code.In(taxonomy.RateLimit)
}

// unready reports whether a request with a key can't be sent until a setting changes, such as a name of the upstream
// that does not exist. The gateway keeps such a request too, and Run continues it.
func unready(ctx context.Context, e *redo.Error) bool {
	return server.Key(ctx) != "" && e.Code.In(taxonomy.Configuration)
}

// mark reports an unknown effect to the middleware. The next request with the key then continues the operation. A
// refusal of the upstream is final, although it may not prove that there was no effect: it is stored and replayed. A
// 409 after an earlier attempt is not, because many servers send it while that attempt is still at work.
func mark(ctx context.Context, e *redo.Error) {
	if e.Effect == redo.EffectUnknown && continues(ctx, e) {
		server.Unknown(ctx)
	}
}

// continues reports whether an error is no final refusal of the upstream. A whole response that a redo.Classifier takes
// for a refusal has a status below 400, and no error beside it.
func continues(ctx context.Context, e *redo.Error) bool {
	report, _ := ctx.Value(reportKey{}).(*redo.Report)
	busy := e.StatusCode == http.StatusConflict && (len(e.Attempts) > 1 || report.Resumed())
	lost := e.StatusCode < 400 && e.Err != nil
	failed := lost || e.StatusCode >= 500 && !e.Code.In(taxonomy.Configuration) // not a 501
	return busy || failed || e.Code.Transient() || e.Code.In(taxonomy.OutcomeUnknown)
}

// ends reports whether a response ends an operation that the client keeps as pending. Such a response is a refusal that
// does not prove its effect, or a redirect that is not followed. An operation at rest is for a person, and is never
// sent again.
func ends(ctx context.Context, resp *http.Response, e *redo.Error) bool {
	if e == nil {
		return resp.StatusCode/100 == 3
	}
	return e.Effect == redo.EffectUnknown && !continues(ctx, e) && !e.Code.In(taxonomy.KeyExpired)
}

// storeTimeout bounds the removal and the search of an operation.
const storeTimeout = 5 * time.Second

// forget removes the operation of an upstream key before the phone gets its final response. Run would send it again,
// and could make an effect after the refusal. A repetition has the same upstream key.
func (g *Gateway) forget(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := g.client.Forget(ctx, operationName(key))
	if err == nil || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return errors.Join(errNotForgotten, err)
}

// errNotForgotten is the error of an operation that is still pending, because the store failed.
var errNotForgotten = errors.New("gateway: the operation is still pending")

// hint sets Retry-After if another attempt makes sense, and the response does not say when.
func hint(h http.Header, e *redo.Error) {
	if h.Get(wire.HeaderRetryAfter) == "" && redo.SafeToRetry(e) {
		h.Set(wire.HeaderRetryAfter, wire.RetryAfter(time.Until(e.RetryAt)))
	}
}

// refuse is the proxy's ErrorHandler: there is no response of the upstream that the phone may see.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := wire.Problem{
		Title: "Upstream failed", Status: http.StatusBadGateway, Code: string(taxonomy.Unavailable), Retryable: true,
		Detail: "The upstream service gave no complete response.",
	}
	if errors.Is(err, errNotForgotten) {
		p.Title, p.Status = "Response not recorded", http.StatusServiceUnavailable
		p.Detail = "The response of the upstream service could not be recorded."
	}
	e, ok := errors.AsType[*redo.Error](err)
	if !ok {
		w.Header().Set(wire.HeaderRetryAfter, wire.RetryAfter(time.Second))
	} else {
		mark(r.Context(), e)
		if e.Effect == redo.NotApplied || e.Code == taxonomy.ResultNotStored {
			server.Release(r.Context()) // the client's record decides about the next request too
		}
		p.Code, p.Retryable, p.Status = string(e.Code), redo.SafeToRetry(e), statusOf(e)
		if limited(r.Context(), e) || unready(r.Context(), e) {
			p.Code, p.Status, p.Retryable = string(taxonomy.Unavailable), http.StatusServiceUnavailable, true
			w.Header().Set(wire.HeaderRetryAfter, wire.RetryAfter(time.Until(e.RetryAt)))
		}
		switch {
		case e.Code == taxonomy.PayloadMismatch:
			p.Detail = "The key was used for another request."
		case e.Code == taxonomy.KeyExpired:
			p.Detail = "The request is too old to be sent again, and its outcome is not known: read its effect back."
		case e.Code == taxonomy.ResultNotStored:
			p.Detail = "The request was done, and its response was not kept."
		case e.Effect == redo.NotApplied:
			p.Detail = "The upstream service was not reached, or refused the request. Nothing was done."
		}
		hint(w.Header(), e)
	}
	wire.WriteProblem(w, p)
}

// statusOf returns the status for a call that has no response.
func statusOf(e *redo.Error) int {
	switch {
	case e.Code.In(taxonomy.Conflict):
		return http.StatusConflict
	case e.Timeout():
		return http.StatusGatewayTimeout
	case errors.Is(e, redo.ErrBreakerOpen), errors.Is(e, redo.ErrLimited), errors.Is(e, redo.ErrBudget):
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadGateway
	}
}

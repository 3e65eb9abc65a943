// Package redogin puts redo's middleware into gin.
//
// gin's handlers write to their context and not to the http.ResponseWriter of a net/http middleware, so that a plain
// wrapper sees no response. [Middleware] gives both the same writer:
//
//	mw, err := server.New(st, server.Principal(func(r *http.Request) string {
//		return redogin.Context(r).GetString("user")
//	}))
//	router.POST("/charges/:id", redogin.Middleware(mw), createCharge)
//
// Put it behind gin.Recovery and the authentication. Middleware that renders c.Errors comes after it.
// Give c.Request.Context() to server.Applied, server.Key and the others, not c. gin's context does not have the values
// of the request's context unless the engine sets ContextWithFallback: Applied would then do nothing.
package redogin

import (
	"bufio"
	"context"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/server/framework/internal/informational"
)

type contextKey struct{}

// Context returns the gin context of a request that [Middleware] passed on, for server.Principal and the other
// functions that get a request. It panics on other requests: a handler such as server.StatusHandler, whose Principal
// needs it, must run inside [Middleware] too. To write a refusal to it, use [Refusal].
func Context(r *http.Request) *gin.Context { return callOf(r).Context }

// A call is one request on its way through the middleware.
type call struct {
	*gin.Context
	ran bool // the middleware has run the chain
}

func callOf(r *http.Request) *call {
	c, ok := r.Context().Value(contextKey{}).(*call)
	if !ok {
		panic("redogin: the request did not pass Middleware, so it has no gin context")
	}
	return c
}

// Middleware returns mw, made by server.New or server.Middleware, as a handler of gin. The scope of a key is the
// method and gin's route, "POST /charges/:id". A request without a route, which gin answers with 404, passes unchanged.
func Middleware(mw func(http.Handler) http.Handler) gin.HandlerFunc {
	h := mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		c.ran, c.Request = true, r
		inside(c.Context, w, r, http.StatusOK, c.Next)
	}))
	return func(c *gin.Context) {
		if c.FullPath() == "" {
			return // c.Next follows
		}
		passed, request := &call{Context: c}, c.Request
		r := request.WithContext(context.WithValue(request.Context(), contextKey{}, passed))
		r.Pattern = r.Method + " " + c.FullPath()
		defer func() { c.Request, request.MultipartForm = request, r.MultipartForm }() // net/http then removes its files
		h.ServeHTTP(informational.Writer(c.Writer), r)
		c.Writer.WriteHeaderNow()
		if !passed.ran {
			c.Abort() // the middleware sent the response
		}
	}
}

// Refusal returns an argument for server.Refusal that lets f write the refusal p to gin's context. If f writes nothing,
// p is sent as a problem document. f must be safe for concurrent use.
func Refusal(f func(c *gin.Context, p server.Problem)) func(http.ResponseWriter, *http.Request, server.Problem) {
	if f == nil {
		return nil // server.New returns the error
	}
	return func(w http.ResponseWriter, r *http.Request, p server.Problem) {
		c := Context(r)
		inside(c, w, r, p.Status, func() { f(c, p) })
	}
}

// inside runs f while c writes to w. Unless f sets another one, the status is the given one.
func inside(c *gin.Context, w http.ResponseWriter, r *http.Request, status int, f func()) {
	outer := c.Writer
	defer func() { c.Writer = outer }()
	inner := &writer{ResponseWriter: outer, to: w, ctx: r.Context(), status: status, size: -1}
	c.Writer = inner
	f()
	if inner.set {
		inner.WriteHeaderNow()
	}
}

// A writer is a gin.ResponseWriter that writes to the middleware. Its rules are those of gin's own: a status is sent
// with the first byte, or when the handler returns. Nothing bypasses a record: while there is one, Hijack fails, and
// CloseNotify reports the end of the handler's context.
type writer struct {
	gin.ResponseWriter // the outer one, which knows of a hijacked connection, and has the Pusher
	to                 http.ResponseWriter
	ctx                context.Context // the handler's
	status, size       int
	set                bool // the handler has set a status
}

func (w *writer) Unwrap() http.ResponseWriter { return w.to }
func (w *writer) Header() http.Header         { return w.to.Header() }
func (w *writer) Status() int                 { return w.status }
func (w *writer) Size() int                   { return w.size }
func (w *writer) Written() bool               { return w.size >= 0 || w.ResponseWriter.Written() }

func (w *writer) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status, w.set = status, true
	}
}

func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.to.WriteHeader(w.status)
	}
}

func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.to.Write(b)
	w.size += n
	return n, err
}

func (w *writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.to).Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.to).Hijack()
}

func (w *writer) CloseNotify() <-chan bool {
	ended := make(chan bool, 1)
	context.AfterFunc(w.ctx, func() { ended <- true })
	return ended
}

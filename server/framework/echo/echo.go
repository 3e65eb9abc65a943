// Package redoecho puts redo's middleware into echo v4.
//
// echo.WrapMiddleware is not enough: a handler's error becomes a response only after the middleware has returned, which
// then sees no response. [Middleware] renders it inside:
//
//	mw, err := server.New(st, server.Principal(func(r *http.Request) string {
//		user, _ := redoecho.Context(r).Get("user").(string)
//		return user
//	}))
//	e.POST("/charges/:id", createCharge, redoecho.Middleware(mw))
//
// Give it to routes or groups, not to e.Pre, which runs before the route is known.
package redoecho

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/server/framework/internal/informational"
)

type contextKey struct{}

// Context returns the echo context of a request that [Middleware] passed on, for server.Principal and the other
// functions that get a request. It panics on other requests: a handler such as server.StatusHandler, whose Principal
// needs it, must run inside [Middleware] too. Do not write
// a refusal to it in a function for server.Refusal, because a problem document follows: use [Refusal].
func Context(r *http.Request) echo.Context {
	c, ok := r.Context().Value(contextKey{}).(*call)
	if !ok {
		panic("redoecho: the request did not pass Middleware, so it has no echo context")
	}
	return c.Context
}

// A call is one request on its way through the middleware.
type call struct {
	echo.Context
	next echo.HandlerFunc
}

// Middleware returns mw, made by server.New or server.Middleware, as a middleware of echo. The scope of a key is
// the method and echo's route, "POST /charges/:id", or "POST a.example/charges/:id" in a group of Echo.Host. A request
// without a route, for which echo sends 404 or 405, passes unchanged. Group.Use adds a route for unknown paths of the
// group, so that their 404 is stored. An error of the handler is rendered by echo's HTTPErrorHandler, so that the
// middleware stores that response, and outer middleware sees no error.
func Middleware(mw func(http.Handler) http.Handler) echo.MiddlewareFunc {
	h := mw(http.HandlerFunc(serve))
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if c.Path() == "" || c.Get(echo.ContextKeyHeaderAllow) != nil { // 404, or 405
				return next(c)
			}
			request, response := c.Request(), c.Response()
			r := request.WithContext(context.WithValue(request.Context(), contextKey{}, &call{c, next}))
			r.Pattern = r.Method + " " + hostOf(c) + c.Path()
			if r.Body != nil {
				r.Body = body{r.Body}
			}
			defer func() { // also after a panic, for middleware.Recover
				c.SetRequest(request)
				c.SetResponse(response)
				request.MultipartForm = r.MultipartForm // net/http removes the files of its own request only
			}()
			h.ServeHTTP(informational.Writer(response), r)
			return nil
		}
	}
}

// hostOf returns the host whose routes serve the request, or "" if it has none of its own.
func hostOf(c echo.Context) string {
	host := c.Request().Host
	if _, ok := c.Echo().Routers()[host]; ok {
		return host
	}
	return ""
}

// A body is the client's, as the middleware reads it. It reports the limit of echo's BodyLimit as net/http does.
type body struct{ io.ReadCloser }

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, echo.ErrStatusRequestEntityTooLarge) {
		err = new(http.MaxBytesError) // echo does not name the limit
	}
	return n, err
}

// serve runs the handler with the middleware's writer and request.
func serve(w http.ResponseWriter, r *http.Request) {
	if b, ok := r.Body.(body); ok { // without a key the handler reads it, and gets echo's error
		r.Body = b.ReadCloser
	}
	c := r.Context().Value(contextKey{}).(*call)
	c.SetRequest(r)
	c.SetResponse(echo.NewResponse(w, c.Echo()))
	if err := c.next(c.Context); err != nil {
		c.Error(err)
	}
}

// Refusal returns an argument for server.Refusal that lets f write the refusal p to echo's context. An error of f is
// rendered by echo's HTTPErrorHandler. If f writes nothing, p is sent as a problem document. f must be safe for
// concurrent use.
func Refusal(f func(c echo.Context, p server.Problem) error) func(http.ResponseWriter, *http.Request, server.Problem) {
	if f == nil {
		return nil // server.New returns the error
	}
	return func(w http.ResponseWriter, r *http.Request, p server.Problem) {
		c := Context(r)
		defer c.SetResponse(c.Response())
		c.SetResponse(echo.NewResponse(w, c.Echo()))
		if err := f(c, p); err != nil {
			c.Error(err)
		}
	}
}

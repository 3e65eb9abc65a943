// Package redofiber puts redo's middleware into fiber v3.
//
// adaptor.HTTPMiddleware is not enough: it runs the handler after the middleware has returned, which then sees no
// response. [Middleware] runs the handler inside:
//
//	mw, err := server.New(st, server.Principal(func(r *http.Request) string {
//		return fiber.Locals[string](redofiber.Context(r), "user")
//	}))
//	app.Post("/charges/:id", redofiber.Middleware(mw), createCharge)
//
// Give it to routes, not to Use or Group, which run it before the route is known.
package redofiber

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gofiber/fiber/v3"

	"github.com/redo-go/redo/server"
)

type contextKey struct{}

// Context returns the fiber context of a request that [Middleware] passed on, for server.Principal and the other
// functions that get a request. It panics on other requests: a handler such as server.StatusHandler, whose Principal
// needs it, must run inside [Middleware] too. It must not be used after the handler has returned. Do not
// write a refusal to it in a function for server.Refusal, because it is lost: use [Refusal].
func Context(r *http.Request) fiber.Ctx {
	c, ok := r.Context().Value(contextKey{}).(fiber.Ctx)
	if !ok {
		panic("redofiber: the request did not pass Middleware, so it has no fiber context")
	}
	return c
}

var (
	errNoRoute = errors.New(
		"redofiber: Middleware was given to Use or Group, which know no route: give it to each route")
	errCut      = errors.New("redofiber: the handler's stream failed, or did not have the size that it was given")
	errHijacked = fmt.Errorf("redofiber: a connection can't be hijacked while its response is recorded: %w",
		errors.ErrUnsupported)
)

// Middleware returns mw, made by server.New or server.Middleware, as a handler of fiber. The scope of a key is the
// method and fiber's route, "POST /charges/:id". The handler's context ends with the middleware's: use Ctx.Context,
// also for server.Applied, server.Key and the others, which do nothing with the Ctx itself.
// An error of the handler is rendered by the app's ErrorHandler, so that the middleware stores that response, and
// outer middleware sees no error. A streamed response is read whole before it is sent. If the stream fails, the client
// gets an error, and a retry with the key gets 409, because the effect may have been made. In fiber a handler that sets
// nothing but the status 200 looks like one that wrote nothing. End with SendStatus, or use server.SilentOK. A handler
// can't hijack the connection of a request with a key. Its HijackHandler is not called then, and the ErrorHandler gets
// an error that wraps errors.ErrUnsupported. Do not use Ctx.End and Ctx.Drop, which end the connection before the
// response is recorded.
func Middleware(mw func(http.Handler) http.Handler) fiber.Handler {
	h := mw(http.HandlerFunc(next))
	return func(c fiber.Ctx) error {
		if !c.Matched() || len(c.Route().Handlers) < 2 {
			return errNoRoute
		}
		r, err := request(c)
		if err != nil {
			return err
		}
		w := &response{header: http.Header{}, status: http.StatusOK}
		take(w.header, c) // the headers of outer middleware
		outer := c.Context()
		defer func() {
			if !c.IsAbandoned() {
				c.SetContext(outer)
			}
		}()
		h.ServeHTTP(w, r)
		if c.IsAbandoned() {
			return nil // fasthttp sends the timeout's response
		}
		c.Response().Reset()
		if w.cut() {
			return errCut
		}
		for name, values := range w.header {
			for _, v := range values {
				c.Response().Header.Add(name, v)
			}
		}
		c.Response().SetBody(w.body.Bytes())
		c.Status(w.status)
		return nil
	}
}

// next runs the rest of fiber's chain, and writes its response to the middleware.
func next(w http.ResponseWriter, r *http.Request) {
	c := Context(r)
	c.SetContext(r.Context())
	if _, unread := r.Body.(streamed); c.Request().IsBodyStream() && !unread {
		c.Request().SetBodyStream(r.Body, int(r.ContentLength)) // from memory: the middleware has read the stream
	}
	before := c.Response().Header.Len()
	err := c.Next()
	if c.IsAbandoned() { // fiber's timeout has returned, and the handler still uses c
		w.WriteHeader(http.StatusRequestTimeout)
		if timeout, ok := w.(interface{ Abandoned() }); ok {
			timeout.Abandoned()
		}
		return
	}
	if c.RequestCtx().Hijacked() && server.Key(r.Context()) != "" {
		c.RequestCtx().Hijack(nil)
		err = errHijacked
	}
	render(c, err)
	body, whole := wholeBody(c)
	status := c.Response().StatusCode()
	if status == http.StatusOK && whole && len(body) == 0 && c.Response().Header.Len() == before {
		return // the handler wrote nothing
	}
	clear(w.Header())
	take(w.Header(), c)
	if !whole { // net/http's sign of a response that breaks off
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

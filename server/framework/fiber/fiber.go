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
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
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
	errCut = errors.New("redofiber: the handler's stream failed, or did not have the size that it was given")
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

// request returns the request for net/http. Its strings are copied, because fiber uses its buffers again, and the
// middleware may keep a key for longer than the handler runs. The body is not: the middleware reads it into its own.
func request(c fiber.Ctx) (*http.Request, error) {
	uri := string(c.Request().RequestURI())
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, fiber.NewError(http.StatusBadRequest, "the request's target can't be parsed")
	}
	r := &http.Request{
		Method: string(c.Request().Header.Method()), URL: u, RequestURI: uri, Host: string(c.Request().Host()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: c.RequestCtx().RemoteAddr().String(),
		Header: http.Header{},
	}
	r.Body, r.ContentLength = bodyOf(c)
	for name, value := range c.Request().Header.All() {
		r.Header.Add(string(name), string(value))
	}
	r.Header.Del("Host")
	r.Pattern = r.Method + " " + c.Route().Path
	return r.WithContext(context.WithValue(c.Context(), contextKey{}, c)), nil
}

var errMultipart = errors.New("the boundary of the multipart body is invalid, or a file of it can't be read")

// A streamed body is one that fiber has not read yet (fiber.Config.StreamRequestBody).
type streamed struct{ io.ReadCloser }

// bodyOf returns the body and its length, which is -1 if it is not known. By default fasthttp parses a multipart body
// of known length and drops its bytes. Its Body method then writes the fields in a random order, so that a retry would
// look like another request. bodyOf sorts them by name.
func bodyOf(c fiber.Ctx) (io.ReadCloser, int64) {
	r := c.Request()
	if r.IsBodyStream() { // the middleware reads it up to its own limit, and notices that it is cut off
		return streamed{io.NopCloser(r.BodyStream())}, int64(max(-1, r.Header.ContentLength()))
	}
	boundary := string(r.Header.MultipartFormBoundary())
	if boundary != "" && r.Header.ContentLength() > 0 && len(r.Header.ContentEncoding()) == 0 &&
		!c.App().Config().DisablePreParseMultipartForm {
		if form, err := r.MultipartForm(); err == nil { // else outer middleware has replaced the body
			return marshal(form, boundary)
		}
	}
	return reader(r.Body())
}

func reader(content []byte) (io.ReadCloser, int64) {
	return io.NopCloser(bytes.NewReader(content)), int64(len(content))
}

// marshal returns the form as a multipart body. It differs for different forms, because no part contains the boundary.
func marshal(form *multipart.Form, boundary string) (io.ReadCloser, int64) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	err := w.SetBoundary(boundary)
	for _, name := range slices.Sorted(maps.Keys(form.Value)) {
		for _, value := range form.Value[name] {
			err = errors.Join(err, w.WriteField(name, value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(form.File)) {
		for _, file := range form.File[name] {
			err = errors.Join(err, writeFile(w, file))
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		broken, w := io.Pipe()             // the middleware refuses the request, but only if it has a key
		_ = w.CloseWithError(errMultipart) // err can name a temporary file, and the client gets the text
		return broken, -1
	}
	return reader(body.Bytes())
}

func writeFile(w *multipart.Writer, file *multipart.FileHeader) error {
	part, err := w.CreatePart(file.Header)
	if err != nil {
		return err
	}
	f, err := file.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(part, f)
	return errors.Join(err, f.Close())
}

// next runs the rest of fiber's chain, and writes its response to the middleware.
func next(w http.ResponseWriter, r *http.Request) {
	c := Context(r)
	c.SetContext(r.Context())
	if _, unread := r.Body.(streamed); c.Request().IsBodyStream() && !unread {
		payload, _ := io.ReadAll(r.Body) // from memory: the middleware has read the stream
		c.Request().SetBodyRaw(payload)
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

// wholeBody returns the body of the response. It reports false if the body is a stream that fails, or has another size
// than it was given. fasthttp would break the connection off then.
func wholeBody(c fiber.Ctx) ([]byte, bool) {
	r := c.Response()
	if !r.IsBodyStream() {
		return r.Body(), true
	}
	size := r.Header.ContentLength()
	body, err := io.ReadAll(r.BodyStream())
	_ = r.CloseBodyStream()
	r.SetBodyRaw(body)
	return body, err == nil && (size < 0 || size == len(body))
}

var errHijacked = fmt.Errorf("redofiber: a connection can't be hijacked while its response is recorded: %w",
	errors.ErrUnsupported)

// Refusal returns an argument for server.Refusal that lets f write the refusal p to fiber's context. An error of f is
// rendered by the app's ErrorHandler. If f writes nothing, p is sent as a problem document. f must be safe for
// concurrent use.
func Refusal(f func(c fiber.Ctx, p server.Problem) error) func(http.ResponseWriter, *http.Request, server.Problem) {
	if f == nil {
		return nil // server.New returns the error
	}
	return func(w http.ResponseWriter, r *http.Request, p server.Problem) {
		c := Context(r)
		c.Response().Reset() // w has the headers of outer middleware
		render(c, f(c, p))
		status, body := c.Response().StatusCode(), c.Response().Body()
		if status == http.StatusOK && len(body) == 0 {
			return // f wrote nothing
		}
		own := http.Header{}
		take(own, c)
		maps.Copy(w.Header(), own)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

// render lets the app make a response of an error.
func render(c fiber.Ctx, err error) {
	if err == nil {
		return
	}
	if err := c.App().ErrorHandler(c, err); err != nil {
		c.Status(http.StatusInternalServerError)
	}
}

// take copies the response's headers that are not fasthttp's own.
func take(to http.Header, c fiber.Ctx) {
	for name, value := range c.Response().Header.All() {
		switch key := http.CanonicalHeaderKey(string(name)); key {
		case "Content-Length", "Date", "Server", "Transfer-Encoding":
		case "Content-Type":
			if len(c.Response().Body()) > 0 { // else it is a default
				to.Set(key, string(value))
			}
		default:
			to.Add(key, string(value))
		}
	}
}

// A response keeps the middleware's writes.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// cut reports whether the body is shorter than its declared length.
func (w *response) cut() bool {
	n, err := strconv.Atoi(w.header.Get("Content-Length"))
	return err == nil && n > w.body.Len()
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) Write(b []byte) (int, error) { return w.body.Write(b) }
func (w *response) WriteHeader(status int)      { w.status = status }

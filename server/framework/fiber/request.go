package redofiber

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"

	"github.com/gofiber/fiber/v3"
)

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

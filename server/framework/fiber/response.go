package redofiber

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"github.com/gofiber/fiber/v3"
)

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

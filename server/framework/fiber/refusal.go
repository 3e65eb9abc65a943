package redofiber

import (
	"maps"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/redo-go/redo/server"
)

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

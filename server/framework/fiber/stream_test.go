package redofiber_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	redofiber "github.com/redo-go/redo/server/framework/fiber"
	"github.com/redo-go/redo/store/memstore"
)

// post sends a request with the key, if that is not "", and reads the response.
func post(t *testing.T, url, key, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/x", strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp, string(got)
}

// Without a key, fasthttp breaks the connection off. A part of a response must not be replayed as the whole.
func TestAStreamedResponseThatEndsEarlyIsNoResponse(t *testing.T) {
	for name, send := range map[string]func(c fiber.Ctx) error{
		"the stream fails": func(c fiber.Ctx) error {
			return c.SendStream(io.MultiReader(bytes.NewReader([]byte("half")), iotest.ErrReader(errors.New("disk"))))
		},
		"the stream is shorter than its size": func(c fiber.Ctx) error {
			return c.SendStream(bytes.NewReader([]byte("half")), 8)
		},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := server.New(memstore.New(), server.SharedKeys())
			require.NoError(t, err)
			runs := 0
			app := fiber.New()
			app.Post("/x", redofiber.Middleware(mw), func(c fiber.Ctx) error {
				runs++
				return send(c.Status(http.StatusCreated))
			})
			url := serve(t, app)
			for _, want := range []int{http.StatusInternalServerError, http.StatusConflict} {
				resp, body := post(t, url, "k", "")
				require.Equal(t, want, resp.StatusCode, "%s", body)
				if want == http.StatusConflict {
					require.Equal(t, "CONFLICT.idempotency.result_not_stored", resp.Header.Get("Error-Code"))
				}
			}
			require.Equal(t, 1, runs)
		})
	}
}

func TestAStreamedResponseIsReplayed(t *testing.T) {
	for name, size := range map[string][]int{"of known size": {5}, "of unknown size": nil} {
		t.Run(name, func(t *testing.T) {
			mw, err := server.New(memstore.New(), server.SharedKeys())
			require.NoError(t, err)
			app := fiber.New()
			app.Post("/x", redofiber.Middleware(mw), func(c fiber.Ctx) error {
				return c.Status(http.StatusCreated).SendStream(bytes.NewReader([]byte("whole")), size...)
			})
			url := serve(t, app)
			for _, state := range []string{"stored", "replayed"} {
				resp, body := post(t, url, "k", "")
				require.Equal(t, []any{http.StatusCreated, state, "whole"},
					[]any{resp.StatusCode, resp.Header.Get("Idempotency-Status"), body})
			}
		})
	}
}

// With StreamRequestBody a handler may read the stream in place of Ctx.Body.
func TestAHandlerReadsTheStreamOfARequest(t *testing.T) {
	mw, err := server.New(memstore.New(), server.SharedKeys())
	require.NoError(t, err)
	app := fiber.New(fiber.Config{StreamRequestBody: true})
	app.Post("/x", redofiber.Middleware(mw), func(c fiber.Ctx) error {
		body, err := io.ReadAll(c.Request().BodyStream())
		if err != nil {
			return err
		}
		return c.Status(http.StatusCreated).Send(body)
	})
	url := serve(t, app)
	for _, key := range []string{"", "k"} {
		resp, body := post(t, url, key, "whole")
		require.Equal(t, []any{http.StatusCreated, "whole"}, []any{resp.StatusCode, body}, key)
	}
}

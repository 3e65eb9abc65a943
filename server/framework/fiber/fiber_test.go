package redofiber_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	recovery "github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	redofiber "github.com/redo-go/redo/server/framework/fiber"
	"github.com/redo-go/redo/server/framework/internal/frametest"
	"github.com/redo-go/redo/store/memstore"
)

func TestFiber(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve:     func(t *testing.T, a *frametest.App) string { return serve(t, routes(a)) },
		Principal: func(r *http.Request) string { return fiber.Locals[string](redofiber.Context(r), "user") },
		Wrong:     wrong,
		Refusal: redofiber.Refusal(func(c fiber.Ctx, p server.Problem) error {
			if p.Status == http.StatusConflict {
				return nil
			}
			return c.JSON(fiber.Map{"refused": p.Code})
		}),
	})
}

func serve(t *testing.T, app *fiber.App) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		require.NoError(t, app.Shutdown())
		require.NoError(t, <-done)
	})
	return "http://" + l.Addr().String()
}

func base() *fiber.App {
	app := fiber.New()
	app.Use(recovery.New(), func(c fiber.Ctx) error {
		c.Locals("user", c.Get("X-User"))
		c.Set("X-Outer", "outer")
		return c.Next()
	})
	return app
}

func routes(a *frametest.App) *fiber.App {
	app := base()
	once := redofiber.Middleware(a.Middleware)
	app.Post("/charges/:id", once, charge(a))
	app.Post("/refunds", once, func(c fiber.Ctx) error {
		a.Add("refund")
		return c.Status(http.StatusCreated).JSON(fiber.Map{"refund": "rf_1"})
	})
	app.Post("/invalid", once, func(fiber.Ctx) error {
		a.Add("invalid")
		return fiber.NewError(http.StatusUnprocessableEntity, "cents must be positive")
	})
	app.Post("/unavailable", once, func(fiber.Ctx) error {
		a.Add("unavailable")
		return fiber.NewError(http.StatusServiceUnavailable, "try later")
	})
	app.Post("/panic", once, func(fiber.Ctx) error {
		a.Add("panic")
		panic(frametest.Secret)
	})
	app.Post("/stream", once, func(c fiber.Ctx) error {
		a.Add("stream")
		return c.SendStreamWriter(func(w *bufio.Writer) {
			for _, line := range []string{"one", "two", "three"} {
				_, _ = fmt.Fprintln(w, line)
				_ = w.Flush()
			}
		})
	})
	app.Post("/slow", once, func(c fiber.Ctx) error {
		a.Add("slow")
		a.Hold()
		return c.Status(http.StatusCreated).JSON(fiber.Map{"slow": true})
	})
	app.Post("/hints", once, func(c fiber.Ctx) error {
		a.Add("hints")
		if err := c.SendEarlyHints([]string{"</a.css>"}); err != nil {
			return err
		}
		return c.Status(http.StatusCreated).JSON(fiber.Map{"hints": true})
	})
	app.Post("/silent", once, func(fiber.Ctx) error {
		a.Add("silent")
		return nil
	})
	return app
}

func charge(a *frametest.App) fiber.Handler {
	return func(c fiber.Ctx) error {
		a.Add("charge")
		c.Set("X-Charge", "ch_1")
		return c.Status(http.StatusCreated).JSON(fiber.Map{"charge": c.Params("id")})
	}
}

// wrong is fiber's own wrapper: the handler runs after the middleware has returned.
func wrong(t *testing.T, a *frametest.App) string {
	app := base()
	app.Post("/charges/:id", adaptor.HTTPMiddleware(a.Middleware), charge(a))
	return serve(t, app)
}

func TestUseAndGroupHaveNoRoute(t *testing.T) {
	once := redofiber.Middleware(func(h http.Handler) http.Handler { return h })
	auth := func(c fiber.Ctx) error { return c.Next() }
	created := func(c fiber.Ctx) error { return c.SendStatus(http.StatusCreated) }
	for name, test := range map[string]struct {
		wire   func(app *fiber.App)
		status int
	}{
		"Use": {func(app *fiber.App) { app.Use(once); app.Post("/charges", created) }, http.StatusInternalServerError},
		"Use behind another handler": {func(app *fiber.App) {
			app.Use(auth, once)
			app.Post("/charges", created)
		}, http.StatusInternalServerError},
		"Use before another Use": {func(app *fiber.App) {
			app.Use(once)
			app.Use(auth)
			app.Post("/charges", created)
		}, http.StatusInternalServerError},
		"Use with a path": {func(app *fiber.App) { app.Use("/charges", once, created) }, http.StatusInternalServerError},
		"Group": {func(app *fiber.App) {
			app.Group("/", auth, once).Post("/charges", created)
		}, http.StatusInternalServerError},
		"a route": {func(app *fiber.App) { app.Use(auth); app.Post("/charges", auth, once, created) }, http.StatusCreated},
		"a route of a group": {func(app *fiber.App) {
			app.Group("/", auth).Post("/charges", once, created)
		}, http.StatusCreated},
		"a route of another app": {func(app *fiber.App) {
			sub := fiber.New()
			sub.Post("/", once, created)
			app.Use("/charges", auth, sub)
		}, http.StatusCreated},
		"a route for all methods": {func(app *fiber.App) { app.All("/*", once, created) }, http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			app := fiber.New()
			test.wire(app)
			resp, err := app.Test(httptest.NewRequest(http.MethodPost, "/charges", nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, test.status, resp.StatusCode)
		})
	}
}

func TestAHeaderThatConnectionNamesIsNotReplayed(t *testing.T) {
	mw, err := server.New(memstore.New(), server.SharedKeys())
	require.NoError(t, err)
	app := fiber.New()
	app.Post("/charges", redofiber.Middleware(mw), func(c fiber.Ctx) error {
		c.Set("Connection", "X-Hop")
		c.Set("X-Hop", "1")
		c.Set("X-End", "2")
		return c.SendStatus(http.StatusCreated)
	})
	for _, want := range []http.Header{
		{"Idempotency-Status": {"stored"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "X-End": {"2"}},
		{"Idempotency-Status": {"replayed"}, "Connection": nil, "X-Hop": nil, "X-End": {"2"}},
	} {
		r := httptest.NewRequest(http.MethodPost, "/charges", nil)
		r.Header.Set("Idempotency-Key", "k")
		resp, err := app.Test(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		for name, values := range want {
			require.Equal(t, values, resp.Header.Values(name), name)
		}
	}
}

// upload returns a multipart body with the boundary "b". Each field, and a file of the same name, has the value.
func upload(t *testing.T, value string, fields ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(t, w.SetBoundary("b"))
	for _, name := range fields {
		require.NoError(t, w.WriteField(name, value))
		f, err := w.CreateFormFile(name, name+".txt")
		require.NoError(t, err)
		_, err = io.WriteString(f, value)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestAMultipartRequestIsKnownByItsContent(t *testing.T) {
	for name, cfg := range map[string]fiber.Config{
		"parsed by fasthttp":                 {},
		"parsed by the handler":              {DisablePreParseMultipartForm: true},
		"streamed":                           {StreamRequestBody: true},
		"streamed and parsed by the handler": {DisablePreParseMultipartForm: true, StreamRequestBody: true},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := server.New(memstore.New(), server.SharedKeys())
			require.NoError(t, err)
			app := fiber.New(cfg)
			app.Post("/charges", redofiber.Middleware(mw), func(c fiber.Ctx) error {
				form, err := c.MultipartForm()
				if err != nil {
					return err
				}
				return c.Status(http.StatusCreated).JSON(form.Value)
			})
			post := func(body []byte) (status int, state, content string) {
				r := httptest.NewRequest(http.MethodPost, "/charges", bytes.NewReader(body))
				r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
				r.Header.Set("Idempotency-Key", "k")
				resp, err := app.Test(r)
				require.NoError(t, err)
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				return resp.StatusCode, resp.Header.Get("Idempotency-Status"), string(b)
			}
			first := upload(t, "1000", "cents", "from", "to", "note", "date")
			for i := range 20 {
				status, state, content := post(first)
				require.Equal(t, http.StatusCreated, status, content)
				require.Equal(t, i > 0, state == "replayed", state)
				require.JSONEq(t, `{"cents":["1000"],"from":["1000"],"to":["1000"],"note":["1000"],"date":["1000"]}`, content)
			}
			for _, other := range [][]byte{
				upload(t, "1000", "cents", "from", "to", "note"),
				upload(t, "1001", "cents", "from", "to", "note", "date"),
				bytes.Replace(first, []byte("to.txt"), []byte("no.txt"), 1),
				bytes.Replace(first, []byte("Content-Type: application/octet-stream"), []byte("Content-Type: text/plain"), 1),
			} {
				status, _, content := post(other)
				require.Equal(t, http.StatusConflict, status, content)
			}
		})
	}
}

func TestAMultipartRequestWithAWrongBoundaryIsRefused(t *testing.T) {
	mw, err := server.New(memstore.New(), server.SharedKeys())
	require.NoError(t, err)
	app := fiber.New()
	app.Post("/charges", redofiber.Middleware(mw), func(c fiber.Ctx) error { return c.SendStatus(http.StatusCreated) })
	for _, test := range []struct {
		boundary, key string
		status        int
	}{
		{"b", "k1", http.StatusCreated},
		{"b@", "k2", http.StatusBadRequest},
		{"b@", "", http.StatusCreated}, // nothing is recorded, so the body need not be identified
	} {
		body := bytes.ReplaceAll(upload(t, "1000", "cents"), []byte("--b"), []byte("--"+test.boundary))
		r := httptest.NewRequest(http.MethodPost, "/charges", bytes.NewReader(body))
		r.Header.Set("Content-Type", "multipart/form-data; boundary="+test.boundary)
		if test.key != "" {
			r.Header.Set("Idempotency-Key", test.key)
		}
		resp, err := app.Test(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, test.status, resp.StatusCode, "%+v", test)
	}
}

func TestHijackIsRefusedWhileTheResponseIsRecorded(t *testing.T) {
	for name, opts := range map[string][]server.Option{"plain": nil, "silence is a success": {server.SilentOK()}} {
		t.Run(name, func(t *testing.T) {
			mw, err := server.New(memstore.New(), append(opts, server.SharedKeys())...)
			require.NoError(t, err)
			app := fiber.New()
			app.Post("/x", redofiber.Middleware(mw), func(c fiber.Ctx) error {
				c.RequestCtx().HijackSetNoResponse(true)
				c.RequestCtx().Hijack(func(conn net.Conn) {
					_, _ = io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 8\r\nConnection: close\r\n\r\nhijacked")
				})
				return nil
			})
			url := serve(t, app)
			for _, test := range []struct {
				key    string
				status int
				body   string
			}{
				{"k", http.StatusInternalServerError, "redofiber: a connection can't be hijacked while its response is " +
					"recorded: unsupported operation"},
				{"", http.StatusCreated, "hijacked"}, // nothing is recorded
				{"k", http.StatusInternalServerError, "redofiber: a connection can't be hijacked while its response is " +
					"recorded: unsupported operation"},
			} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/x", http.NoBody)
				require.NoError(t, err)
				if test.key != "" {
					req.Header.Set("Idempotency-Key", test.key)
				}
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, test.status, resp.StatusCode)
				require.Equal(t, test.body, string(body))
				require.Empty(t, resp.Header.Get("Idempotency-Status"))
			}
		})
	}
}

func TestContextNamesTheMissingMiddleware(t *testing.T) {
	require.PanicsWithValue(t, "redofiber: the request did not pass Middleware, so it has no fiber context",
		func() { redofiber.Context(httptest.NewRequest(http.MethodPost, "/charges/7", nil)) })
}

func TestRefusalNeedsAFunction(t *testing.T) {
	_, err := server.New(memstore.New(), server.SharedKeys(), server.Refusal(redofiber.Refusal(nil)))
	require.ErrorContains(t, err, "Refusal: the function must not be nil")
}

// With StreamRequestBody fiber has not read the body. The middleware notices that it is cut off or too long.
func TestAStreamedBodyIsReadByTheMiddleware(t *testing.T) {
	mw, err := server.New(memstore.New(), server.SharedKeys(), server.MaxBody(100_000))
	require.NoError(t, err)
	app := fiber.New(fiber.Config{StreamRequestBody: true, BodyLimit: 1000})
	var got []int
	app.Post("/x", redofiber.Middleware(mw), func(c fiber.Ctx) error {
		got = append(got, len(c.Body()))
		return c.Status(http.StatusCreated).SendString("done")
	})
	url := serve(t, app)
	body := bytes.Repeat([]byte("y"), 50_000)

	conn, err := net.Dial("tcp", url[len("http://"):])
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "POST /x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body[:20_000])
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode, "it is cut off")
	require.NoError(t, conn.Close())
	require.Empty(t, got)

	do := func(key string, body io.Reader, length int64) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/x", body)
		require.NoError(t, err)
		if req.ContentLength = length; key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode, resp.Header.Get("Idempotency-Status")
	}
	for _, want := range []string{"stored", "replayed", "replayed"} {
		length := int64(len(body))
		if want == "replayed" {
			length = -1 // in chunks it is the same body
		}
		status, state := do("k", bytes.NewReader(body), length)
		require.Equal(t, []any{http.StatusCreated, want}, []any{status, state})
	}
	status, _ := do("", bytes.NewReader(body), int64(len(body)))
	require.Equal(t, http.StatusCreated, status, "a request without a key is not read by the middleware")
	require.Equal(t, []int{len(body), len(body)}, got)
	long := bytes.Repeat([]byte("y"), 100_001) // read whole: of a longer one the rest could not be sent
	status, _ = do("long", bytes.NewReader(long), -1)
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
}

package redoecho_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	redoecho "github.com/redo-go/redo/server/framework/echov5"
	"github.com/redo-go/redo/server/framework/internal/frametest"
	"github.com/redo-go/redo/store/memstore"
)

func TestEcho(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string { return frametest.Serve(t, routes(a)) },
		Principal: func(r *http.Request) string {
			user, _ := redoecho.Context(r).Get("user").(string)
			return user
		},
		Wrong: wrong,
		Refusal: redoecho.Refusal(func(c *echo.Context, p server.Problem) error {
			if p.Status == http.StatusConflict {
				return nil
			}
			return c.JSON(http.StatusOK, map[string]any{"refused": p.Code})
		}),
	})
}

func base() *echo.Echo {
	e := echo.New()
	e.Use(middleware.Recover(), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Set("user", c.Request().Header.Get("X-User"))
			return next(c)
		}
	})
	return e
}

func routes(a *frametest.App) http.Handler {
	e := base()
	once := e.Group("", redoecho.Middleware(a.Middleware))
	once.POST("/charges/:id", charge(a))
	once.POST("/refunds", func(c *echo.Context) error {
		a.Add("refund")
		return c.JSON(http.StatusCreated, map[string]string{"refund": "rf_1"})
	})
	once.POST("/invalid", func(*echo.Context) error {
		a.Add("invalid")
		return echo.NewHTTPError(http.StatusUnprocessableEntity, "cents must be positive")
	})
	once.POST("/unavailable", func(*echo.Context) error {
		a.Add("unavailable")
		return echo.NewHTTPError(http.StatusServiceUnavailable, "try later")
	})
	once.POST("/panic", func(*echo.Context) error {
		a.Add("panic")
		panic(frametest.Secret)
	})
	once.POST("/stream", func(c *echo.Context) error {
		a.Add("stream")
		c.Response().WriteHeader(http.StatusOK)
		for _, line := range []string{"one", "two", "three"} {
			if _, err := fmt.Fprintln(c.Response(), line); err != nil {
				return err
			}
			if err := http.NewResponseController(c.Response()).Flush(); err != nil {
				return err
			}
		}
		return nil
	})
	once.POST("/slow", func(c *echo.Context) error {
		a.Add("slow")
		a.Hold()
		return c.JSON(http.StatusCreated, map[string]bool{"slow": true})
	})
	once.POST("/hints", func(c *echo.Context) error {
		a.Add("hints")
		c.Response().Header().Set("Link", "</a.css>")
		own, err := echo.UnwrapResponse(c.Response()) // takes each status for the last
		if err != nil {
			return err
		}
		own.Unwrap().WriteHeader(http.StatusEarlyHints)
		return c.JSON(http.StatusCreated, map[string]bool{"hints": true})
	})
	once.POST("/silent", func(*echo.Context) error {
		a.Add("silent")
		return nil
	})
	return e
}

func charge(a *frametest.App) echo.HandlerFunc {
	return func(c *echo.Context) error {
		a.Add("charge")
		c.Response().Header().Set("X-Charge", "ch_1")
		return c.JSON(http.StatusCreated, map[string]string{"charge": c.Param("id")})
	}
}

// wrong is echo's own wrapper: the error becomes a response after the middleware has returned.
func wrong(t *testing.T, a *frametest.App) string {
	e := base()
	e.POST("/charges/:id", func(*echo.Context) error {
		a.Add("charge")
		return echo.NewHTTPError(http.StatusUnprocessableEntity, "cents must be positive")
	}, echo.WrapMiddleware(a.Middleware))
	return frametest.Serve(t, e)
}

func TestContextNamesTheMissingMiddleware(t *testing.T) {
	require.PanicsWithValue(t, "redoecho: the request did not pass Middleware, so it has no echo context",
		func() { redoecho.Context(httptest.NewRequest(http.MethodPost, "/charges/7", nil)) })
}

func TestRefusalNeedsAFunction(t *testing.T) {
	_, err := server.New(memstore.New(), server.SharedKeys(), server.Refusal(redoecho.Refusal(nil)))
	require.ErrorContains(t, err, "Refusal: the function must not be nil")
}

func TestABodyLimitOutsideRefusesAKeyedRequestAsAnyOther(t *testing.T) {
	mw, err := server.New(memstore.New(), server.SharedKeys())
	require.NoError(t, err)
	e := base()
	e.Use(middleware.BodyLimit(4))
	e.POST("/charges", func(c *echo.Context) error {
		if _, err := io.ReadAll(c.Request().Body); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	}, redoecho.Middleware(mw))
	url := frametest.Serve(t, e)
	for body, want := range map[string]int{"cents=1000": http.StatusRequestEntityTooLarge, "{}": http.StatusNoContent} {
		for _, chunked := range []bool{false, true} {
			for _, key := range []string{"", "k"} {
				var content io.Reader = strings.NewReader(body)
				if chunked {
					content = io.MultiReader(content) // hides the length
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/charges", content)
				require.NoError(t, err)
				if key != "" {
					r.Header.Set("Idempotency-Key", key)
				}
				resp, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, want, resp.StatusCode, "key %q, chunked: %t", key, chunked)
			}
		}
	}
}

// Echo.Use runs for such a request too, and echo has the path of the other methods.
func TestAMethodWithoutARouteIsNotRecorded(t *testing.T) {
	mw, err := server.New(memstore.New(), server.SharedKeys())
	require.NoError(t, err)
	e := echo.New()
	e.Use(redoecho.Middleware(mw))
	created := func(c *echo.Context) error { return c.NoContent(http.StatusCreated) }
	e.GET("/charges", created)
	require.Equal(t, http.StatusMethodNotAllowed, frametest.Post(e, "/charges"))
	e.POST("/charges", created) // as in the next version of the service
	require.Equal(t, http.StatusCreated, frametest.Post(e, "/charges"))
}

// net/http removes the files of its own request only, and the handler gets a copy.
func TestTheFilesOfAFormAreRemoved(t *testing.T) {
	frametest.RemovesFiles(t, func(parse func(*http.Request)) http.Handler {
		e := echo.New()
		once := redoecho.Middleware(server.Middleware(memstore.New(), server.SharedKeys()))
		e.POST("/receipts", func(c *echo.Context) error {
			parse(c.Request())
			return c.NoContent(http.StatusCreated)
		}, once)
		return e
	})
}

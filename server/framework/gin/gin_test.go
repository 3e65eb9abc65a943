package redogin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	redogin "github.com/redo-go/redo/server/framework/gin"
	"github.com/redo-go/redo/server/framework/internal/frametest"
	"github.com/redo-go/redo/store/memstore"
)

func TestGin(t *testing.T) {
	gin.SetMode(gin.TestMode)
	frametest.Run(t, frametest.Wiring{
		Serve:     func(t *testing.T, a *frametest.App) string { return frametest.Serve(t, router(a)) },
		Principal: func(r *http.Request) string { return redogin.Context(r).GetString("user") },
		Wrong:     wrong,
		Refusal: redogin.Refusal(func(c *gin.Context, p server.Problem) {
			if p.Status != http.StatusConflict {
				c.JSON(http.StatusOK, gin.H{"refused": p.Code})
			}
		}),
	})
}

func base() *gin.Engine {
	e := gin.New()
	e.Use(gin.RecoveryWithWriter(io.Discard))
	e.Use(func(c *gin.Context) { c.Set("user", c.GetHeader("X-User")) })
	return e
}

func router(a *frametest.App) http.Handler {
	e := base()
	once := redogin.Middleware(a.Middleware)
	e.POST("/charges/:id", once, charge(a))
	e.POST("/refunds", once, func(c *gin.Context) {
		a.Add("refund")
		c.JSON(http.StatusCreated, gin.H{"refund": "rf_1"})
	})
	e.POST("/invalid", once, renderErrors, func(c *gin.Context) {
		a.Add("invalid")
		_ = c.AbortWithError(http.StatusUnprocessableEntity, errors.New("cents must be positive"))
	})
	e.POST("/unavailable", once, func(c *gin.Context) {
		a.Add("unavailable")
		c.AbortWithStatus(http.StatusServiceUnavailable) // without a body
	})
	e.POST("/panic", once, func(*gin.Context) {
		a.Add("panic")
		panic(frametest.Secret)
	})
	e.POST("/stream", once, func(c *gin.Context) {
		a.Add("stream")
		lines := []string{"one", "two", "three"}
		c.Stream(func(w io.Writer) bool {
			_, _ = fmt.Fprintln(w, lines[0])
			lines = lines[1:]
			return len(lines) > 0
		})
	})
	e.POST("/slow", once, func(c *gin.Context) {
		a.Add("slow")
		a.Hold()
		c.JSON(http.StatusCreated, gin.H{"slow": true})
	})
	e.POST("/hints", once, func(c *gin.Context) {
		a.Add("hints")
		c.Header("Link", "</a.css>")
		w, ok := c.Writer.(interface{ Unwrap() http.ResponseWriter }) // gin's own takes each status for the last
		if !ok {
			c.AbortWithStatus(http.StatusNotImplemented)
			return
		}
		w.Unwrap().WriteHeader(http.StatusEarlyHints)
		c.JSON(http.StatusCreated, gin.H{"hints": true})
	})
	e.POST("/silent", once, func(*gin.Context) { a.Add("silent") })
	return e
}

// renderErrors is the usual middleware that makes a response of c.Errors.
func renderErrors(c *gin.Context) {
	c.Next()
	if err := c.Errors.Last(); err != nil {
		c.JSON(c.Writer.Status(), gin.H{"error": err.Error()})
	}
}

func charge(a *frametest.App) gin.HandlerFunc {
	return func(c *gin.Context) {
		a.Add("charge")
		c.Header("X-Charge", "ch_1")
		c.JSON(http.StatusCreated, gin.H{"charge": c.Param("id")})
	}
}

// wrong is the usual wrapper of a net/http middleware: the handler writes to gin's own writer, past the middleware.
func wrong(t *testing.T, a *frametest.App) string {
	e := base()
	e.POST("/charges/:id", func(c *gin.Context) {
		ran := false
		a.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ran, c.Request = true, r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !ran {
			c.Abort()
		}
	}, charge(a))
	return frametest.Serve(t, e)
}

func TestContextNamesTheMissingMiddleware(t *testing.T) {
	require.PanicsWithValue(t, "redogin: the request did not pass Middleware, so it has no gin context",
		func() { redogin.Context(httptest.NewRequest(http.MethodPost, "/charges/7", nil)) })
}

// engine returns an engine whose handler is behind a middleware that needs no key.
func engine(t *testing.T, handler gin.HandlerFunc, opts ...server.Option) http.Handler {
	t.Helper()
	gin.SetMode(gin.TestMode)
	mw, err := server.New(memstore.New(), append(opts, server.SharedKeys())...)
	require.NoError(t, err)
	e := base()
	e.POST("/charges", redogin.Middleware(mw), handler)
	return e
}

// request returns a request with a key, or without one if key is "".
func request(t *testing.T, url, key string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/charges", http.NoBody)
	require.NoError(t, err)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

// A function that gets gin's context may set its request, for example to add a value.
func TestAReplayEndsTheChainAlthoughAFunctionHasSetTheRequest(t *testing.T) {
	runs := 0
	e := engine(t, func(c *gin.Context) {
		runs++
		c.String(http.StatusCreated, "done")
	}, server.Skip(func(r *http.Request) bool {
		c := redogin.Context(r)
		c.Request = c.Request.WithContext(t.Context())
		return false
	}))
	for _, want := range []string{"stored", "replayed"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, request(t, "", "k"))
		require.Equal(t, want, w.Header().Get("Idempotency-Status"))
		require.Equal(t, "done", w.Body.String())
	}
	require.Equal(t, 1, runs)
}

func TestHijackIsRefusedWhileTheResponseIsRecorded(t *testing.T) {
	url := frametest.Serve(t, engine(t, func(c *gin.Context) {
		conn, rw, err := c.Writer.Hijack()
		if err != nil {
			c.String(http.StatusNotImplemented, "%t", errors.Is(err, http.ErrNotSupported))
			return
		}
		if !c.Writer.Written() {
			return // gin's own writer says so
		}
		_, _ = rw.WriteString("HTTP/1.1 201 Created\r\nContent-Length: 8\r\nConnection: close\r\n\r\nhijacked")
		_ = rw.Flush()
		_ = conn.Close()
	}))
	for key, want := range map[string]struct {
		status int
		body   string
	}{
		"k": {http.StatusNotImplemented, "true"},
		"":  {http.StatusCreated, "hijacked"}, // without a key nothing is recorded
	} {
		resp, err := http.DefaultClient.Do(request(t, url, key))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want.status, resp.StatusCode)
		require.Equal(t, want.body, string(body))
	}
}

func TestARecordedStreamOutlivesTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disconnect func()
		e := engine(t, func(c *gin.Context) {
			n := 0
			c.Stream(func(w io.Writer) bool {
				disconnect()
				synctest.Wait() // gin is notified
				n++
				_, _ = fmt.Fprint(w, n)
				return n < 3
			})
		})
		send := func(key string) *httptest.ResponseRecorder {
			var ctx context.Context
			ctx, disconnect = context.WithCancel(t.Context()) // as net/http does
			defer disconnect()
			w := httptest.NewRecorder()
			e.ServeHTTP(w, request(t, "", key).WithContext(ctx))
			return w
		}
		require.Equal(t, "1", send("").Body.String(), "without a key nothing is recorded")
		require.Equal(t, "123", send("k").Body.String())
		again := send("k")
		require.Equal(t, "replayed", again.Header().Get("Idempotency-Status"))
		require.Equal(t, "123", again.Body.String())
	})
}

func TestCloseNotifyReportsTheEndOfTheHandlersContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := engine(t, func(c *gin.Context) {
		ended := c.Writer.CloseNotify()
		require.Empty(t, ended)
		cancel()
		require.True(t, <-ended)
		c.Status(http.StatusNoContent)
	}, server.CancelOnDisconnect())
	w := httptest.NewRecorder()
	e.ServeHTTP(w, request(t, "", "k").WithContext(ctx))
	require.Equal(t, http.StatusNoContent, w.Code)
}

func TestRefusalNeedsAFunction(t *testing.T) {
	_, err := server.New(memstore.New(), server.SharedKeys(), server.Refusal(redogin.Refusal(nil)))
	require.ErrorContains(t, err, "Refusal: the function must not be nil")
}

// A server that oapi-codegen generates calls its Middlewares from the handler, and runs the handler after them.
func TestAMiddlewareThatTheHandlerCallsIsFound(t *testing.T) {
	mw, err := server.New(memstore.New(), server.SharedKeys())
	require.NoError(t, err)
	runs, once, e := 0, redogin.Middleware(mw), base()
	e.POST("/refunds", func(c *gin.Context) {
		if once(c); c.IsAborted() {
			return
		}
		runs++
		c.JSON(http.StatusCreated, gin.H{"refund": "rf_1"})
	})
	for _, want := range []int{http.StatusInternalServerError, http.StatusConflict, http.StatusConflict} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/refunds", http.NoBody)
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, w.Body)
	}
	require.Equal(t, 1, runs)
}

// net/http removes the files of its own request only, and the handler gets a copy.
func TestTheFilesOfAFormAreRemoved(t *testing.T) {
	frametest.RemovesFiles(t, func(parse func(*http.Request)) http.Handler {
		e := gin.New()
		once := redogin.Middleware(server.Middleware(memstore.New(), server.SharedKeys()))
		e.POST("/receipts", once, func(c *gin.Context) {
			parse(c.Request)
			c.Status(http.StatusCreated)
		})
		return e
	})
}

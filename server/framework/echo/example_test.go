package redoecho_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/redo-go/redo/server"
	redoecho "github.com/redo-go/redo/server/framework/echo"
	"github.com/redo-go/redo/store/memstore"
)

// A repeated request gets the first one's response, and the handler runs once.
func Example() {
	st := memstore.New()
	authenticate := func(next echo.HandlerFunc) echo.HandlerFunc { // yours
		return func(c echo.Context) error {
			c.Set("user", "alice")
			return next(c)
		}
	}

	mw, err := server.New(st, server.Required(), server.Principal(func(r *http.Request) string {
		user, _ := redoecho.Context(r).Get("user").(string)
		return user
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	e := echo.New()
	e.Use(middleware.Recover(), authenticate)
	e.POST("/charges/:id", func(c echo.Context) error {
		fmt.Println("charging", c.Param("id"))
		return c.JSON(http.StatusCreated, map[string]string{"charged": c.Param("id")})
	}, redoecho.Middleware(mw))

	for range 2 {
		fmt.Println(post(e))
	}
	// Output:
	// charging 7
	// 201 stored {"charged":"7"}
	// 201 replayed {"charged":"7"}
}

// The state of a key is reported under echo's authentication, too.
func Example_status() {
	st := memstore.New()
	authenticate := func(next echo.HandlerFunc) echo.HandlerFunc { // yours
		return func(c echo.Context) error {
			c.Set("user", "alice")
			return next(c)
		}
	}
	principal := server.Principal(func(r *http.Request) string {
		user, _ := redoecho.Context(r).Get("user").(string)
		return user
	})
	mw, err := server.New(st, server.Required(), principal)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := echo.New()
	e.Use(middleware.Recover(), authenticate)
	e.POST("/charges/:id", func(c echo.Context) error {
		return c.JSON(http.StatusCreated, map[string]string{"charged": c.Param("id")})
	}, redoecho.Middleware(mw))
	status, err := server.StatusHandler(st, principal, server.Route("POST /charges/:id"))
	if err != nil {
		fmt.Println(err)
		return
	}
	withContext := redoecho.Middleware(func(h http.Handler) http.Handler { return h })
	e.GET("/keys/charges", echo.WrapHandler(status), withContext)

	fmt.Println(post(e))
	r := httptest.NewRequest(http.MethodGet, "/keys/charges", nil)
	r.Header.Set("Idempotency-Key", "charge-7")
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output:
	// 201 stored {"charged":"7"}
	// 200 {"state":"complete","status":201}
}

func post(h http.Handler) string {
	r := httptest.NewRequest(http.MethodPost, "/charges/7", strings.NewReader(`{"cents":1000}`))
	r.Header.Set("Idempotency-Key", "charge-7")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	return fmt.Sprint(w.Code, " ", w.Header().Get("Idempotency-Status"), " ", strings.TrimSpace(string(body)))
}

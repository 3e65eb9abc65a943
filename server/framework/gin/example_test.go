package redogin_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redo-go/redo/server"
	redogin "github.com/redo-go/redo/server/framework/gin"
	"github.com/redo-go/redo/store/memstore"
)

// A repeated request gets the first one's response, and the handler runs once.
func Example() {
	gin.SetMode(gin.ReleaseMode)
	st := memstore.New()
	authenticate := func(c *gin.Context) { c.Set("user", "alice") } // yours

	mw, err := server.New(st, server.Required(), server.Principal(func(r *http.Request) string {
		return redogin.Context(r).GetString("user")
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	router := gin.New()
	router.Use(gin.Recovery(), authenticate)
	router.POST("/charges/:id", redogin.Middleware(mw), func(c *gin.Context) {
		fmt.Println("charging", c.Param("id"))
		c.JSON(http.StatusCreated, gin.H{"charged": c.Param("id")})
	})

	for range 2 {
		fmt.Println(post(router))
	}
	// Output:
	// charging 7
	// 201 stored {"charged":"7"}
	// 201 replayed {"charged":"7"}
}

// The state of a key is reported under gin's authentication, too.
func Example_status() {
	gin.SetMode(gin.ReleaseMode)
	st := memstore.New()
	authenticate := func(c *gin.Context) { c.Set("user", "alice") } // yours
	principal := server.Principal(func(r *http.Request) string { return redogin.Context(r).GetString("user") })
	mw, err := server.New(st, server.Required(), principal)
	if err != nil {
		fmt.Println(err)
		return
	}
	router := gin.New()
	router.Use(gin.Recovery(), authenticate)
	router.POST("/charges/:id", redogin.Middleware(mw), func(c *gin.Context) {
		c.JSON(http.StatusCreated, gin.H{"charged": c.Param("id")})
	})
	status, err := server.StatusHandler(st, principal, server.Route("POST /charges/:id"))
	if err != nil {
		fmt.Println(err)
		return
	}
	router.GET("/keys/charges", redogin.Middleware(func(http.Handler) http.Handler { return status }))

	fmt.Println(post(router))
	r := httptest.NewRequest(http.MethodGet, "/keys/charges", nil)
	r.Header.Set("Idempotency-Key", "charge-7")
	w := httptest.NewRecorder()
	router.ServeHTTP(w, r)
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

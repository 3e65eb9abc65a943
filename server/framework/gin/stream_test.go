package redogin_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// gin's Stream ends with the handler's context, as a loop of net/http's does that looks at its context. In both the
// handler decides whether the part that was written is a response.
func TestAStreamThatHandlerTimeoutCutsIsTheHandlersToJudge(t *testing.T) {
	for _, c := range []struct {
		rule  string
		judge func(r *http.Request)
		want  []string // the Idempotency-Status of two requests
	}{
		{"the part is the response", func(*http.Request) {}, []string{"stored", "replayed"}},
		{"the part is not stored", func(r *http.Request) { server.Unknown(r.Context()) }, []string{"", ""}},
	} {
		ginStream := func(ctx *gin.Context) {
			if ctx.Stream(func(w io.Writer) bool {
				_, _ = fmt.Fprint(w, "x")
				time.Sleep(time.Second)
				return true
			}) {
				c.judge(ctx.Request)
			}
		}
		plainStream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = fmt.Fprint(w, "x")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
			c.judge(r)
		})
		limit := server.HandlerTimeout(2500 * time.Millisecond)
		for name, h := range map[string]func(t *testing.T) http.Handler{
			"gin": func(t *testing.T) http.Handler { return engine(t, ginStream, limit) },
			"net/http": func(*testing.T) http.Handler {
				return server.Middleware(memstore.New(), server.SharedKeys(), limit)(plainStream)
			},
		} {
			t.Run(c.rule+" in "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := h(t)
					for _, status := range c.want {
						w := httptest.NewRecorder()
						h.ServeHTTP(w, request(t, "", "k"))
						require.Equal(t, http.StatusOK, w.Code)
						require.Equal(t, "xxx", w.Body.String())
						require.Equal(t, status, w.Header().Get("Idempotency-Status"))
					}
				})
			})
		}
	}
}

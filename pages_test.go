package redo_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An intermediary responds in the API's place, over a real socket: a captive portal, a login page, a gateway. None
// of its responses is a success, and a later call of the operation reaches the API under the same key.
func TestPageInPlaceOfTheResponseIsNoSuccessOfCall(t *testing.T) {
	page := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write([]byte(body))
		}
	}
	const html = "<!DOCTYPE html><html><body>Please log in</body></html>"
	redirect := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/login")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"id":"rf_0"}`)) // even a body that decodes is no response of the API's
		}
	}
	for _, c := range []struct {
		name    string
		page    http.HandlerFunc
		code    taxonomy.Code
		applied bool
	}{
		{"301 to a login page", redirect(301), taxonomy.RedirectNotFollowed, false},
		{"302 to a login page", redirect(302), taxonomy.RedirectNotFollowed, false},
		{"303 to a login page", redirect(303), taxonomy.RedirectNotFollowed, false},
		{"a page of HTML with 200", page("text/html; charset=utf-8", html), taxonomy.Provider + ".malformed", false},
		{
			"a page of HTML that is labelled as JSON", page("application/json", html), taxonomy.Provider + ".malformed",
			false,
		},
		{"a page without a type", page("", html), taxonomy.Provider + ".malformed", false},
		{"the API's own response", page("application/json", `{"id":"rf_1"}`), "", true},
		{"the API's own response under a wrong type", page("text/plain", `{"id":"rf_1"}`), "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent atomic.Int32
			var keys [2]string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := sent.Add(1)
				keys[n-1] = r.Header.Get("Idempotency-Key")
				if n == 1 {
					c.page(w, r)
					return
				}
				page("application/json", `{"id":"rf_1"}`)(w, r)
			}))
			defer srv.Close()
			st := openStore(t)
			client := connect(t, fresh(t), quick, redo.WithStore(st))
			call := func() (receipt, error) {
				return redo.Call[receipt](redo.WithOperation(t.Context(), "op"), client, "POST", srv.URL,
					receipt{Amount: 1})
			}
			out, err := call()
			if c.applied {
				require.NoError(t, err)
				require.Equal(t, receipt{ID: "rf_1"}, out)
				require.Equal(t, store.StateComplete, record(t, st, "op").State)
				return
			}
			e := failure(t, err)
			require.Zero(t, out)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, redo.EffectUnknown, e.Effect)
			require.Len(t, e.Attempts, 1)
			require.Equal(t, store.StatePending, record(t, st, "op").State)

			out, err = call()
			require.NoError(t, err)
			require.Equal(t, receipt{ID: "rf_1"}, out)
			require.Equal(t, keys[0], keys[1])
			require.Equal(t, store.StateComplete, record(t, st, "op").State)
		})
	}
}

package server_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestHandlerRequest(t *testing.T) {
	read := func(t *testing.T, r io.Reader) string {
		t.Helper()
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		return string(b)
	}
	for rule, opts := range map[string][]server.Option{"tracked": nil, "untracked": {server.FailOpen()}} {
		t.Run("has a GetBody, so that it can be sent on and resent: "+rule, func(t *testing.T) {
			st := newFaults(nil)
			if opts != nil {
				st.on = failing("Reserve", store.ErrUnavailable)
			}
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, "1", read(t, r.Body))
				for range 2 {
					again, err := r.GetBody()
					require.NoError(t, err)
					require.Equal(t, "1", read(t, again))
					require.NoError(t, again.Close())
				}
				require.Empty(t, read(t, r.Body), "the first body is not rewound by it")
				created(w, r)
			}, opts...)
			require.Equal(t, 201, g.do(withBody("1")).Code)
		})
	}
	t.Run("without a body needs none", func(t *testing.T) {
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			require.Nil(t, r.GetBody)
			require.Empty(t, read(t, r.Body))
			created(w, r)
		})
		require.Equal(t, 201, g.do(withBody("")).Code)
	})
}

func TestHeaderThatTheHandlerDeletes(t *testing.T) {
	outer := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "public")
			w.Header().Set("Set-Cookie", "session=1")
			w.Header().Set("X-Frame-Options", "DENY")
			h.ServeHTTP(w, r)
		})
	}
	g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Del("Cache-Control")
		w.Header().Del("Set-Cookie")
		created(w, r)
	})
	g.Handler = outer(g.Handler)
	for _, w := range []http.Header{g.do().Header(), g.do().Header()} {
		require.Empty(t, w.Values("Cache-Control"))
		require.Empty(t, w.Values("Set-Cookie"))
		require.Equal(t, "DENY", w.Get("X-Frame-Options"), "the other headers are there")
	}
	require.Equal(t, 1, g.ran())
}

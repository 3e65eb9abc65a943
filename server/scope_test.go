package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func principalHeader(r *http.Request) string { return r.Header.Get("X-Principal") }

func TestPrincipal(t *testing.T) {
	as := func(name string) func(*http.Request) { return withHeader("X-Principal", name) }
	t.Run("another principal neither sees nor detects a record", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.Principal(principalHeader))
		requireStored(t, g.do(as("a")), 201, `{"id":"rf_123"}`)
		requireStored(t, g.do(as("b"), withBody("another")), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(as("a")), 201, `{"id":"rf_123"}`)
		require.Equal(t, 2, g.ran())
	})
	t.Run("no principal is 401, whatever is stored", func(t *testing.T) {
		st := newFaults(nil)
		g := newRig(t, st, nil, server.Principal(principalHeader))
		requireProblem(t, g.do(), 401, "AUTH.unauthenticated")
		require.Zero(t, g.ran())
		require.Empty(t, st.calls)
	})
	t.Run("a rotated token is the same principal", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.Principal(principalHeader))
		requireStored(t, g.do(as("a"), withHeader("Authorization", "Bearer 1")), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(as("a"), withHeader("Authorization", "Bearer 2")), 201, `{"id":"rf_123"}`)
	})
	t.Run("a principal can't be made to look like another's", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.Principal(principalHeader), server.Pepper([]byte("0123456789abcdef")))
		requireStored(t, g.do(as("a"), withKey("bc")), 201, `{"id":"rf_123"}`)
		requireStored(t, g.do(as("ab"), withKey("c")), 201, `{"id":"rf_123"}`)
	})
}

// A spy keeps the last claim that reached the store.
type spy struct {
	store.Store
	last store.Claim
}

func (s *spy) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	s.last = c
	return s.Store.Reserve(ctx, c)
}

func TestScope(t *testing.T) {
	claim := func(t *testing.T, opts []server.Option, pattern string, edits ...func(*http.Request)) store.ID {
		t.Helper()
		st := &spy{Store: memstore.New()}
		h := server.Middleware(st, opts...)(http.HandlerFunc(created))
		if pattern != "" {
			mux := http.NewServeMux()
			mux.Handle(pattern, h)
			h = mux
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(t.Context(), edits...))
		require.Equal(t, 201, w.Code)
		return st.last.ID
	}
	byPrincipal := []server.Option{server.Principal(principalHeader)}
	t.Run("the route's pattern and not the path", func(t *testing.T) {
		require.Equal(t, store.ID{Scope: "18:POST /refunds/{id}", Key: "k1"}, claim(t, nil, "POST /refunds/{id}"))
	})
	t.Run("method and path where no mux has matched", func(t *testing.T) {
		require.Equal(t, store.ID{Scope: "18:POST /refunds/ch_1", Key: "k1"}, claim(t, nil, ""))
	})
	t.Run("the principal follows, with its length", func(t *testing.T) {
		id := claim(t, byPrincipal, "/refunds/{id}", withHeader("X-Principal", "user 7"))
		require.Equal(t, store.ID{Scope: "13:/refunds/{id}6:user 7", Key: "k1"}, id)
	})
	t.Run("what is too long to be read is hashed, and still told apart", func(t *testing.T) {
		long := strings.Repeat("p", 2000)
		a := claim(t, byPrincipal, "/refunds/{id}", withHeader("X-Principal", long+"a"))
		b := claim(t, byPrincipal, "/refunds/{id}", withHeader("X-Principal", long+"b"))
		require.Len(t, a.Scope, len("sha256:")+64)
		require.NotEqual(t, a.Scope, b.Scope)
	})
	t.Run("with a pepper neither key nor principal is there to be read", func(t *testing.T) {
		opts := []server.Option{server.Principal(principalHeader), server.Pepper([]byte("0123456789abcdef"))}
		id := claim(t, opts, "/refunds/{id}", withHeader("X-Principal", "user 7"))
		require.Equal(t, "13:/refunds/{id}", id.Scope)
		require.Regexp(t, "^[0-9a-f]{64}$", id.Key)
		require.Equal(t, id, claim(t, opts, "/refunds/{id}", withHeader("X-Principal", "user 7")))
		require.NotEqual(t, id, claim(t, opts, "/refunds/{id}", withHeader("X-Principal", "user 8")))
		require.NotEqual(t, id, claim(t, opts, "/refunds/{id}", withHeader("X-Principal", "user 7"), withKey("k2")))
		other := server.Pepper([]byte("another 16 bytes"))
		require.NotEqual(t, id, claim(t, []server.Option{opts[0], other}, "/refunds/{id}", withHeader("X-Principal", "user 7")))
	})
}

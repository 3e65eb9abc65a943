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
		g := newTenantRig(t, memstore.New(), nil, server.Principal(principalHeader))
		requireStored(t, g.do(as("a")), 201, `{"id":"rf_123"}`)
		requireStored(t, g.do(as("b"), withBody("another")), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(as("a")), 201, `{"id":"rf_123"}`)
		require.Equal(t, 2, g.ran())
	})
	t.Run("no principal is 401, with any stored record", func(t *testing.T) {
		st := newFaults(nil)
		g := newTenantRig(t, st, nil, server.Principal(principalHeader))
		requireProblem(t, g.do(), 401, "AUTH.unauthenticated")
		require.Zero(t, g.ran())
		require.Empty(t, st.calls)
	})
	t.Run("a rotated token is the same principal", func(t *testing.T) {
		g := newTenantRig(t, memstore.New(), nil, server.Principal(principalHeader))
		requireStored(t, g.do(as("a"), withHeader("Authorization", "Bearer 1")), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(as("a"), withHeader("Authorization", "Bearer 2")), 201, `{"id":"rf_123"}`)
	})
	t.Run("a principal can't be made to look like another's", func(t *testing.T) {
		g := newTenantRig(t, memstore.New(), nil, server.Principal(principalHeader),
			server.Pepper([]byte("0123456789abcdef")))
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
	shared := []server.Option{server.SharedKeys()}
	byPrincipal := []server.Option{server.Principal(principalHeader)}
	t.Run("the route's pattern and not the path", func(t *testing.T) {
		require.Equal(t, store.ID{Scope: "18:POST /refunds/{id}", Key: "k1"}, claim(t, shared, "POST /refunds/{id}"))
	})
	t.Run("the method, and never the path, outside of a mux", func(t *testing.T) {
		require.Equal(t, store.ID{Scope: "6:POST *", Key: "k1"}, claim(t, shared, ""))
	})
	t.Run("the name of the route and of the service", func(t *testing.T) {
		named := append(shared, server.Route("refund"), server.Scope("bank"))
		require.Equal(t, store.ID{Scope: "s4:bank6:refund", Key: "k1"}, claim(t, named, "POST /refunds/{id}"))
	})
	t.Run("the principal follows, with its length", func(t *testing.T) {
		id := claim(t, byPrincipal, "/refunds/{id}", withHeader("X-Principal", "user 7"))
		require.Equal(t, store.ID{Scope: "13:/refunds/{id}6:user 7", Key: "k1"}, id)
	})
	t.Run("a value that is too long to be read is hashed, and still distinguished", func(t *testing.T) {
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
		require.NotEqual(t, id,
			claim(t, []server.Option{opts[0], other}, "/refunds/{id}", withHeader("X-Principal", "user 7")))
	})
}

// serve mounts a separate middleware for each pattern, over one store, and counts the runs.
func serve(t *testing.T, st store.Store, runs *int, patterns map[string][]server.Option) *http.ServeMux {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, opts := range patterns {
		mw, err := server.New(st, append(opts, server.SharedKeys())...)
		require.NoError(t, err)
		mux.Handle(pattern, mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*runs++
			created(w, r)
		})))
	}
	return mux
}

func do(t *testing.T, h http.Handler, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(t.Context(), edits...))
	return w
}

func TestRoute(t *testing.T) {
	const body = `{"id":"rf_123"}`
	at := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	to := func(path string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = path } }
	t.Run("a wildcard is renamed and no key is forgotten", func(t *testing.T) {
		for rule, opts := range map[string][][]server.Option{
			"named before and after":   {{server.Route("refund")}, {server.Route("refund")}},
			"named by its old pattern": {nil, {server.Route("POST /refunds/{id}")}},
		} {
			st, runs := memstore.New(), 0
			old := serve(t, st, &runs, map[string][]server.Option{"POST /refunds/{id}": opts[0]})
			requireStored(t, do(t, old), 201, body)
			renamed := serve(t, st, &runs, map[string][]server.Option{"POST /refunds/{charge}": opts[1]})
			requireReplayed(t, do(t, renamed), 201, body)
			require.Equal(t, 1, runs, rule)
		}
	})
	t.Run("routes with different names keep their keys apart", func(t *testing.T) {
		st, runs := memstore.New(), 0
		mux := serve(t, st, &runs, map[string][]server.Option{
			"POST /refunds/{id}": {server.Route("refund")}, "POST /voids/{id}": {server.Route("void")},
		})
		requireStored(t, do(t, mux), 201, body)
		requireStored(t, do(t, mux, to("/voids/ch_1")), 201, body)
		requireReplayed(t, do(t, mux, to("/voids/ch_1")), 201, body)
		require.Equal(t, 2, runs)
	})
	t.Run("services of one store are kept apart by their names", func(t *testing.T) {
		st, runs := memstore.New(), 0
		for _, opts := range [][]server.Option{nil, {server.Scope("a")}, {server.Scope("b")}} {
			mux := serve(t, st, &runs, map[string][]server.Option{"POST /refunds/{id}": opts})
			requireStored(t, do(t, mux), 201, body)
			requireReplayed(t, do(t, mux), 201, body)
		}
		require.Equal(t, 3, runs)
	})
	t.Run("the hosts of a mux are kept apart, named or not", func(t *testing.T) {
		for _, opts := range [][]server.Option{nil, {server.Route("refund")}} {
			st, runs := memstore.New(), 0
			mux := serve(t, st, &runs, map[string][]server.Option{
				"POST a.example/refunds/{id}": opts, "POST b.example/refunds/{id}": opts,
			})
			for _, host := range []string{"a.example", "b.example"} {
				requireStored(t, do(t, mux, at(host)), 201, body)
				requireReplayed(t, do(t, mux, at(host)), 201, body)
			}
			require.Equal(t, 2, runs)
		}
	})
	t.Run("a pattern without a host serves its hosts as one", func(t *testing.T) {
		st, runs := memstore.New(), 0
		mux := serve(t, st, &runs, map[string][]server.Option{"POST /refunds/{id}": nil})
		requireStored(t, do(t, mux, at("a.example")), 201, body)
		requireReplayed(t, do(t, mux, at("a.internal:8080")), 201, body)
	})
	t.Run("a wildcard behind a host is renamed under the old pattern", func(t *testing.T) {
		st, runs := memstore.New(), 0
		old := serve(t, st, &runs, map[string][]server.Option{"POST a.example/refunds/{id}": nil})
		requireStored(t, do(t, old, at("a.example")), 201, body)
		renamed := serve(t, st, &runs, map[string][]server.Option{
			"POST a.example/refunds/{charge}": {server.Route("POST a.example/refunds/{id}")},
		})
		requireReplayed(t, do(t, renamed, at("a.example")), 201, body)
	})
	t.Run("outside of a mux a key belongs to one path", func(t *testing.T) {
		runs := 0
		mw := server.Middleware(memstore.New(), server.SharedKeys())
		h := mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			created(w, r)
		}))
		requireStored(t, do(t, h), 201, body)
		requireReplayed(t, do(t, h), 201, body)
		requireProblem(t, do(t, h, to("/refunds/ch_2")), 409, "CONFLICT.idempotency.payload_mismatch")
		requireStored(t, do(t, h, to("/refunds/ch_2"), withKey("k2")), 201, body)
		require.Equal(t, 2, runs)
	})
}

// Names, principals and routes that are put together in another way never make the same scope.
func TestScopesDoNotCollide(t *testing.T) {
	seen := map[string]string{}
	for _, opts := range []struct {
		rule             string
		principal, scope string
		route            string
	}{
		{"a route", "", "", "a"},
		{"a principal", "a", "", "a"},
		{"a principal like a scope", "s1:a", "", "a"},
		{"a service", "", "a", "a"},
		{"a service and a principal", "a", "a", "a"},
		{"a service that looks like two parts", "", "a1:a", "a"},
		{"a route that looks like two parts", "", "", "1:a1:a"},
	} {
		all := []server.Option{server.Route(opts.route)}
		if opts.scope != "" {
			all = append(all, server.Scope(opts.scope))
		}
		if opts.principal == "" {
			all = append(all, server.SharedKeys())
		} else {
			all = append(all, server.Principal(func(*http.Request) string { return opts.principal }))
		}
		st := &spy{Store: memstore.New()}
		do(t, server.Middleware(st, all...)(http.HandlerFunc(created)))
		require.Empty(t, seen[st.last.ID.Scope], "%s, as %s", st.last.ID.Scope, opts.rule)
		seen[st.last.ID.Scope] = opts.rule
	}
}

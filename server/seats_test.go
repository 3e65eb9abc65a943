package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

func TestMaxWaiters(t *testing.T) {
	const body = `{"id":"rf_123"}`
	as := func(name string) func(*http.Request) { return withHeader("X-Principal", name) }
	byPrincipal := server.Principal(principalHeader)
	type attempt struct {
		principal, key string
		waits          bool
	}
	for _, c := range []struct {
		rule     string
		opts     []server.Option
		attempts []attempt // after each key's first request
	}{
		{"in all", []server.Option{byPrincipal, server.MaxWaiters(2)},
			[]attempt{{"a", "k1", true}, {"b", "k2", true}, {"c", "k3", false}}},
		{"by principal", []server.Option{byPrincipal, server.MaxWaitersPerPrincipal(2)},
			[]attempt{{"a", "k1", true}, {"a", "k2", true}, {"a", "k3", false},
				{"b", "k1", true}, {"b", "k2", true}, {"b", "k3", false}}},
		{"by key", []server.Option{byPrincipal, server.MaxWaitersPerKey(1)},
			[]attempt{{"a", "k1", true}, {"a", "k1", false}, {"a", "k2", true}, {"b", "k1", true}, {"b", "k1", false}}},
		{"not by principal where the keys are shared",
			[]server.Option{server.SharedKeys(), server.MaxWaitersPerPrincipal(1)},
			[]attempt{{"a", "k1", true}, {"a", "k2", true}, {"a", "k3", true}}},
	} {
		t.Run("waiters are limited "+c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTenantRig(t, memstore.New(), slow(10*time.Second), append(c.opts, server.Wait(time.Minute))...)
				// The second round finds the places that the first one has left.
				for round := range 2 {
					suffix := string(rune('0' + round))
					var running []<-chan *httptest.ResponseRecorder
					begun := map[string]bool{}
					for _, a := range c.attempts {
						if !begun[a.principal+a.key] {
							begun[a.principal+a.key] = true
							running = append(running, g.start(as(a.principal), withKey(a.key+suffix)))
						}
					}
					var waiting []<-chan *httptest.ResponseRecorder
					for i, a := range c.attempts {
						w := g.start(as(a.principal), withKey(a.key+suffix))
						if a.waits {
							waiting = append(waiting, w)
							require.Empty(t, w, "attempt %d waits", i)
							continue
						}
						require.Len(t, w, 1, "attempt %d is refused immediately", i)
						requireProblem(t, <-w, 409, "CONFLICT.idempotency.in_flight")
					}
					for _, w := range running {
						require.Equal(t, 201, (<-w).Code)
					}
					for _, w := range waiting {
						requireReplayed(t, <-w, 201, body)
					}
				}
			})
		})
	}
}

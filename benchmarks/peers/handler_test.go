package main

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// servicePromises are the columns of the middleware's table. observe returns whether the promise is kept.
var servicePromises = []struct {
	title   string
	observe func(t *testing.T, s service) bool
}{
	{"replays the response", replaysResponse},
	{"marks the replay", marksReplay},
	{"refuses another payload", refusesPayload},
	{"separates routes", separatesRoutes},
	{"runs simultaneous duplicates once", runsOnce},
}

// TestServicePromises sends requests with one key to each service, and compares the result with the documentation.
func TestServicePromises(t *testing.T) {
	rows := [][]string{{"Service"}}
	for _, p := range servicePromises {
		rows[0] = append(rows[0], p.title)
	}
	for _, s := range services {
		row := []string{s.name}
		for _, p := range servicePromises {
			var ok bool
			t.Run(s.name+"/"+p.title, func(t *testing.T) { ok = p.observe(t, s) })
			require.True(t, s.guarded || !ok, "a service without middleware keeps no promise")
			row = append(row, verdict(ok))
		}
		rows = append(rows, row)
	}
	compare(t, "middleware-promises", markdown(rows))
}

// serving starts a service whose handler counts its runs, and calls hold in each.
func serving(t *testing.T, s service, hold func()) (addr string, runs *atomic.Int64) {
	runs = new(atomic.Int64)
	running, err := s.start(func() { runs.Add(1); hold() })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, running.stop()) })
	return running.addr, runs
}

func connect(t *testing.T, addr, route, payload string) *wire {
	c, err := dial(addr, route, []byte(payload))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.close()) })
	return c
}

func must(t *testing.T, c *wire) response {
	got, err := c.post(1)
	require.NoError(t, err)
	return got
}

func replaysResponse(t *testing.T, s service) bool {
	addr, runs := serving(t, s, func() {})
	c := connect(t, addr, routeA, "{}")
	first, second := must(t, c), must(t, c)
	require.Equal(t, http.StatusCreated, first.status)
	require.Equal(t, first.status, second.status)
	require.Equal(t, first.body, second.body)
	return runs.Load() == 1
}

func marksReplay(t *testing.T, s service) bool {
	addr, _ := serving(t, s, func() {})
	c := connect(t, addr, routeA, "{}")
	require.False(t, must(t, c).replayed)
	return must(t, c).replayed
}

func refusesPayload(t *testing.T, s service) bool {
	addr, _ := serving(t, s, func() {})
	must(t, connect(t, addr, routeA, `{"cents":1000}`))
	return must(t, connect(t, addr, routeA, `{"cents":2000}`)).status == http.StatusConflict
}

// separatesRoutes reports whether a key of one route means nothing on another one, and is still kept on the first.
func separatesRoutes(t *testing.T, s service) bool {
	addr, runs := serving(t, s, func() {})
	for _, route := range []string{routeA, routeB, routeA} {
		require.Equal(t, http.StatusCreated, must(t, connect(t, addr, route, "{}")).status)
	}
	return runs.Load() == 2
}

// runsOnce sends a second request while the handler of the first one runs.
func runsOnce(t *testing.T, s service) bool {
	entered, release := make(chan struct{}, 2), make(chan struct{})
	addr, runs := serving(t, s, func() { entered <- struct{}{}; <-release })
	first, second := connect(t, addr, routeA, "{}"), connect(t, addr, routeA, "{}")
	require.NoError(t, first.send(1))
	<-entered
	require.NoError(t, second.send(1))
	close(release)
	for _, c := range []*wire{first, second} {
		_, err := c.receive()
		require.NoError(t, err)
	}
	return runs.Load() == 1
}

package server_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// keepServerErrors stores responses of 500 and above too.
func keepServerErrors() server.Option {
	return server.Keep(func(status int) bool { return status >= 500 || server.DefaultKeep(status) })
}

func TestKeep(t *testing.T) {
	for _, c := range []struct {
		rule   string
		opts   []server.Option
		status int
		runs   int // of two requests
	}{
		{"a 401 is mended with other credentials", nil, 401, 2},
		{"a 403 is mended by a permission", nil, 403, 2},
		{"a 407 is mended with other credentials", nil, 407, 2},
		{"a 404 is stored", nil, 404, 1},
		{"a 422 is stored", nil, 422, 1},
		{"a 503 is released", nil, 503, 2},
		{"a 404 is released by choice", []server.Option{server.Keep(func(s int) bool { return s != 404 })}, 404, 2},
		{"a 401 is stored by choice", []server.Option{server.Keep(func(s int) bool { return s == 401 })}, 401, 1},
		{"a 503 is stored by choice", []server.Option{keepServerErrors()}, 503, 1},
		{
			"a 201 is stored with any result of Keep", []server.Option{server.Keep(func(int) bool { return false })},
			201, 1,
		},
		{
			"a 303 is stored with any result of Keep", []server.Option{server.Keep(func(int) bool { return false })},
			303, 1,
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			g := newRig(t, memstore.New(), answer(c.status, ""), c.opts...)
			require.Equal(t, c.status, g.do().Code)
			require.Equal(t, c.status, g.do().Code)
			require.Equal(t, c.runs, g.ran())
		})
	}
	t.Run("only refusals and failures are asked about", func(t *testing.T) {
		var asked []int
		keep := server.Keep(func(status int) bool { asked = append(asked, status); return true })
		for _, status := range []int{200, 303, 400, 503} {
			newRig(t, memstore.New(), answer(status, ""), keep).do()
		}
		require.Equal(t, []int{400, 503}, asked)
	})
	t.Run("a refreshed token does not get the old refusal", func(t *testing.T) {
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer new" {
				w.WriteHeader(401)
				return
			}
			created(w, r)
		})
		requireReleased(t, g.do(withHeader("Authorization", "Bearer old")), 401)
		requireStored(t, g.do(withHeader("Authorization", "Bearer new")), 201, `{"id":"rf_123"}`)
	})
}

func TestKeepFor(t *testing.T) {
	const body = `{"id":"rf_123"}`
	keptFor := func(d ...time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for _, d := range d {
				if err := server.KeepFor(r.Context(), d); err != nil {
					panic(err)
				}
			}
			created(w, r)
		}
	}
	for _, c := range []struct {
		rule   string
		run    http.HandlerFunc
		lasts  time.Duration
		unless string
	}{
		{"a response lasts for the route's retention", created, time.Hour, ""},
		{"a response lasts for less", keptFor(time.Minute), time.Minute, ""},
		{"a response lasts for longer", keptFor(48 * time.Hour), 48 * time.Hour, ""},
		{"the last call counts", keptFor(time.Minute, 2*time.Hour), 2 * time.Hour, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, memstore.New(), c.run, server.Retention(time.Hour))
				requireStored(t, g.do(), 201, body)
				time.Sleep(c.lasts - time.Nanosecond)
				requireReplayed(t, g.do(), 201, body)
				time.Sleep(time.Nanosecond)
				requireStored(t, g.do(), 201, body)
				require.Equal(t, 2, g.ran())
			})
		})
	}
	t.Run("it counts from the end of the response", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
				keptFor(time.Minute)(w, r)
				time.Sleep(50 * time.Second)
			})
			requireStored(t, g.do(), 201, body)
			time.Sleep(time.Minute - time.Nanosecond)
			requireReplayed(t, g.do(), 201, body)
		})
	})
	for rule, end := range map[string]http.HandlerFunc{
		"a panic after the effect":     after(applied, func(http.ResponseWriter, *http.Request) { panic("x") }),
		"silence":                      func(http.ResponseWriter, *http.Request) {},
		"a response that is too large": answer(201, "too large"),
	} {
		t.Run("it shortens no record of "+rule+", and may lengthen it", func(t *testing.T) {
			for d, lasts := range map[time.Duration]time.Duration{time.Minute: time.Hour, 2 * time.Hour: 2 * time.Hour} {
				synctest.Test(t, func(t *testing.T) {
					try := func(g *rig) {
						defer func() { _ = recover() }()
						g.do()
					}
					g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
						require.NoError(t, server.KeepFor(r.Context(), d))
						end(w, r)
					}, server.Retention(time.Hour), server.MaxResponse(3))
					try(g)
					time.Sleep(lasts - time.Nanosecond)
					require.Equal(t, 409, g.do().Code)
					time.Sleep(time.Nanosecond)
					try(g)
					require.Equal(t, 2, g.ran())
				})
			}
		})
	}
	t.Run("a duration that is not positive is an error and changes nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
				for _, d := range []time.Duration{0, -time.Second} {
					if err := server.KeepFor(r.Context(), d); err == nil {
						panic("KeepFor took " + d.String())
					}
				}
				created(w, r)
			}, server.Retention(time.Hour))
			requireStored(t, g.do(), 201, body)
			time.Sleep(time.Hour - time.Nanosecond)
			requireReplayed(t, g.do(), 201, body)
		})
		require.ErrorIs(t, server.KeepFor(t.Context(), 0), store.ErrInvalid)
		require.NoError(t, server.KeepFor(t.Context(), time.Hour), "outside of the middleware it does nothing")
	})
}

// A sink of results keeps the last one that was stored.
type results struct {
	store.Store
	last []byte
}

func (s *results) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	s.last = o.Result
	return s.Store.Complete(ctx, l, o)
}

func TestReplayHeader(t *testing.T) {
	const body = `{"id":"rf_123"}`
	run := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Cost-Center", "4711")
		w.Header().Set("X-Invoice", "in_1")
		w.Header().Set("Set-Cookie", "session=secret")
		created(w, r)
	}
	var asked []string
	noCost := server.ReplayHeader(func(name string) bool {
		asked = append(asked, name)
		return name != "X-Cost-Center"
	})
	t.Run("a refused response reaches the first caller and is neither stored nor replayed", func(t *testing.T) {
		st := &results{Store: memstore.New()}
		g := newRig(t, st, run, noCost)
		first := g.do()
		requireStored(t, first, 201, body)
		require.Equal(t, "4711", first.Header().Get("X-Cost-Center"))
		require.False(t, bytes.Contains(st.last, []byte("4711")))
		require.True(t, bytes.Contains(st.last, []byte("in_1")))
		again := g.do()
		requireReplayed(t, again, 201, body)
		require.Empty(t, again.Header().Get("X-Cost-Center"))
		require.Equal(t, "in_1", again.Header().Get("X-Invoice"))
		require.NotContains(t, asked, "Set-Cookie")
	})
	t.Run("it filters responses stored before it was set", func(t *testing.T) {
		st := memstore.New()
		requireStored(t, newRig(t, st, run).do(), 201, body)
		again := newRig(t, st, run, noCost).do()
		requireReplayed(t, again, 201, body)
		require.Empty(t, again.Header().Get("X-Cost-Center"))
		require.Equal(t, "in_1", again.Header().Get("X-Invoice"))
	})
	t.Run("without it all of them are replayed", func(t *testing.T) {
		g := newRig(t, memstore.New(), run)
		g.do()
		require.Equal(t, "4711", g.do().Header().Get("X-Cost-Center"))
	})
	t.Run("it can't make a cookie replayable", func(t *testing.T) {
		g := newRig(t, memstore.New(), run, server.ReplayHeader(func(string) bool { return true }))
		g.do()
		require.Empty(t, g.do().Header().Get("Set-Cookie"))
	})
}

func TestSkip(t *testing.T) {
	isProbe := func(r *http.Request) bool { return r.Header.Get("X-Probe") != "" }
	g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Key", strconv.Quote(server.Key(r.Context())))
		created(w, r)
	}, server.Required(), server.Skip(isProbe))
	probe := withHeader("X-Probe", "1")
	for _, edits := range [][]func(*http.Request){
		{probe}, {probe}, {probe, without("Idempotency-Key")}, {probe, withKey("bad\nkey")},
	} {
		w := g.do(edits...)
		requireReleased(t, w, 201)
		require.Equal(t, `""`, w.Header().Get("X-Key"))
	}
	require.Equal(t, 4, g.ran(), "skipped requests run the handler each time")
	requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
	requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
	requireProblem(t, g.do(without("Idempotency-Key")), 400, "VALIDATION.idempotency_key.missing")
	require.Equal(t, 5, g.ran())
}

// The client has such a response already, and only the record can still follow the handler's report.
func TestAReportAfterALargeResponseSettlesTheRecord(t *testing.T) {
	for rule, c := range map[string]struct {
		say  func(context.Context)
		ran  int
		then int
	}{
		"no report":  {func(context.Context) {}, 2, 500},
		"its effect": {applied, 1, 409},
		"a refusal":  {server.Fail, 1, 409},
	} {
		t.Run(rule, func(t *testing.T) {
			g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
				answer(500, "too large")(w, r)
				c.say(r.Context())
			}, server.MaxResponse(3))
			w := g.do()
			requireReleased(t, w, 500)
			require.Equal(t, "too large", w.Body.String())
			require.Equal(t, c.then, g.do().Code)
			require.Equal(t, c.ran, g.ran())
		})
	}
}

// The refusal is on its way, and no layer outside may add to it.
func TestAPanicAfterALargeResponseThatWasNotRecordedAddsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, newFaults(failing("Complete", store.ErrLost)), func(w http.ResponseWriter, r *http.Request) {
			answer(201, "too large")(w, r)
			defer func() {
				_, err := io.WriteString(w, "recovered")
				require.Error(t, err)
			}()
			panic(http.ErrAbortHandler)
		}, server.MaxResponse(3))
		w := httptest.NewRecorder()
		require.Panics(t, func() { g.ServeHTTP(w, request(t.Context())) })
		require.NotContains(t, requireProblem(t, w, 503, "DEPENDENCY.unavailable").Detail, "recovered")
	})
}

// The handler has had its effect when these functions are called.
func TestAPanicOfAnOptionsFunctionAfterTheEffect(t *testing.T) {
	t.Run("of ReplayHeader never runs the handler again", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.ReplayHeader(func(string) bool { panic("filter") }))
		require.PanicsWithValue(t, "filter", func() { g.do() })
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored")
		require.Equal(t, 1, g.ran())
	})
	t.Run("of Keep releases the key of a refusal", func(t *testing.T) {
		g := newRig(t, memstore.New(), answer(404, ""), server.Keep(func(int) bool { panic("keep") }))
		for range 2 {
			require.PanicsWithValue(t, "keep", func() { g.do() })
		}
		require.Equal(t, 2, g.ran())
	})
	t.Run("of Refusal loses no response that waits to be recorded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(failing("Complete", store.ErrUnavailable))
			g := newRig(t, st, nil, server.Refusal(func(http.ResponseWriter, *http.Request, server.Problem) {
				panic("refusal")
			}))
			require.PanicsWithValue(t, "refusal", func() { g.do() })
			require.Equal(t, 1, g.background.Len())
			st.heal()
			require.NoError(t, g.background.Shutdown(t.Context()))
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1, g.ran())
		})
	})
}

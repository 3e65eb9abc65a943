package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/benchmarks/post"
	"github.com/redo-go/redo/server"
	redofiber "github.com/redo-go/redo/server/framework/fiber"
	"github.com/redo-go/redo/store/memstore"
)

// A service has two routes with the same handler, which counts its runs, and middleware in front of both.
type service struct {
	name    string
	guarded bool // it has middleware that replays
	// serve serves the listener until stop is called.
	serve func(l net.Listener, handled func()) (stop func() error)
}

// The routes of a service.
const (
	routeA = "/v1/refunds"
	routeB = "/v1/charges"
)

const (
	byNetHTTP = "http.Server, no middleware"
	byFiber   = "fiber, no middleware"
)

var services = []service{
	{byNetHTTP, false, func(l net.Listener, handled func()) func() error { return onNetHTTP(l, handled, nil) }},
	{"redo on http.Server", true, func(l net.Listener, handled func()) func() error {
		return onNetHTTP(l, handled, server.Middleware(memstore.New(), server.Required(), server.SharedKeys()))
	}},
	{byFiber, false, func(l net.Listener, handled func()) func() error { return onFiber(l, handled) }},
	{"fiber's idempotency", true, func(l net.Listener, handled func()) func() error {
		return onFiber(l, handled, idempotency.New(idempotency.Config{KeyHeader: "Idempotency-Key"}))
	}},
	{"redo on fiber", true, func(l net.Listener, handled func()) func() error {
		mw := server.Middleware(memstore.New(), server.Required(), server.SharedKeys())
		return onFiber(l, handled, redofiber.Middleware(mw))
	}},
}

func onNetHTTP(l net.Listener, handled func(), guard func(http.Handler) http.Handler) (stop func() error) {
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handled()
		post.Created(w, r)
	})
	if guard != nil {
		h = guard(h)
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+routeA, h)
	mux.Handle("POST "+routeB, h)
	s := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return func() error {
		err := s.Close()
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}
}

func onFiber(l net.Listener, handled func(), guards ...any) (stop func() error) {
	app := fiber.New()
	handler := func(c fiber.Ctx) error {
		handled()
		c.Set("Content-Type", post.ContentType[0])
		return c.Status(http.StatusCreated).Send(post.ResponseBody)
	}
	for _, route := range []string{routeA, routeB} {
		chain := append(guards[:len(guards):len(guards)], handler)
		app.Post(route, chain[0], chain[1:]...)
	}
	served := make(chan error, 1)
	go func() { served <- app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	return func() error { return errors.Join(app.Shutdown(), <-served) }
}

// middlewareScenario sends requests over as many connections as there are callers. Each has a new key, or all have the
// key of one request that the service has stored.
func middlewareScenario(callers int, replays bool) contest.Scenario {
	kind, title := "first", "a 256-byte POST with a new key"
	if replays {
		kind, title = "replay", "a 256-byte POST with a key that is stored"
	}
	s := contest.Scenario{
		Name:      middlewareName(kind, callers),
		Title:     fmt.Sprintf("%s over loopback, connections: %d; allocations are both ends'", title, callers),
		Reference: byNetHTTP,
		Callers:   callers,
	}
	for _, of := range services {
		open := func(string) (contest.Runner, error) { return of.run(callers, replays && of.guarded) }
		s.Contestants = append(s.Contestants, contest.Contestant{Name: of.name, Open: open})
	}
	return s
}

func middlewareName(kind string, callers int) string {
	return fmt.Sprintf("middleware-%s-%d", kind, callers)
}

// run starts the service. Its runner checks that the handler has run once for each key.
func (s service) run(callers int, replays bool) (contest.Runner, error) {
	var handled, sent atomic.Int64
	running, err := s.start(func() { handled.Add(1) })
	if err != nil {
		return contest.Runner{}, err
	}
	conns := make([]*wire, callers)
	closer := func() error {
		var failures []error
		for _, c := range conns {
			if c != nil {
				failures = append(failures, c.close())
			}
		}
		return errors.Join(append(failures, running.stop())...)
	}
	payload := make([]byte, post.SmallBody)
	for i := range conns {
		if conns[i], err = dial(running.addr, routeA, payload); err != nil {
			return contest.Runner{}, errors.Join(err, closer())
		}
	}
	r := contest.Concurrently(callers, func(i int) error {
		key := i
		if replays {
			key = 0
		}
		got, err := conns[i%callers].post(int64(key))
		if err == nil && got.status != http.StatusCreated {
			err = fmt.Errorf("benchmarks: the status is %d, it must be 201", got.status)
		}
		return err
	}, closer)
	if replays {
		if err := r.Run(1); err != nil { // the stored one
			return contest.Runner{}, errors.Join(err, closer())
		}
	}
	run := r.Run
	r.Run = func(n int) error {
		if err := run(n); err != nil {
			return err
		}
		want := sent.Add(int64(n))
		if replays {
			want = 1
		}
		if got := handled.Load(); got != want {
			return fmt.Errorf("benchmarks: the handler has run %d times, it must be %d", got, want)
		}
		return nil
	}
	return r, nil
}

// A runningService is served on an address.
type runningService struct {
	addr string
	stop func() error
}

func (s service) start(handled func()) (runningService, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return runningService{}, err
	}
	return runningService{l.Addr().String(), s.serve(l, handled)}, nil
}

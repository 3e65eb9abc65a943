package servertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// An Option sets up a server. A nil one is none.
type Option interface{ apply(*setup) }

type optionFunc func(*setup)

func (f optionFunc) apply(s *setup) { f(s) }

type setup struct {
	scripts   *scripts
	keyHeader string
	handler   http.Handler
	principal func(*http.Request) string
	store     store.Store
	guards    []server.Option
	guard     func(store.Store) (func(http.Handler) http.Handler, error)
	given     bool // WithStore was called
	bare      bool
	lenient   bool
}

// KeyHeader sets the name of the request header that carries the key. The default is Idempotency-Key. Scripts,
// [Request] and [Ledger] follow it. So does the middleware, unless WithMiddleware sets another name; a [Guard] sets
// its own. A name that [server.Header] refuses ends the test.
func KeyHeader(name string) Option {
	return optionFunc(func(s *setup) { s.keyHeader = name })
}

// Script says what becomes of the requests with the key, in the order of their arrival: the first request meets the
// first step, and so on. Requests after the last step are served as with [OK]. The empty key means requests without
// one. A key is the same with and without quotes. Several scripts for a key follow each other.
func Script(key string, steps ...Fault) Option {
	return optionFunc(func(s *setup) { s.scripts.add(key, "", steps) })
}

// ScriptNext is a script for the next key that shows up and has none of its own: with several, the first key to arrive
// takes the first one, the second key the second one. It is for clients that make their keys themselves. Requests
// without a key count as one key.
func ScriptNext(steps ...Fault) Option {
	return optionFunc(func(s *setup) { s.scripts.next = append(s.scripts.next, steps) })
}

// ScriptEach is a script for every key that has none from [Script] or [ScriptNext]: each goes through all the steps by
// itself. Requests without a key count as one key.
func ScriptEach(steps ...Fault) Option {
	return optionFunc(func(s *setup) { s.scripts.each = append(s.scripts.each, steps...) })
}

// Lenient lets steps of scripts be left over. Without it the test fails at its end, with a message that names the
// key, the step and the fault, for every step that no request came for and for every fault that did not reach the
// wire.
func Lenient() Option {
	return optionFunc(func(s *setup) { s.lenient = true })
}

// Handler replaces the service's handler. It records its effects with [Effect]. It still runs behind the middleware,
// unless there is [Bare]. If it is a mux, it runs inside of the middleware: its routes then share their keys. A handler
// that writes no response gets 500, unless the middleware has server.SilentOK.
func Handler(h http.Handler) Option {
	return optionFunc(func(s *setup) { s.handler = h })
}

// Principal sets the function that returns the caller of a request, for [Entry] and for the middleware, which keeps
// principals apart. By default all callers share one key space (server.SharedKeys). It must be safe for concurrent use.
func Principal(of func(*http.Request) string) Option {
	return optionFunc(func(s *setup) { s.principal = of })
}

// WithStore makes the middleware keep its records in st, which stays the caller's to close. The default is a memstore
// of the server's own. A store that waits on channels has to be made in the same synctest bubble as its server.
func WithStore(st store.Store) Option {
	return optionFunc(func(s *setup) { s.store, s.given = st, true })
}

// WithMiddleware adds options of the middleware, after those of this package. Several calls add up. This package sets
// server.Principal or server.SharedKeys itself: use [Principal], not server.Principal.
func WithMiddleware(opts ...server.Option) Option {
	return optionFunc(func(s *setup) { s.guards = append(s.guards, opts...) })
}

// Guard replaces the middleware, for a service whose routes need different ones: f gets the store as the faults act
// on it, and returns what the handler is wrapped in. Not together with [WithMiddleware]; [Principal] then serves
// [Entry] alone. In a synctest bubble with [StoreFailsAtComplete], f has to use server.RunIn, and the test has to
// shut that Background down.
func Guard(f func(st store.Store) (func(http.Handler) http.Handler, error)) Option {
	return optionFunc(func(s *setup) { s.guard = f })
}

// Bare takes the middleware away: every request that reaches the service makes an effect, as in a service that knows
// nothing of idempotency keys. It shows what the same faults do without deduplication.
func Bare() Option {
	return optionFunc(func(s *setup) { s.bare = true })
}

// newSetup applies the options and says what is wrong with them together.
func newSetup(opts []Option) (*setup, error) {
	s := &setup{scripts: newScripts(), keyHeader: wire.HeaderKey, handler: http.HandlerFunc(refunds)}
	for _, o := range opts {
		if o != nil {
			o.apply(s)
		}
	}
	unfit := wire.CheckKeyHeader(s.keyHeader)
	switch {
	case unfit != nil:
		return nil, fmt.Errorf("servertest: KeyHeader: %w", unfit)
	case s.handler == nil:
		return nil, errors.New("servertest: Handler: the handler is nil")
	case s.given && s.store == nil:
		return nil, errors.New("servertest: WithStore: the store is nil")
	case s.guard != nil && s.guards != nil:
		return nil, errors.New("servertest: Guard takes the place of the middleware that WithMiddleware has options for")
	case s.bare && (s.given || s.guards != nil || s.guard != nil):
		return nil, errors.New("servertest: a Bare server has no store and no middleware")
	}
	return s, nil
}

// service returns what stands behind the faults, and how to close what was made for it.
func (s *setup) service() (service http.Handler, closeStore func(), err error) {
	needsStore, seesStore, err := s.scripts.check()
	if err != nil {
		return nil, nil, err
	}
	closeStore = func() {}
	handler := atHandler(s.handler)
	if s.bare {
		if needsStore {
			return nil, nil, errors.New("servertest: a script makes the store fail, and a Bare server has no store")
		}
		return handler, closeStore, nil
	}
	st := s.store
	if st == nil {
		own := memstore.New()
		st, closeStore = own, func() { _ = own.Close() } // it returns nil
	}
	if seesStore {
		st = watchStore(st)
	}
	if s.guard != nil {
		guard, err := s.guard(st)
		if err != nil {
			closeStore()
			return nil, nil, fmt.Errorf("servertest: Guard: %w", err)
		}
		return guard(handler), closeStore, nil
	}
	owner := server.SharedKeys()
	if s.principal != nil {
		owner = server.Principal(s.principal)
	}
	background := new(server.Background)
	closeStore = closeBackground(background, closeStore)
	guards := []server.Option{server.Header(s.keyHeader), owner, server.RunIn(background)}
	guard, err := server.New(st, append(guards, s.guards...)...)
	if err != nil {
		closeStore()
		return nil, nil, fmt.Errorf("servertest: WithMiddleware: %w", err)
	}
	return guard(handler), closeStore, nil
}

// closeBackground returns a function that ends what the middleware still records, and then closes the store.
func closeBackground(b *server.Background, closeStore func()) func() {
	return func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = b.Shutdown(ended) // its error would say that outcomes are left
		closeStore()
	}
}

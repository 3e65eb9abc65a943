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

// Option configures a server. A nil Option has no effect.
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
	given     bool  // WithStore was called
	bad       error // the first nil that an option got
	bare      bool
	lenient   bool
}

// refuse refuses the options if an argument is nil.
func (s *setup) refuse(missing bool, option, argument string) {
	if missing && s.bad == nil {
		s.bad = fmt.Errorf("servertest: %s: the %s is nil", option, argument)
	}
}

// KeyHeader sets the name of the request header that carries the key. The default is Idempotency-Key. Scripts,
// [Request] and [Ledger] follow it. So does the middleware, unless WithMiddleware sets another name. A [Guard]
// sets its own. A name that [server.Header] refuses ends the test.
func KeyHeader(name string) Option {
	return optionFunc(func(s *setup) { s.keyHeader = name })
}

// Script sets the steps for requests with the key, in the order of their arrival: the first request takes the
// first step, and so on. Requests after the last step are served as with [OK]. The empty key means requests
// without one. A key is the same with and without quotes. Several scripts for a key follow each other.
func Script(key string, steps ...Fault) Option {
	return optionFunc(func(s *setup) { s.scripts.add(bare(key), "", steps) })
}

// ScriptNext sets a script for the next key that arrives without its own script. Of several such scripts, the
// first key to arrive takes the first one, and the second key the second one. It is for clients that generate
// their keys. Requests without a key count as one key.
func ScriptNext(steps ...Fault) Option {
	return optionFunc(func(s *setup) { s.scripts.next = append(s.scripts.next, steps) })
}

// ScriptEach sets a script for every key that has none from [Script] or [ScriptNext]. Each key goes through all
// the steps separately. Requests without a key count as one key.
func ScriptEach(steps ...Fault) Option {
	return optionFunc(func(s *setup) { s.scripts.each = append(s.scripts.each, steps...) })
}

// Lenient allows unused steps in scripts. Without it the test fails at its end for each step that no request
// reached, and for each fault that did not reach the connection. The message names the key, the step and the
// fault.
func Lenient() Option {
	return optionFunc(func(s *setup) { s.lenient = true })
}

// Handler replaces the service's handler. The handler records its effects with [Effect]. It runs behind the
// middleware, unless [Bare] is set. If the handler is a mux, all its routes share one key space, because the
// middleware wraps the mux. A handler that writes no response gets 500, unless the middleware has server.SilentOK.
func Handler(h http.Handler) Option {
	return optionFunc(func(s *setup) {
		s.refuse(h == nil, "Handler", "handler")
		s.handler = h
	})
}

// Principal sets the function that returns the caller of a request, for [Entry] and for the middleware, which
// separates principals. By default all callers share one key space (server.SharedKeys). The function must be safe
// for concurrent use.
func Principal(of func(*http.Request) string) Option {
	return optionFunc(func(s *setup) {
		s.refuse(of == nil, "Principal", "function")
		s.principal = of
	})
}

// WithStore makes the middleware keep its records in st. The caller closes st. The default is a new memstore that
// the server owns. A store that waits on channels must be created in the same synctest bubble as its server.
func WithStore(st store.Store) Option {
	return optionFunc(func(s *setup) {
		s.refuse(st == nil, "WithStore", "store")
		s.store, s.given = st, true
	})
}

// WithMiddleware adds options of the middleware, after those of this package. Several calls add up. This package
// sets server.Principal or server.SharedKeys itself: use [Principal], not server.Principal.
func WithMiddleware(opts ...server.Option) Option {
	return optionFunc(func(s *setup) { s.guards = append(s.guards, opts...) })
}

// Guard replaces the middleware, for a service whose routes need different middleware. f gets the store with the
// faults applied, and returns the wrapper for the handler. It can't be combined with [WithMiddleware]. [Principal]
// then applies to [Entry] only. In a synctest bubble with [StoreFailsAtComplete], f must use server.RunIn, and the
// test must shut that Background down.
func Guard(f func(st store.Store) (func(http.Handler) http.Handler, error)) Option {
	return optionFunc(func(s *setup) {
		s.refuse(f == nil, "Guard", "function")
		s.guard = f
	})
}

// Bare removes the middleware. Every request that reaches the service makes an effect, as in a service without
// idempotency keys. It shows the result of the same faults without deduplication.
func Bare() Option {
	return optionFunc(func(s *setup) { s.bare = true })
}

// newSetup applies the options. It returns an error if they conflict.
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
	case s.bad != nil:
		return nil, s.bad
	case s.guard != nil && s.guards != nil:
		return nil, errors.New("servertest: Guard takes the place of the middleware that " +
			"WithMiddleware has options for")
	case s.bare && (s.given || s.guards != nil || s.guard != nil):
		return nil, errors.New("servertest: a Bare server has no store and no middleware")
	}
	return s, nil
}

// service returns the service behind the faults, and a function that closes its store.
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

// closeBackground returns a function that ends the middleware's pending records, and then closes the store.
func closeBackground(b *server.Background, closeStore func()) func() {
	return func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = b.Shutdown(ended) // its error only reports unrecorded outcomes
		closeStore()
	}
}

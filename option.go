package redo

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/redo-go/redo/store"
)

// An Option configures a Client. A later option wins over an earlier one of the same kind.
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// config is what the options fill. Its defaults are in New.
type config struct {
	store       store.Store
	scope       string
	keep        time.Duration
	askServer   bool
	maxBody     int
	noRequests  bool
	transport   http.RoundTripper
	retry       RetryPolicy
	keys        KeyFunc
	ownKeys     bool // keys was set by an option
	profile     Profile
	budget      Budget
	limiter     Limiter
	breaker     Breaker
	credentials func(*http.Request) error
	log         *slog.Logger
	observer    Observer
}

// WithStore keeps named operations in st, so that they survive a crash: the key and the payload's fingerprint
// are written durably before the first byte is sent. The caller opens and closes the store. Without a store a
// key holds over all retries of one call, and no longer.
func WithStore(st store.Store) Option {
	return optionFunc(func(c *config) error {
		if st == nil {
			return errors.New("redo: WithStore: the store is nil")
		}
		c.store = st
		return nil
	})
}

// WithScope separates the operations of clients that share a store: the same operation name in two scopes is
// two operations. Default "redo".
func WithScope(name string) Option {
	return optionFunc(func(c *config) error {
		if name == "" || len(name) > store.MaxScope {
			return fmt.Errorf("redo: WithScope: the name has %d bytes, it must have from 1 to %d", len(name), store.MaxScope)
		}
		c.scope = name
		return nil
	})
}

// WithOutcomeRetention sets for how long a settled operation is remembered; called again after that, it is a
// new operation, with a new key. Default 30 days; store.Forever never forgets. Pending operations are kept
// whatever this says.
func WithOutcomeRetention(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("redo: WithOutcomeRetention: %v, it must be positive", d)
		}
		c.keep = d
		return nil
	})
}

// WithServerReplay makes a completed operation, when it is called again, ask the server under the same key
// instead of answering from the store.
func WithServerReplay() Option {
	return optionFunc(func(c *config) error { c.askServer = true; return nil })
}

// WithMaxStoredBody caps how many bytes of a request's and of a response's body are kept in the store. Default
// 64 KiB. A longer request can't be resumed from the store, only by running the same code again; a longer
// response is not kept, and calling the operation again asks the server.
func WithMaxStoredBody(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 0 || n > maxStoredBody {
			return fmt.Errorf("redo: WithMaxStoredBody: %d, it must be from 0 to %d bytes", n, maxStoredBody)
		}
		c.maxBody = n
		return nil
	})
}

// maxStoredBody leaves room for the encoding and for the URL and headers within store.MaxMeta.
const maxStoredBody = store.MaxMeta / 2

// WithoutStoredRequests keeps only the name, the key and the fingerprint of what is pending, for payloads that
// must not be at rest. Such operations are continued by running the same code again.
func WithoutStoredRequests() Option {
	return optionFunc(func(c *config) error { c.noRequests = true; return nil })
}

// WithTransport sends attempts through rt. Default: a clone of http.DefaultTransport that keeps more idle
// connections per host. rt must not retry, and must not follow redirects.
func WithTransport(rt http.RoundTripper) Option {
	return optionFunc(func(c *config) error {
		if rt == nil {
			return errors.New("redo: WithTransport: the transport is nil")
		}
		c.transport = rt
		return nil
	})
}

// WithRetry sets the retry policy.
func WithRetry(p RetryPolicy) Option {
	return optionFunc(func(c *config) error {
		if err := p.validate(); err != nil {
			return err
		}
		c.retry = p
		return nil
	})
}

// WithKeys sets how keys are made. Default [TimeOrderedKeys]. Nil makes none: only [WithKey] then gives a
// request a key, and POST and PATCH without one are retried only when nothing was sent.
func WithKeys(f KeyFunc) Option {
	return optionFunc(func(c *config) error { c.keys, c.ownKeys = f, true; return nil })
}

// WithProfile sets how the provider speaks idempotency. Default [RedoProfile].
func WithProfile(p Profile) Option {
	return optionFunc(func(c *config) error {
		if err := p.validate(); err != nil {
			return err
		}
		c.profile = p
		return nil
	})
}

// WithBudget bounds retries per destination.
func WithBudget(b Budget) Option {
	return optionFunc(func(c *config) error {
		if err := b.validate(); err != nil {
			return err
		}
		c.budget = b
		return nil
	})
}

// WithLimiter makes attempts wait for l. Use [PerDestination] when the client calls several servers. Nil limits nothing.
func WithLimiter(l Limiter) Option {
	return optionFunc(func(c *config) error {
		if p, ok := l.(*perDestination); ok && p.make == nil {
			return errors.New("redo: WithLimiter: PerDestination was given a nil function")
		}
		c.limiter = l
		return nil
	})
}

// WithBreaker asks b before each attempt.
func WithBreaker(b Breaker) Option {
	return optionFunc(func(c *config) error { c.breaker = b; return nil })
}

// WithCredentials lets f sign or authorize each attempt, resumed ones included: it is called on the attempt's
// own request, after the key is set, and may set headers. It is where tokens are refreshed; an error ends the
// call before the attempt is sent. Credentials are never stored.
func WithCredentials(f func(*http.Request) error) Option {
	return optionFunc(func(c *config) error { c.credentials = f; return nil })
}

// WithLogger logs retries at Info, changes of state at Debug and lost writes at Warn. Default: no logging.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) error { c.log = l; return nil })
}

// WithObserver tells o of operations and attempts.
func WithObserver(o Observer) Option {
	return optionFunc(func(c *config) error { c.observer = o; return nil })
}

// secretHeader reports whether a header carries credentials, and so is never stored.
func secretHeader(name string) bool {
	switch name = textproto.CanonicalMIMEHeaderKey(name); name {
	case "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "Www-Authenticate", "Proxy-Authenticate", "X-Csrf-Token", "X-Xsrf-Token":
		return true
	}
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "access-key", "subscription-key", "api-key", "apikey", "token", "secret", "password", "signature", "credential"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

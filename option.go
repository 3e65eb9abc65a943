package redo

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/store"
)

// An Option configures a Client. A later option wins over an earlier one of the same kind.
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// config holds the values that the options set. New sets their defaults.
type config struct {
	store       store.Store
	scope       string
	keep        time.Duration
	askServer   bool
	maxStored   int
	maxResponse int
	maxBuffered int
	noRequests  bool
	transport   http.RoundTripper
	retry       RetryPolicy
	keys        KeyFunc
	ownKeys     bool // an option set keys
	optedIn     bool // WithKeys or WithProfile was given: the servers are known to honour keys
	profile     Profile
	classifier  Classifier
	fingerprint FingerprintFunc
	probe       ProbeFunc
	budget      limit.Budget
	limiter     limit.Limiter
	breaker     limit.Breaker
	credentials func(*http.Request) error
	log         *slog.Logger
	observer    Observer
}

// WithStore keeps named operations in st, so that they survive a crash. The key and the payload's fingerprint are
// written durably before the first byte is sent. The caller opens and closes the store. By default there is none, and
// a key lasts for all retries of one call. A nil st is an error.
func WithStore(st store.Store) Option {
	return optionFunc(func(c *config) error {
		if null.Is(st) {
			return errors.New("redo: WithStore: the store is nil")
		}
		c.store = st
		return nil
	})
}

// WithScope separates the operations of clients that share a store. The same operation name in two scopes names two
// operations. Default "redo"; an empty name is an error.
func WithScope(name string) Option {
	return optionFunc(func(c *config) error {
		if name == "" || len(name) > store.MaxScope {
			return fmt.Errorf("redo: WithScope: the name has %d bytes, it must have from 1 to %d", len(name), store.MaxScope)
		}
		c.scope = name
		return nil
	})
}

// WithOutcomeRetention sets how long the store keeps a settled operation. A later call is a new operation, with a new
// key. Default 30 days. With store.Forever it is always kept, as pending operations are.
func WithOutcomeRetention(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("redo: WithOutcomeRetention: %v, it must be positive", d)
		}
		c.keep = d
		return nil
	})
}

// WithServerReplay makes another call of a complete operation send the request again under the same key, while the
// key is not too old. By default the call returns the stored response.
func WithServerReplay() Option {
	return optionFunc(func(c *config) error { c.askServer = true; return nil })
}

// WithMaxStoredBody limits how many bytes of a request's and of a response's body are stored. Default 64 KiB. An
// operation with a longer request can't be resumed from the store, only by running the same code again. A longer
// response is not stored: another call sends the request again, for the server to replay it.
func WithMaxStoredBody(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 0 || n > maxStoredBody {
			return fmt.Errorf("redo: WithMaxStoredBody: %d, it must be from 0 to %d bytes", n, maxStoredBody)
		}
		c.maxStored = n
		return nil
	})
}

// maxStoredBody leaves room for the encoding and for the URL and headers within store.MaxMeta.
const maxStoredBody = store.MaxMeta / 2

// WithMaxResponse limits how many bytes of a response [Call] reads, after decompression. Default 16 MiB. A longer
// response fails with PROVIDER.response_too_large and the effect Applied.
func WithMaxResponse(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 1 {
			return fmt.Errorf("redo: WithMaxResponse: %d, it must be positive", n)
		}
		c.maxResponse = n
		return nil
	})
}

// WithMaxBufferedBody limits how many bytes of a request body without GetBody are read into memory, so that it can be
// sent again. Default 1 MiB. A longer body is sent once, and is refused for a stored operation. Zero buffers none.
func WithMaxBufferedBody(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 0 {
			return fmt.Errorf("redo: WithMaxBufferedBody: %d, it must not be negative", n)
		}
		c.maxBuffered = n
		return nil
	})
}

// A FingerprintFunc returns the bytes that identify a request's payload. It reads the payload from body, and must not
// read req.Body. It must be safe for concurrent use. Its error ends the call before anything is sent.
type FingerprintFunc func(req *http.Request, body io.Reader) ([]byte, error)

// WithFingerprint uses the result of f instead of the body in the fingerprint of stored operations. It is for bodies
// that differ on each call: multipart boundaries, client tokens, timestamps. A pending operation is then sent again
// with its stored body. One over WithMaxStoredBody is not stored: the call's own is sent, and the server may refuse it.
// Default, and for nil: the raw bytes. The method, the URL and the stored headers are always part of the fingerprint.
func WithFingerprint(f FingerprintFunc) Option {
	return optionFunc(func(c *config) error { c.fingerprint = f; return nil })
}

// WithClassifier sets a function that changes the meaning of single responses, for example "404 is transient here" or
// "200 with ok:false is a failure". It is called after the profile's own. Nil changes none.
func WithClassifier(f Classifier) Option {
	return optionFunc(func(c *config) error { c.classifier = f; return nil })
}

// WithProbe sets a function that settles an operation whose outcome stays unknown, or whose key is too old. It reads
// the resource back by an identifier that it knows. Default, and for nil: only [Client.Settle] settles it.
func WithProbe(f ProbeFunc) Option {
	return optionFunc(func(c *config) error { c.probe = f; return nil })
}

// WithoutStoredRequests stores only the name, the key and the fingerprint of a pending operation, for payloads that
// must not be at rest. Continue such an operation by running the same code again.
func WithoutStoredRequests() Option {
	return optionFunc(func(c *config) error { c.noRequests = true; return nil })
}

// WithTransport sends attempts through rt. Default: a clone of http.DefaultTransport that keeps 64 idle connections
// per host, and pings an HTTP/2 connection that is silent. rt must not retry or follow redirects. A nil rt is an error.
func WithTransport(rt http.RoundTripper) Option {
	return optionFunc(func(c *config) error {
		if null.Is(rt) {
			return errors.New("redo: WithTransport: the transport is nil")
		}
		c.transport = rt
		return nil
	})
}

// WithRetry sets the retry policy. Default: the zero [RetryPolicy], whose fields take their defaults.
func WithRetry(p RetryPolicy) Option {
	return optionFunc(func(c *config) error {
		if err := p.validate(); err != nil {
			return err
		}
		c.retry = p
		return nil
	})
}

// WithKeys sets the function that makes keys. Default [TimeOrderedKeys]. Nil makes none: only [WithKey] then gives a
// request a key, and POST and PATCH without a key are retried only if nothing was sent. Like [WithProfile], WithKeys
// declares that the servers honour keys: a request without a name then gets a key under [Client.Transport] too.
func WithKeys(f KeyFunc) Option {
	return optionFunc(func(c *config) error { c.keys, c.ownKeys, c.optedIn = f, true, true; return nil })
}

// WithProfile describes the API that the client calls. Package profile describes public APIs. Default [RedoProfile].
// Like [WithKeys], it declares that the servers honour keys.
func WithProfile(p Profile) Option {
	return optionFunc(func(c *config) error {
		if err := p.validate(); err != nil {
			return err
		}
		c.profile, c.optedIn = p, true
		return nil
	})
}

// WithBudget bounds the retries to each destination. Default: the zero [limit.Budget].
func WithBudget(b limit.Budget) Option {
	return optionFunc(func(c *config) error {
		if err := b.Validate(); err != nil {
			return err
		}
		c.budget = b
		return nil
	})
}

// WithLimiter makes attempts wait for the limiter l. Use [limit.PerDestination] if the client calls several servers,
// and [limit.NewQuotaLimiter] to keep within the quota of a server. Default, and for nil: no limit.
func WithLimiter(l limit.Limiter) Option {
	return optionFunc(func(c *config) error {
		if err := limit.Validate(l); err != nil {
			return fmt.Errorf("redo: WithLimiter: %w", err)
		}
		c.limiter = l
		return nil
	})
}

// WithBreaker sends no attempt that the circuit breaker b refuses. The client calls b before each attempt. Default, and
// for nil: no breaker.
func WithBreaker(b limit.Breaker) Option {
	return optionFunc(func(c *config) error {
		if null.Hidden(b) {
			return errors.New("redo: WithBreaker: the breaker is a nil pointer")
		}
		c.breaker = b
		return nil
	})
}

// WithCredentials sets a function that signs or authorizes each attempt, including those of [Client.Resume]. It gets
// the attempt's own request, with the key. It may set headers and refresh a token. Its error ends the call before the
// attempt is sent. The headers that it sets are never stored and never sent to another origin. It must be safe for
// concurrent use. Default, and for nil: none.
func WithCredentials(f func(*http.Request) error) Option {
	return optionFunc(func(c *config) error { c.credentials = f; return nil })
}

// WithLogger logs retries at Info, changes of state at Debug, and refused calls and lost writes at Warn. Default, and
// for nil: no logging.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) error { c.log = l; return nil })
}

// WithObserver reports operations and attempts to o. Default, and for nil: no observer.
func WithObserver(o Observer) Option {
	return optionFunc(func(c *config) error {
		if null.Hidden(o) {
			return errors.New("redo: WithObserver: the observer is a nil pointer")
		}
		c.observer = o
		return nil
	})
}

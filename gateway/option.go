package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/server"
)

// Defaults of the options.
const (
	DefaultMaxBuffered = 1 << 20 // bytes
	DefaultWait        = 10 * time.Second
)

// An Option changes how a gateway works. Of two options of the same kind, the later one wins.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Principal sets the function that returns the authenticated user of a request. It is required. If f returns "", a
// request with a key is refused with 401. A principal must stay the same when a token is renewed. f must be safe for
// concurrent use.
func Principal(f func(*http.Request) string) Option {
	return optionFunc(func(c *config) { c.principal = f })
}

// Secret sets the secret of the upstream keys, at least 16 bytes. It is required, and the same for all gateways of an
// upstream. A new secret gives new upstream keys: replace it only while no operation is pending.
func Secret(secret []byte) Option {
	secret = slices.Clone(secret) // the caller may wipe it
	return optionFunc(func(c *config) { c.secret = secret })
}

// RequestID makes the key of a request without one from the request id of the app, which is in this header. The app
// must send the same id when it repeats a request, and another id with another request. A request without a principal
// gets no key from its id. By default a repetition of a request without a key is another request.
func RequestID(header string) Option {
	return optionFunc(func(c *config) {
		if err := wire.CheckKeyHeader(header); err != nil {
			c.wrong = append(c.wrong, fmt.Errorf("gateway: option RequestID: %w", err))
		}
		c.check(!wire.SameName(header, wire.HeaderKey), "RequestID", "%q is the header of the key", header)
		c.requestID = header
	})
}

// MaxBuffered sets the number of bytes of a body that the gateway holds in memory. A longer body is streamed. The
// default is 1 MiB. Run continues only requests of up to 64 KiB, unless redo.WithMaxStoredBody sets another limit.
func MaxBuffered(n int) Option {
	return optionFunc(func(c *config) {
		c.check(n >= 0, "MaxBuffered", "%d is negative", n)
		c.maxBuffered = n
	})
}

// Wait sets how long a repetition waits for the response to the first request. After that it gets 202 with a status
// URL if there is a [StatusPath], and 409 otherwise. The default is 10 seconds. Zero never waits.
func Wait(d time.Duration) Option {
	return optionFunc(func(c *config) {
		c.check(d >= 0, "Wait", "%v is negative", d)
		c.wait = d
	})
}

// StatusPath makes the gateway serve the state of a request under this path, and gives the URL to a phone that comes
// back too early. The response to GET path?key=… is that of server.StatusHandler. By default there is no such path.
func StatusPath(path string) Option {
	return optionFunc(func(c *config) {
		c.check(strings.HasPrefix(path, "/"), "StatusPath", "%q does not start with a slash", path)
		u, err := url.Parse(path)
		c.check(err == nil && u.Host == "" && u.Path == path && u.EscapedPath() == path, "StatusPath",
			"%q is not a path alone, without a host, a query and escapes", path)
		c.statusPath = path
	})
}

// Hedge sends a GET or HEAD a second time if there is no response after d. The first response wins, and the other
// request is cancelled. By default nothing is sent twice.
func Hedge(d time.Duration) Option {
	return optionFunc(func(c *config) {
		c.check(d > 0, "Hedge", "%v is not positive", d)
		c.hedge = d
	})
}

// Client adds options of the redo.Client that calls the upstream, such as redo.WithBreaker, redo.WithLimiter,
// redo.WithBudget, redo.WithRetry, redo.WithProfile and redo.WithCredentials. The gateway sets redo.WithStore,
// WithScope and WithMaxBufferedBody itself. A profile must send keys of 64 bytes in a header. Set its AnyHeaders and
// KeepHeaders, as in the gateway's own profile, and no StoredHeaders. Without AnyHeaders a repetition with another
// value of a header, such as Accept-Language, continues no pending operation, and gets a 409.
func Client(opts ...redo.Option) Option {
	return optionFunc(func(c *config) { c.client = append(c.client, opts...) })
}

// Middleware adds options of the middleware in front, such as server.Required, server.Logger, server.Observe,
// server.Retention and server.Pepper. The gateway sets server.Principal, Header, Route, MaxBody, Wait and RunIn itself.
// With server.CanonicalJSON or server.Fingerprint, give [Client] a redo.WithFingerprint for the same bodies.
// Otherwise a repetition with another form of the body continues no pending operation, and gets a 409.
func Middleware(opts ...server.Option) Option {
	return optionFunc(func(c *config) { c.middleware = append(c.middleware, opts...) })
}

// config holds the values of the options.
type config struct {
	principal   func(*http.Request) string
	secret      []byte
	requestID   string // "": none
	maxBuffered int
	wait        time.Duration
	statusPath  string        // "": none
	hedge       time.Duration // zero: none
	client      []redo.Option
	middleware  []server.Option
	wrong       []error
}

// check collects an error for a wrong value.
func (c *config) check(ok bool, option, rule string, args ...any) {
	if !ok {
		c.wrong = append(c.wrong, fmt.Errorf("gateway: option %s: "+rule, append([]any{option}, args...)...))
	}
}

// newConfig returns an error that names every wrong value.
func newConfig(opts []Option) (config, error) {
	c := config{maxBuffered: DefaultMaxBuffered, wait: DefaultWait}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("gateway: an option is nil")
		}
		o.apply(&c)
	}
	c.check(c.principal != nil, "Principal", "it is required: without it two phones could share a key")
	c.check(len(c.secret) >= minSecret, "Secret", "it has %d bytes, at least %d are required", len(c.secret), minSecret)
	return c, errors.Join(c.wrong...)
}

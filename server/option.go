package server

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// Defaults of the options.
const (
	DefaultRetention              = 24 * time.Hour
	DefaultLeaseTTL               = 30 * time.Second
	DefaultHandlerTimeout         = time.Minute
	DefaultStoreTimeout           = 5 * time.Second
	DefaultMaxBody                = 1 << 20 // bytes
	DefaultMaxResponse            = 1 << 20 // bytes
	DefaultMaxWaiters             = 256
	DefaultMaxWaitersPerPrincipal = 128
	DefaultMaxWaitersPerKey       = 64
)

// An Option changes how the middleware works. If two options set the same thing, the later one wins. The package
// comment groups the options by purpose.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Principal sets the function that returns the authenticated caller of a request: an account, a tenant or a user. The
// principal is part of the key's scope. Two principals never see each other's records, nor whether they exist. If f
// returns "", a request with a key is refused with 401. f must be safe for concurrent use.
//
// A principal must stay the same when a token is renewed. Do not use the Authorization header itself.
//
// New refuses to start without Principal or [SharedKeys], and with both.
func Principal(f func(*http.Request) string) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "Principal", "the function must not be nil")
		c.principal = f
	})
}

// SharedKeys states that all callers share one key space. Use it for a service with one caller, or if all callers may
// see each other's responses. Do not use it for a service with several customers. A customer that sends another
// customer's key, by chance or on purpose, gets the other's response. Use [Principal] there. Callers at different
// hosts share their keys too, unless the host is in the route's pattern.
func SharedKeys() Option { return optionFunc(func(c *config) { c.sharedKeys = true }) }

// Route sets the name of the route, for the scope of its keys and for Event.Operation, in place of the pattern that
// the mux has matched. The keys then survive a renamed wildcard of the pattern and a moved path. To keep the keys of
// a route that had no name so far, give it the old pattern as its name, for example "POST /refunds/{id}".
//
// Routes with the same name share their keys. So do all handlers that one middleware with Route wraps: create one
// middleware for each route. The host of a pattern stays part of the scope, so that the same route of several hosts
// can have one name. Without a name and outside of a mux the name is the method and an asterisk, such as "POST *".
// All paths then share their keys, and a key that is sent to a second path is refused as a mismatch. An empty name is
// an error.
func Route(name string) Option {
	return optionFunc(func(c *config) {
		c.check(name != "", "Route", "the name must not be empty")
		c.routeName = name
	})
}

// Scope sets the name of the service, as a part of the scope of its keys. It keeps services apart that use the same
// store with the same prefix or table. Processes of one service must use the same name. By default there is none. An
// empty name is an error.
func Scope(name string) Option {
	return optionFunc(func(c *config) {
		c.check(name != "", "Scope", "the name must not be empty")
		c.scopeName = name
	})
}

// Pepper keeps keys and principals out of the store: the key of a record is the HMAC-SHA256 of route, principal and
// key. Logs show the HMAC and not the key. A secret must have at least 16 bytes. By default keys and principals are
// stored as text.
//
// The middleware still finds the records of old secrets. To replace a secret while several processes serve, deploy in
// three steps:
//
//	Pepper(old, new)   until every process knows both
//	Pepper(new, old)   for at least the retention
//	Pepper(new)
//
// During the second step no handler runs again for a key that was used under the old secret, even if the key is in
// flight. A service that stops all processes before it starts new ones can leave the first step out. With old secrets
// each request makes one more store call. Each old secret adds up to three more to a new request, and up to one more
// to a replay or a take-over. Without the old secret its records are no longer found.
func Pepper(secret []byte, old ...[]byte) Option {
	var peppers [][]byte
	for _, s := range append([][]byte{secret}, old...) {
		peppers = append(peppers, slices.Clone(s))
	}
	return optionFunc(func(c *config) {
		for i, s := range peppers {
			c.check(len(s) >= minPepper, "Pepper", "a secret must have at least %d bytes", minPepper)
			same := slices.ContainsFunc(peppers[:i], func(p []byte) bool { return bytes.Equal(p, s) })
			c.check(!same, "Pepper", "a secret is given twice")
		}
		c.peppers = peppers
	})
}

// Required refuses a request without a key header with 400, code VALIDATION.idempotency_key.missing. Without
// this option such a request runs the handler plainly: nothing is recorded and nothing captured.
func Required() Option { return optionFunc(func(c *config) { c.required = true }) }

// Header sets the name of the request header that carries the key, for clients that send another one, such as
// X-Idempotency-Key. The default is Idempotency-Key. The middleware then reads keys from that header alone, and names
// it in its problem documents. A name that is not a header name, or that carries credentials or has another meaning
// in HTTP, is an error of the options. So is an empty name.
func Header(name string) Option {
	return optionFunc(func(c *config) {
		err := wire.CheckKeyHeader(name)
		c.check(err == nil, "Header", "%v", err)
		c.keyHeader = http.CanonicalHeaderKey(name)
	})
}

// Methods sets the methods for which the middleware reads the key. The default is POST and PATCH. A request with
// another method runs the handler plainly, Required or not. The safe methods (GET, HEAD, OPTIONS, TRACE and QUERY)
// have no effect to protect, and New refuses them.
func Methods(methods ...string) Option {
	methods = slices.Clone(methods)
	return optionFunc(func(c *config) { c.methods = methods })
}

// Skip sets a function that returns true for requests whose handler runs plainly, as without the middleware: their key
// is not read, nothing is recorded, and [Key] is "". It is called before anything else, for every request, and must be
// safe for concurrent use. By default no request is skipped.
func Skip(f func(*http.Request) bool) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "Skip", "the function must not be nil")
		c.skip = f
	})
}

// KeyFormat adds a rule to those for every key (1 to 255 printable ASCII characters). A key for which f returns an
// error is refused with 400, and the response contains the error's text.
func KeyFormat(f func(key string) error) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "KeyFormat", "the function must not be nil")
		c.keyFormats = append(c.keyFormats, f)
	})
}

// UUIDKeys refuses keys that are not UUIDs, of any version, in the 36-character form of RFC 9562. The case of their
// digits does not matter. Records and [Key] have them in lower case.
func UUIDKeys() Option {
	return optionFunc(func(c *config) { c.uuidKeys, c.keyFormats = true, append(c.keyFormats, checkUUID) })
}

// CanonicalJSON identifies JSON bodies by their canonical form, so that the same document with other white space or
// another order of members is the same request. If the Content-Type is JSON, a body that is not JSON or that repeats
// a member is refused with 400. Bodies of other types are identified by their bytes.
func CanonicalJSON() Option { return optionFunc(func(c *config) { c.canonicalJSON = true }) }

// Fingerprint identifies requests by f instead of a hash of method, path, query and body. It is for bodies whose bytes
// differ from attempt to attempt, such as multipart ones. If several paths share a route, f must cover the path.
// Fingerprints of f's own should have a version byte of 128 or more. An error of f is a 400, and the response contains
// its text.
func Fingerprint(f func(r *http.Request, body []byte) (store.Fingerprint, error)) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "Fingerprint", "the function must not be nil")
		c.fingerprint = f
	})
}

// MaxBody sets how many bytes the body of a request with a key may have. The default is 1 MiB. A longer one is
// refused with 413 before anything is reserved. Zero allows only empty bodies.
func MaxBody(n int) Option { return optionFunc(func(c *config) { c.maxBody = n }) }

// Keep sets by status which refusals and failures are stored and replayed. f is called with a status of 400 or above.
// If f returns true, the response is stored. If it returns false, the key is released and the next request runs the
// handler. The default is [DefaultKeep]. A response below 400 is stored, but for a 307 or 308, which repeats the
// request elsewhere. A response of 400 or above whose Error-Code header names a transient code is not stored.
// [Applied], [Release], [Fail] and [Unknown] override these rules. f must be safe for concurrent use.
//
// A service that stores its 5xx responses too:
//
//	server.Keep(func(status int) bool { return status >= 500 || server.DefaultKeep(status) })
func Keep(f func(status int) bool) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "Keep", "the function must not be nil")
		c.keep = f
	})
}

// Retention sets how long a response is kept, counted from the first request. The default is 24 hours. It must be
// positive and no shorter than LeaseTTL. A client that retries later than this runs the handler again, unless
// RefuseExpiredKeys is given. [KeepFor] changes it for one response.
func Retention(d time.Duration) Option { return optionFunc(func(c *config) { c.retention = d }) }

// RefuseExpiredKeys refuses a UUIDv7 key that is older than the retention and has no record. Its record may have
// expired, and running the handler could repeat the effect. The response is 409, code CONFLICT.idempotency.expired.
// The age of a key is the time in it, compared with this machine's clock. Five minutes are allowed for clocks that
// differ, or a tenth of the retention if that is less. Keys of other forms have no age and are not affected.
func RefuseExpiredKeys() Option { return optionFunc(func(c *config) { c.refuseExpired = true }) }

// MaxResponse sets how many bytes of a response's body are stored. The default is 1 MiB. The first caller gets a
// longer one whole. A retry gets 409, code CONFLICT.idempotency.result_not_stored, and the handler does not run
// again. If the response was a refusal, the code is CONFLICT.idempotency.outcome_unknown, and the detail has its
// status. Zero stores only responses with an empty body. With Transactional even a longer response is held in memory.
func MaxResponse(n int) Option { return optionFunc(func(c *config) { c.maxResponse = n }) }

// ReplayHeader sets a filter for the headers of stored responses. f is called with the canonical name of a header. If
// f returns false, the header is neither stored nor replayed. The first caller still gets it. f also filters
// responses that were stored before it was set. Headers that are never replayed, such as Set-Cookie, are not passed
// to f. It must be safe for concurrent use. By default there is no filter.
func ReplayHeader(f func(name string) bool) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "ReplayHeader", "the function must not be nil")
		c.replayHeader = f
	})
}

// HandlerTimeout sets how long the handler may run before its context ends. The default is one minute, or the
// retention if that is shorter. A client's X-Request-Timeout shortens it. The end of the request's context does not
// end the handler's: neither when the client disconnects, nor at a deadline that a framework or a platform has set. See
// CancelOnDisconnect.
func HandlerTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) { c.handlerTimeout, c.ownTimeout = d, true })
}

// CancelOnDisconnect ends the handler's context when the client's connection ends, as net/http does. It also ends it at
// a deadline of the request's context. By default the handler runs on, so that its outcome is recorded when the client
// retries.
func CancelOnDisconnect() Option {
	return optionFunc(func(c *config) { c.cancelOnDisconnect = true })
}

// LeaseTTL sets how long a key stays blocked after its owner's process has died. The default is 30 seconds. While the
// handler runs, the lease is renewed after each third of that time, so it can be shorter than the handler's run. It
// must be at least a millisecond. It should be longer than StoreTimeout. A claim that the store delays for longer than
// the lease can take over a key whose handler still runs. With Transactional it has no meaning.
func LeaseTTL(d time.Duration) Option { return optionFunc(func(c *config) { c.leaseTTL = d }) }

// TakeOver sets the policy for a key whose owner died before it recorded an outcome. The effect is then unknown. The
// policies are Reexecute (the default), Refuse and Recover.
func TakeOver(p TakeOverPolicy) Option {
	return optionFunc(func(c *config) {
		c.check(!p.broken, "TakeOver", "the function given to Recover must not be nil")
		c.takeOver = p
	})
}

// StoreTimeout sets how long one store operation may take, retries included, before the response is 503. The default
// is 5 seconds.
func StoreTimeout(d time.Duration) Option { return optionFunc(func(c *config) { c.storeTimeout = d }) }

// FailOpen runs the handler untracked when the store can't be reached. The observer and the logger get each such
// request. A retry may then repeat the effect. A request is refused with 503 if the store fails after it has shown a
// record of the key, for example while the request waits. New refuses FailOpen together with Transactional. By default
// each request is refused with 503 when the store can't be reached.
func FailOpen() Option { return optionFunc(func(c *config) { c.failOpen = true }) }

// Wait makes a request whose key is in flight wait for the first one's outcome before it is refused. It waits no
// longer than atMost and the client's X-Request-Timeout. Zero, the default, refuses immediately.
func Wait(atMost time.Duration) Option { return optionFunc(func(c *config) { c.wait = atMost }) }

// MaxWaiters sets how many requests may wait at a time, on all routes behind this middleware. The default is 256. A
// request beyond it is refused immediately. Without Wait it has no meaning. It must be positive.
func MaxWaiters(n int) Option { return optionFunc(func(c *config) { c.maxWaiters = n }) }

// MaxWaitersPerPrincipal sets how many requests of one principal may wait at a time, so that one principal can't take
// all places. The default is 128. With SharedKeys it has no meaning. It must be positive.
func MaxWaitersPerPrincipal(n int) Option {
	return optionFunc(func(c *config) { c.maxWaitersPerPrincipal = n })
}

// MaxWaitersPerKey sets how many requests with one key may wait at a time. The default is 64. It must be
// positive.
func MaxWaitersPerKey(n int) Option { return optionFunc(func(c *config) { c.maxWaitersPerKey = n }) }

// Refusal renders refusals, the responses that the middleware sends in place of the handler's, in the format of the
// API's other errors. By default they are problem documents (RFC 9457).
//
// When f is called, the headers Error-Code and Retry-After are set as p requires. Headers that describe a body of the
// handler are removed. f sends a status and a body. A response without a status, or with one below 400, gets p.Status:
// a client must not take a refusal for a success. If f sends nothing, p is sent as a problem document. A function
// that writes to a framework's own context goes through the Refusal of the framework's adapter. f must be safe for
// concurrent use.
func Refusal(f func(w http.ResponseWriter, r *http.Request, p Problem)) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "Refusal", "the function must not be nil")
		c.refusal = f
	})
}

// IETFStatuses sets the status of a key that was used for another payload to 422, as in
// draft-ietf-httpapi-idempotency-key-header-07 section 2.7. The default is 409.
func IETFStatuses() Option { return optionFunc(func(c *config) { c.ietfStatuses = true }) }

// InFlightStatus sets the status of the refusal while the first request with the key is still running. It is 409, the
// default, or 425.
func InFlightStatus(status int) Option {
	return optionFunc(func(c *config) { c.inFlightStatus = status })
}

// Logger logs one line for each request with a key. Only the log names the errors of the store, mistakes in the
// wiring and lost outcomes. Nil, the default, is silent, so give a logger in production. Bodies, credentials and
// query strings are never logged.
func Logger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = l }) }

// Observe reports every request with a key, and every call to the store, to o. A [RequestObserver] also sees the
// beginning of each request. Nil, the default, is no observer.
func Observe(o Observer) Option {
	return optionFunc(func(c *config) {
		c.observer = o
		c.starts, _ = o.(RequestObserver)
	})
}

// A TakeOverPolicy decides whether the handler runs again for a key whose owner died: see [Reexecute], [Refuse] and
// [Recover]. The zero value is Reexecute.
type TakeOverPolicy struct {
	refuse  bool
	recover RecoverFunc
	broken  bool // Recover was given no function
}

// refuses reports whether the policy refuses the next request with the key of a dead owner that left a note.
func (p TakeOverPolicy) refuses(left note) bool {
	return p.recover == nil && (p.refuse || left.applied)
}

// A RecoverFunc finds out whether a request whose owner died has had its effect. It gets the route's request, the
// key, and the meta that the dead owner last gave to Checkpoint, or nil if it gave none. It returns the handler that
// responds in place of the route's, for example with the resource that it found. A nil handler means that nothing was
// done, and the route's own handler runs. If the response of either handler is not stored, such as a 5xx, the key stays
// pending, and the next request calls the function again. An error means that the effect is still unknown. The response
// is then 503, and the key stays pending too. The function must leave the request's body to the handler.
type RecoverFunc func(ctx context.Context, r *http.Request, key string, meta []byte) (http.Handler, error)

// Reexecute runs the handler again. TakenOver then returns true.
func Reexecute() TakeOverPolicy { return TakeOverPolicy{} }

// Refuse refuses the key with 409, code CONFLICT.idempotency.outcome_unknown, until the record expires. Use it for
// effects that must not happen twice and that a person can look up.
func Refuse() TakeOverPolicy { return TakeOverPolicy{refuse: true} }

// Recover lets f find out whether the dead owner's effect was made. f may respond in the handler's place. A nil f is an
// error of the options.
func Recover(f RecoverFunc) TakeOverPolicy {
	return TakeOverPolicy{recover: f, broken: f == nil}
}

package server

import (
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
	DefaultRetention      = 24 * time.Hour
	DefaultLeaseTTL       = 30 * time.Second
	DefaultHandlerTimeout = time.Minute
	DefaultStoreTimeout   = 5 * time.Second
	DefaultMaxBody        = 1 << 20 // bytes
	DefaultMaxResponse    = 1 << 20 // bytes
	DefaultMaxWaiters     = 256
)

// An Option changes how the middleware works. Of two options that set the same thing the later one wins.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

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

// Principal says who sends the request, as authentication outside has found. It is part of the key's scope: two
// principals never see each other's records, nor whether they exist. A request with a key for which f returns ""
// is refused with 401. The principal has to stay the same when a token is renewed: never use the
// Authorization header itself.
//
// Without this option all callers share one scope, which is right only where there is one tenant.
func Principal(f func(*http.Request) string) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "Principal", "the function must not be nil")
		c.principal = f
	})
}

// Retention is how long a response is kept, counted from the first request; the default is 24 hours. It must be
// positive and no shorter than LeaseTTL. A client that retries later than this runs the handler again, unless
// RefuseExpiredKeys stops it.
func Retention(d time.Duration) Option { return optionFunc(func(c *config) { c.retention = d }) }

// LeaseTTL is how long a request that has died blocks its key; the default is 30 seconds. While the handler runs
// the lease is renewed every third of it, so that it need not be as long as the handler takes. It must be at
// least a millisecond. With Transactional it has no meaning.
func LeaseTTL(d time.Duration) Option { return optionFunc(func(c *config) { c.leaseTTL = d }) }

// HandlerTimeout is how long the handler may run before its context ends; the default is one minute, or the
// retention if that is shorter. A client's X-Request-Timeout shortens it. The handler's context does not end when
// the client disconnects: see CancelOnDisconnect.
func HandlerTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) { c.handlerTimeout, c.ownTimeout = d, true })
}

// StoreTimeout is how long one visit to the store may take, retries included, before the answer is 503; the default
// is 5 seconds.
func StoreTimeout(d time.Duration) Option { return optionFunc(func(c *config) { c.storeTimeout = d }) }

// CancelOnDisconnect ends the handler's context when the client's connection does, as net/http has it. By default
// the handler runs on, so that its outcome is there when the client retries.
func CancelOnDisconnect() Option {
	return optionFunc(func(c *config) { c.cancelOnDisconnect = true })
}

// Wait makes a request whose key is in flight wait for the first one's outcome, at most so long and no longer than
// the client's X-Request-Timeout, before it is refused. Zero, the default, refuses at once.
func Wait(atMost time.Duration) Option { return optionFunc(func(c *config) { c.wait = atMost }) }

// MaxWaiters is how many requests may wait at a time; the default is 256. A request beyond it is refused at once.
// Without Wait it means nothing.
func MaxWaiters(n int) Option { return optionFunc(func(c *config) { c.maxWaiters = n }) }

// Methods are the methods whose key counts; the default is POST and PATCH. A request with another method runs
// the handler plainly, Required or not. The safe methods (GET, HEAD, OPTIONS, TRACE and QUERY) have no effect to
// protect, and New refuses them.
func Methods(methods ...string) Option {
	methods = slices.Clone(methods)
	return optionFunc(func(c *config) { c.methods = methods })
}

// KeyFormat adds a rule to those that every key keeps (1 to 255 printable ASCII characters). A key for which f
// returns an error is refused with 400, and the error's text is told to the client.
func KeyFormat(f func(key string) error) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "KeyFormat", "the function must not be nil")
		c.keyFormats = append(c.keyFormats, f)
	})
}

// UUIDKeys refuses keys that are not UUIDs, of any version, in the 36-character form of RFC 9562.
func UUIDKeys() Option { return KeyFormat(checkUUID) }

// RefuseExpiredKeys refuses a UUIDv7 key that is older than the retention, and has no record, with 409, code
// CONFLICT.idempotency.expired: its record may have been forgotten, and running the handler could repeat the effect. A
// key's age is what its time says by this machine's clock; five minutes are allowed for clocks that differ (a tenth
// of the retention where that is less). Keys of other forms have no age and are not affected.
func RefuseExpiredKeys() Option { return optionFunc(func(c *config) { c.refuseExpired = true }) }

// IETFStatuses answers a key that was used for another payload with 422, as
// draft-ietf-httpapi-idempotency-key-header-07 section 2.7 has it, and not with 409.
func IETFStatuses() Option { return optionFunc(func(c *config) { c.ietfStatuses = true }) }

// InFlightStatus is the status of a request that is refused because the first one with its key is still running:
// 409, the default, or 425.
func InFlightStatus(status int) Option {
	return optionFunc(func(c *config) { c.inFlightStatus = status })
}

// CanonicalJSON identifies JSON bodies by their canonical form, so that the same document with other white space or
// another order of members is the same request. A body whose Content-Type is JSON and that is not, or that
// repeats a member, is refused with 400. Bodies of other types are identified by their bytes.
func CanonicalJSON() Option { return optionFunc(func(c *config) { c.canonicalJSON = true }) }

// Fingerprint identifies requests by f instead of a hash of method, path, query and body. It is for
// bodies whose bytes differ from attempt to attempt, such as multipart ones. Fingerprints of f's own should have
// a version byte of 128 or more. An error is answered with 400 and its text is told to the client.
func Fingerprint(f func(r *http.Request, body []byte) (store.Fingerprint, error)) Option {
	return optionFunc(func(c *config) {
		c.check(f != nil, "Fingerprint", "the function must not be nil")
		c.fingerprint = f
	})
}

// MaxBody is how many bytes the body of a request with a key may have; the default is 1 MiB. A longer one is
// refused with 413 before anything is reserved. Zero allows only empty bodies.
func MaxBody(n int) Option { return optionFunc(func(c *config) { c.maxBody = n }) }

// MaxResponse is how many bytes of a response's body are stored; the default is 1 MiB. The first caller gets a longer
// one whole; a retry gets 409, code CONFLICT.idempotency.result_not_stored, and the handler does not run again. Zero
// stores only responses with an empty body. With Transactional a longer response is held in memory all the same.
func MaxResponse(n int) Option { return optionFunc(func(c *config) { c.maxResponse = n }) }

// FailOpen runs the handler untracked when the store can't be reached, and says so to the observer and the logger. It
// trades the promise for availability: a retry may then repeat the effect. It does not go together with Transactional.
func FailOpen() Option { return optionFunc(func(c *config) { c.failOpen = true }) }

// StoreServerErrors keeps and replays responses of 500 and above too, instead of releasing the key. A
// client that sees a replayed 5xx knows that the server will say nothing else for the key.
func StoreServerErrors() Option { return optionFunc(func(c *config) { c.storeServerErrors = true }) }

// TakeOver says what happens to a key whose owner died before it recorded an outcome, so that nobody knows whether
// it made its effect: Reexecute, the default, Refuse or Recover.
func TakeOver(p TakeOverPolicy) Option {
	return optionFunc(func(c *config) {
		c.check(!p.broken, "TakeOver", "the function given to Recover must not be nil")
		c.takeOver = p
	})
}

// Pepper keeps keys and principals out of the store: a record is kept under the HMAC-SHA256 of both. The secret must
// have at least 16 bytes, and changing it forgets every record. Logs then show the HMAC and not the key.
func Pepper(secret []byte) Option {
	secret = slices.Clone(secret)
	return optionFunc(func(c *config) {
		c.check(len(secret) >= minPepper, "Pepper", "the secret must have at least 16 bytes")
		c.pepper = secret
	})
}

// Logger logs one line for each request with a key. Nil, the default, is silent. Never logged are bodies, credentials
// and query strings.
func Logger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = l }) }

// Observe tells o of every request with a key and of every call to the store. Nil, the default, is nobody.
func Observe(o Observer) Option { return optionFunc(func(c *config) { c.observer = o }) }

// A TakeOverPolicy is an argument to TakeOver. The zero value is Reexecute.
type TakeOverPolicy struct {
	refuse  bool
	recover RecoverFunc
	broken  bool // Recover was given no function
}

// A RecoverFunc finds out what became of a request whose owner died. It gets the route's request, the key, and the
// meta that the dead owner last gave to Checkpoint, nil if it gave none. It returns the handler that answers in
// the route's place, for example with the resource that it found; nil runs the route's own handler, for
// nothing was done. An error means that it can't tell: the answer is 503 and the key stays pending, for the next
// request to try again. The request's body is there for whichever handler is run, and not for the function.
type RecoverFunc func(ctx context.Context, r *http.Request, key string, meta []byte) (http.Handler, error)

// Reexecute runs the handler again. TakenOver tells it so.
func Reexecute() TakeOverPolicy { return TakeOverPolicy{} }

// Refuse answers 409, code CONFLICT.idempotency.outcome_unknown, until the record expires: for effects that must not
// happen twice and can be looked up by a person.
func Refuse() TakeOverPolicy { return TakeOverPolicy{refuse: true} }

// Recover asks f. A nil f is an error of the options.
func Recover(f RecoverFunc) TakeOverPolicy {
	return TakeOverPolicy{recover: f, broken: f == nil}
}

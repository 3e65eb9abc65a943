package inbox

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/store"
)

// Defaults of the options.
const (
	DefaultRetention      = 10 * 24 * time.Hour
	DefaultMaxAttempts    = 10
	DefaultLeaseTTL       = 30 * time.Second
	DefaultHandlerTimeout = time.Minute
	DefaultStoreTimeout   = 5 * time.Second
)

// An Option changes how an inbox works. If two options set the same thing, the later one wins.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Retention sets the time for which a settled event is remembered, counted from its settlement. A later delivery is a
// new event, so it must be longer than the producer's whole schedule of deliveries. A producer that redrives a dead
// letter starts its schedule anew. The default is 10 days: two schedules of an outbox, and two days in which its
// operator redrives. [store.Forever] is allowed.
func Retention(d time.Duration) Option { return optionFunc(func(c *config) { c.retention = d }) }

// LetterRetention sets the time for which an unsettled event is kept, counted from its last attempt. Such an event
// waits for another attempt, or is a dead letter. The default is [store.Forever]: until it is handled, redriven or
// dropped.
func LetterRetention(d time.Duration) Option { return optionFunc(func(c *config) { c.letters = d }) }

// MaxAttempts is the number of attempts after which an event becomes a dead letter. The default is 10.
func MaxAttempts(n int) Option { return optionFunc(func(c *config) { c.maxAttempts = n }) }

// Backoff sets the time for which an event rests after its n-th failed attempt: f(n), with n from 1. Meanwhile other
// deliveries of the event are refused with the remaining time, and don't count as attempts. The default is a second,
// doubled with each attempt up to 10 minutes. A negative wait counts as zero, and no wait is longer than the
// retention.
func Backoff(f func(attempt int) time.Duration) Option {
	return optionFunc(func(c *config) { c.backoff = f })
}

// LeaseTTL sets the time for which a dead process blocks the events that it was handling. The default is 30
// seconds, the minimum a millisecond. While a handler runs, the lease is renewed after each third of that time.
// The handler's context ends if two thirds pass without a renewal. A [Transactional] inbox holds an event by its
// transaction and uses no lease. It gives up the last allowed attempt when this time has passed since the attempt
// was counted. Until then the attempt's transaction may still open.
func LeaseTTL(d time.Duration) Option { return optionFunc(func(c *config) { c.lease = d }) }

// HandlerTimeout sets the time that a handler may take before its context ends. The default is one minute.
func HandlerTimeout(d time.Duration) Option { return optionFunc(func(c *config) { c.timeout = d }) }

// StoreTimeout sets the time that the claim of an event may take, and the write of its outcome, retries included. The
// default is 5 seconds. The end of the delivery's context does not stop that write. The begin of a transaction has only
// the deadline of the delivery's context.
func StoreTimeout(d time.Duration) Option { return optionFunc(func(c *config) { c.storeTimeout = d }) }

// Fingerprint identifies payloads by f instead of a hash of their bytes, for a producer whose deliveries differ, for
// example in a timestamp. Fingerprints of f should have a version byte of 128 or more. An error of f refuses the
// delivery.
func Fingerprint(f func(Event) (store.Fingerprint, error)) Option {
	return optionFunc(func(c *config) { c.fingerprint = f })
}

// Observe passes each delivery to o. Nil, the default, observes nothing.
func Observe(o Observer) Option { return optionFunc(func(c *config) { c.observer = o }) }

// Logger logs each delivery. Success and replay are logged at Debug, and a failed attempt at Info. A dead letter,
// another payload and a refusal are logged at Warn. Faults of the store or of the program are logged at Error. Payloads
// are never logged. Nil, the default, logs nothing.
func Logger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = l }) }

// config holds the values of the options.
type config struct {
	retention    time.Duration
	letters      time.Duration
	maxAttempts  int
	backoff      func(int) time.Duration
	lease        time.Duration
	timeout      time.Duration
	storeTimeout time.Duration
	fingerprint  func(Event) (store.Fingerprint, error)
	observer     Observer     // may be nil
	logger       *slog.Logger // may be nil
}

func newConfig(opts []Option) (config, error) {
	c := config{
		retention:    DefaultRetention,
		letters:      store.Forever,
		maxAttempts:  DefaultMaxAttempts,
		backoff:      double,
		lease:        DefaultLeaseTTL,
		timeout:      DefaultHandlerTimeout,
		storeTimeout: DefaultStoreTimeout,
		fingerprint:  func(ev Event) (store.Fingerprint, error) { return hash(ev.Payload), nil },
	}
	for _, o := range opts {
		if o == nil {
			return config{}, errors.New("inbox: an option is nil")
		}
		o.apply(&c)
	}
	return c, c.validate()
}

// validate returns an error that names every wrong value.
func (c *config) validate() error {
	var wrong []error
	check := func(ok bool, option, rule string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("inbox: option %s: "+rule, append([]any{option}, args...)...))
		}
	}
	check(c.retention > 0, "Retention", "%v is not positive", c.retention)
	check(c.letters >= c.retention, "LetterRetention", "%v is shorter than the retention, %v", c.letters, c.retention)
	check(c.maxAttempts > 0, "MaxAttempts", "%d is not positive", c.maxAttempts)
	check(c.backoff != nil, "Backoff", "the function must not be nil")
	check(c.lease >= time.Millisecond, "LeaseTTL", "%v is less than a millisecond", c.lease)
	check(c.lease <= c.retention, "LeaseTTL", "%v is longer than the retention, %v", c.lease, c.retention)
	check(c.lease != store.Forever, "LeaseTTL", "a lease can't be forever, or a crash would block the event for good")
	check(c.timeout > 0, "HandlerTimeout", "%v is not positive", c.timeout)
	check(c.storeTimeout > 0, "StoreTimeout", "%v is not positive", c.storeTimeout)
	check(c.fingerprint != nil, "Fingerprint", "the function must not be nil")
	check(!null.Hidden(c.observer), "Observe", "the observer is a nil pointer")
	return errors.Join(wrong...)
}

// rest returns how long an event rests after its n-th attempt. The result is a lease, and so never Forever.
func (c *config) rest(attempt int) time.Duration {
	return max(0, min(c.backoff(attempt), c.retention, store.Forever-1))
}

// double is the default of Backoff.
func double(attempt int) time.Duration {
	const most = 10 * time.Minute
	if attempt > 10 {
		return most
	}
	return min(time.Second<<max(0, attempt-1), most)
}

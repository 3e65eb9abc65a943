package inbox

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redo-go/redo/store"
)

// Defaults of the options.
const (
	DefaultRetention      = 4 * 24 * time.Hour
	DefaultMaxAttempts    = 10
	DefaultLeaseTTL       = 30 * time.Second
	DefaultHandlerTimeout = time.Minute
	DefaultStoreTimeout   = 5 * time.Second
)

// An Option changes how an inbox works. Of two options that set the same thing the later one wins.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Retention is how long an event is remembered, counted from when it was settled, or from its last attempt while it is
// not; the default is 4 days. It has to outlive the producer's whole schedule, since an event that comes after it is a new
// one. [store.Forever] is allowed.
func Retention(d time.Duration) Option { return optionFunc(func(c *config) { c.retention = d }) }

// LetterRetention is how long a dead letter is kept; the default is [store.Forever], until it is redriven or dropped.
func LetterRetention(d time.Duration) Option { return optionFunc(func(c *config) { c.letters = d }) }

// MaxAttempts is after how many attempts an event becomes a dead letter; the default is 10, and 1 gives it no second.
func MaxAttempts(n int) Option { return optionFunc(func(c *config) { c.maxAttempts = n }) }

// Backoff says how long an event rests after its n-th attempt has failed, counting from 1. Other deliveries of it are
// refused meanwhile, and told what is left; they don't count as attempts. The default is a second, doubled with each
// attempt, and 10 minutes at most. A wait that is negative is none, and none is longer than the retention.
func Backoff(f func(attempt int) time.Duration) Option {
	return optionFunc(func(c *config) { c.backoff = f })
}

// LeaseTTL is how long a process that has died blocks the events that it was handling; the default is 30 seconds. While a
// handler runs the lease is renewed every third of it. It must be at least a millisecond. A [Transactional] inbox holds
// an event by its transaction and uses no lease; it takes the last attempt that is allowed for dead so long after it was
// counted, since until then its transaction may be about to open.
func LeaseTTL(d time.Duration) Option { return optionFunc(func(c *config) { c.lease = d }) }

// HandlerTimeout is how long a handler may run before its context ends; the default is one minute.
func HandlerTimeout(d time.Duration) Option { return optionFunc(func(c *config) { c.timeout = d }) }

// StoreTimeout is how long the record of an outcome may take to be written; the default is 5 seconds. That write is
// not given up when the delivery's own context ends.
func StoreTimeout(d time.Duration) Option { return optionFunc(func(c *config) { c.storeTimeout = d }) }

// Fingerprint identifies payloads by f instead of a hash of their bytes, for a producer that changes something in each
// delivery, such as a timestamp. Fingerprints of f's own should have a version byte of 128 or more. An error refuses the
// delivery.
func Fingerprint(f func(Event) (store.Fingerprint, error)) Option {
	return optionFunc(func(c *config) { c.fingerprint = f })
}

// Logger logs an error for each handler that has ended its transaction by itself, also where all is well and the receipt does
// not show it, but not where it has rolled back and then failed, since nothing else would have come of that. And for each
// dead letter that is Unknown and that a later delivery had to write, because the process that should have died before.
// Never logged are payloads. Nil, the default, is silent.
func Logger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = l }) }

// config is what the options set.
type config struct {
	retention    time.Duration
	letters      time.Duration
	maxAttempts  int
	backoff      func(int) time.Duration
	lease        time.Duration
	timeout      time.Duration
	storeTimeout time.Duration
	fingerprint  func(Event) (store.Fingerprint, error)
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

// validate names every wrong value, not only the first.
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
	return errors.Join(wrong...)
}

// rest is how long an event rests after its n-th attempt. It is a lease, and so never Forever.
func (c *config) rest(attempt int) time.Duration {
	return max(0, min(c.backoff(attempt), c.retention, store.Forever-1))
}

// double is the default backoff.
func double(attempt int) time.Duration {
	const most = 10 * time.Minute
	if attempt > 10 {
		return most
	}
	return min(time.Second<<max(0, attempt-1), most)
}

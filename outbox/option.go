package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redo-go/redo/internal/chance"
	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/store"
)

// These are the defaults of the options.
const (
	DefaultWorkers        = 16
	DefaultBreaker        = 5
	DefaultAttemptTimeout = 30 * time.Second
	DefaultHintCap        = time.Hour
	DefaultLeaseTTL       = 30 * time.Second
	DefaultPollInterval   = time.Second
	DefaultDrain          = 30 * time.Second
	DefaultRetention      = 24 * time.Hour
	DefaultQueueTimeout   = 10 * time.Second
)

// Option changes how a relay works. If two options set the same value, the later one wins.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Workers sets the number of quick deliveries that run at a time. The default is 16, the maximum [MaxClaim]. A
// delivery that takes longer than 100 ms leaves its worker to others and continues beside them, in at most 64
// places for each worker. So a destination that hangs needs no larger number.
//
// Claimed events wait in the relay's memory: at most 64 for each worker, and about 64 MiB of payloads.
func Workers(n int) Option { return optionFunc(func(c *config) { c.workers = n }) }

// PerDestination sets the maximum number of concurrent deliveries to one destination. The default, zero, is the
// number of workers. A destination starts with a few, gets more with each success, and fewer with each failure.
func PerDestination(n int) Option { return optionFunc(func(c *config) { c.perDestination = n }) }

// Breaker sets the number of failures in a row after which a destination rests. The default is 5. It rests for a
// second at first, and up to a minute while single probes fail. Meanwhile its other events are neither tried nor
// counted. A response of 400 to 499 is not such a failure, except 408 and 429. Zero means that no destination
// rests.
func Breaker(failures int) Option { return optionFunc(func(c *config) { c.breaker = failures }) }

// LeaseTTL sets the time until other relays may claim the events of a dead relay. The default is 30 seconds. The
// relay renews its leases every third of it.
func LeaseTTL(d time.Duration) Option { return optionFunc(func(c *config) { c.lease = d }) }

// PollInterval sets how often the relay polls the queue when nothing wakes it, a quarter more or less. The default
// is one second. Polling finds retries and expired leases. While the queue can't be reached, the pause doubles up
// to 30 seconds. The maximum is 366 days.
func PollInterval(d time.Duration) Option { return optionFunc(func(c *config) { c.poll = d }) }

// Drain sets how long deliveries may continue after Run's context has ended. The default is 30 seconds. Deliveries
// that have not ended by then are cancelled and return to the queue. Zero cancels them immediately.
func Drain(d time.Duration) Option { return optionFunc(func(c *config) { c.drain = d }) }

// QueueTimeout sets the maximum duration of one call to the queue. The default is 10 seconds.
func QueueTimeout(d time.Duration) Option { return optionFunc(func(c *config) { c.queueTimeout = d }) }

// AttemptTimeout sets the maximum duration of one Publish. The default is 30 seconds.
func AttemptTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) { c.attemptTimeout = d })
}

// Retry sets the waits between two attempts, each randomly up to 20 % longer or shorter. The default is
// [Schedule]. An event is dead when the attempt after the last wait fails. Without waits it is dead after one
// attempt. After a change to a shorter schedule, an event that has used it up becomes a dead letter without another
// attempt.
func Retry(waits ...time.Duration) Option {
	return optionFunc(func(c *config) { c.waits = slices.Clone(waits) })
}

// HintCap bounds the wait that a response requests, such as by Retry-After. The default is one hour. A wait of the
// schedule may be longer. Zero ignores the waits that responses request.
func HintCap(d time.Duration) Option { return optionFunc(func(c *config) { c.hintCap = d }) }

// HoldKeys keeps the events of a line waiting behind a dead letter, until that letter is redriven or dropped.
// Without it they continue. All relays of a queue should use the same setting.
func HoldKeys() Option { return optionFunc(func(c *config) { c.hold = true }) }

// Retention sets how long the relay keeps sent events before it purges them, counted from Enqueue. It applies to a
// queue that is a [Backlog]. The default is a day. Until then their ids are taken. store.Forever never purges.
func Retention(d time.Duration) Option { return optionFunc(func(c *config) { c.retention = d }) }

// OnDisabled calls f when the relay has disabled a destination, to notify an operator. f is called on a goroutine
// of the relay and must be quick. By default no function is called.
func OnDisabled(f func(context.Context, DisabledDestination)) Option {
	return optionFunc(func(c *config) { c.onDisabled = f })
}

// Observe reports attempts, and calls of the queue, to o. Nil observes nothing.
func Observe(o Observer) Option { return optionFunc(func(c *config) { c.observer = o }) }

// Logger logs attempts: a success at Debug, a failure that is retried at Info, a dead letter and a lost lease at Warn.
// It logs at Error a disabled destination, a failed call to the queue, and a publisher's panic with its stack. The
// default, nil, logs nothing. Payloads, headers and destinations are never logged, except the host of a disabled
// destination. An error's text may name a host or an address.
func Logger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = l }) }

// config holds the values of the options.
type config struct {
	workers        int
	perDestination int
	breaker        int
	lease          time.Duration
	poll           time.Duration
	drain          time.Duration
	queueTimeout   time.Duration
	attemptTimeout time.Duration
	waits          []time.Duration
	hintCap        time.Duration
	hold           bool
	retention      time.Duration
	onDisabled     func(context.Context, DisabledDestination)
	observer       Observer
	logger         *slog.Logger
	random         func() float64 // for the schedule's jitter, in [0, 1)
}

func newConfig(opts []Option) (config, error) {
	c := config{
		workers:        DefaultWorkers,
		breaker:        DefaultBreaker,
		lease:          DefaultLeaseTTL,
		poll:           DefaultPollInterval,
		drain:          DefaultDrain,
		queueTimeout:   DefaultQueueTimeout,
		attemptTimeout: DefaultAttemptTimeout,
		waits:          Schedule(),
		hintCap:        DefaultHintCap,
		retention:      DefaultRetention,
		random:         chance.Float64,
	}
	for _, o := range opts {
		if o == nil {
			return config{}, errors.New("outbox: an option is nil")
		}
		o.apply(&c)
	}
	err := c.validate()
	if c.perDestination == 0 {
		c.perDestination = c.workers
	}
	return c, err
}

// validate returns an error that names every wrong value, not only the first.
func (c *config) validate() error {
	var wrong []error
	check := func(ok bool, option, rule string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("outbox: option %s: "+rule, append([]any{option}, args...)...))
		}
	}
	check(c.workers >= 1 && c.workers <= MaxClaim, "Workers", "%d, it must be from 1 to %d", c.workers, MaxClaim)
	check(c.perDestination >= 0, "PerDestination", "%d is negative", c.perDestination)
	check(c.breaker >= 0, "Breaker", "%d is negative", c.breaker)
	check(CheckLease(c.lease) == nil, "LeaseTTL", "%v, it must be from %v to %v", c.lease, time.Millisecond, maxWait)
	check(c.poll > 0 && c.poll <= maxWait, "PollInterval", "%v, it must be positive and at most %v", c.poll, maxWait)
	check(c.drain >= 0, "Drain", "%v is negative", c.drain)
	check(c.queueTimeout > 0, "QueueTimeout", "%v is not positive", c.queueTimeout)
	check(c.attemptTimeout > 0, "AttemptTimeout", "%v is not positive", c.attemptTimeout)
	for _, w := range c.waits {
		check(w >= 0 && w <= maxWait/2, "Retry", "%v, a wait must be from 0 to %v", w, maxWait/2)
	}
	check(c.hintCap >= 0 && c.hintCap <= maxWait, "HintCap", "%v, it must be from 0 to %v", c.hintCap, maxWait)
	check(c.retention >= 0, "Retention", "%v is negative", c.retention)
	check(!null.Hidden(c.observer), "Observe", "the observer is a nil pointer")
	return errors.Join(wrong...)
}

// purges reports whether sent events are ever purged.
func (c *config) purges() bool { return c.retention != store.Forever }

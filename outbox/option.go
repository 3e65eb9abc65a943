package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
)

// Defaults of the options.
const (
	DefaultWorkers      = 16
	DefaultLeaseTTL     = 30 * time.Second
	DefaultPollInterval = time.Second
	DefaultDrain        = 30 * time.Second
	DefaultRetention    = 24 * time.Hour
	DefaultQueueTimeout = 10 * time.Second
)

// An Option changes how a relay works. Of two options that set the same thing the later one wins.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Workers is how many deliveries run at a time; the default is 16, and at most [MaxClaim]. A destination that answers
// slowly occupies workers: give the client a breaker and a short timeout, or such destinations a relay with a queue of
// their own.
func Workers(n int) Option { return optionFunc(func(c *config) { c.workers = n }) }

// LeaseTTL is for how long the events of a relay that has died are left alone; the default is 30 seconds. While a delivery
// runs the lease is renewed every third of it.
func LeaseTTL(d time.Duration) Option { return optionFunc(func(c *config) { c.lease = d }) }

// PollInterval is how often the relay looks for events when nothing wakes it, a quarter more or less; the default is one
// second. Retries and ended leases are found by it. While the queue can't be reached the pause doubles up to 30 seconds.
func PollInterval(d time.Duration) Option { return optionFunc(func(c *config) { c.poll = d }) }

// Drain is how long deliveries may go on after Run's context has ended; the default is 30 seconds. Those that have not
// ended by then are cancelled and go back to the queue. Zero cancels them at once.
func Drain(d time.Duration) Option { return optionFunc(func(c *config) { c.drain = d }) }

// QueueTimeout is how long one call to the queue may take; the default is 10 seconds.
func QueueTimeout(d time.Duration) Option { return optionFunc(func(c *config) { c.queueTimeout = d }) }

// Retry sets the schedule; zero fields are those of [Schedule]. MaxAttempts counts the first attempt too. MaxElapsed
// bounds the time from the first attempt to the last: an event whose next wait would pass it is dead, and so is one that was
// tried before and for which no relay ran until then. AttemptTimeout bounds one Publish. A Jitter is given zero for the wait
// before.
func Retry(p redo.RetryPolicy) Option { return optionFunc(func(c *config) { c.retry = p }) }

// HoldKeys keeps the events of an ordering key waiting behind a dead letter, until that was redriven or dropped. Without
// it they go on. All relays of a queue should agree.
func HoldKeys() Option { return optionFunc(func(c *config) { c.hold = true }) }

// Retention is for how long sent events are kept before the relay purges them from a queue that is a [Backlog]; the
// default is a day. Until then their ids are taken. store.Forever never purges.
func Retention(d time.Duration) Option { return optionFunc(func(c *config) { c.retention = d }) }

// Observe tells o of attempts and of calls to the queue. Nil observes nothing.
func Observe(o Observer) Option { return optionFunc(func(c *config) { c.observer = o }) }

// Logger logs attempts: a success at Debug, a retry at Info, a dead letter and a lost lease at Warn, and a queue that does
// not answer at Error. The default, nil, logs nothing. Payloads, headers and destinations are never logged.
func Logger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = l }) }

// config is what the options set.
type config struct {
	workers      int
	lease        time.Duration
	poll         time.Duration
	drain        time.Duration
	queueTimeout time.Duration
	retry        redo.RetryPolicy
	hold         bool
	retention    time.Duration
	observer     Observer
	logger       *slog.Logger
}

func newConfig(opts []Option) (config, error) {
	c := config{
		workers:      DefaultWorkers,
		lease:        DefaultLeaseTTL,
		poll:         DefaultPollInterval,
		drain:        DefaultDrain,
		queueTimeout: DefaultQueueTimeout,
		retention:    DefaultRetention,
	}
	for _, o := range opts {
		if o == nil {
			return config{}, errors.New("outbox: an option is nil")
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
			wrong = append(wrong, fmt.Errorf("outbox: option %s: "+rule, append([]any{option}, args...)...))
		}
	}
	check(c.workers >= 1 && c.workers <= MaxClaim, "Workers", "%d, it must be from 1 to %d", c.workers, MaxClaim)
	check(CheckLease(c.lease) == nil, "LeaseTTL", "%v, it must be from %v to %v", c.lease, time.Millisecond, maxWait)
	check(c.poll > 0, "PollInterval", "%v is not positive", c.poll)
	check(c.drain >= 0, "Drain", "%v is negative", c.drain)
	check(c.queueTimeout > 0, "QueueTimeout", "%v is not positive", c.queueTimeout)
	check(c.retention >= 0, "Retention", "%v is negative", c.retention)
	var err error
	if c.retry, err = complete(c.retry); err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// purges reports whether sent events are ever purged.
func (c *config) purges() bool { return c.retention != store.Forever }

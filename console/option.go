package console

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// An Option configures a console. Of two options of the same kind, the later one wins.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// A config holds the options.
type config struct {
	client       *redo.Client
	queues       []namedQueue
	inbox        Inbox
	records      Store
	authenticate func(*http.Request) (author string, ok bool)
	local        string // the author without authenticate
	audit        func(context.Context, Act)
	bodies       bool
	wrong        []error
}

type namedQueue struct {
	name string
	Queue
}

// A Queue has the methods that the console needs of a queue. The queues of boltoutbox, memoutbox and pgoutbox have
// them.
type Queue interface {
	outbox.Queue
	outbox.Backlog
}

// An Inbox lists its letters. [inbox.Inbox] and [inbox.Transactional] do.
type Inbox interface {
	// DeadLetters yields the dead letters of a source, or of every source if it is empty.
	DeadLetters(ctx context.Context, source string) iter.Seq2[inbox.FailedEvent, error]
	// Waiting yields the events that have failed and are no dead letters.
	Waiting(ctx context.Context, source string) iter.Seq2[inbox.FailedEvent, error]
}

// A Store has the methods that the console needs of a server's store. All stores of this project have them.
type Store interface {
	store.Store
	store.Lister
}

// refuse records a wrong option.
func (c *config) refuse(option, format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Errorf("console: option %s: %s", option, fmt.Sprintf(format, args...)))
}

// Operations shows the operations of a client. The client needs a store that is a store.Lister. The client resumes
// operations with its own credentials.
func Operations(client *redo.Client) Option {
	return optionFunc(func(c *config) {
		if client == nil {
			c.refuse("Operations", "the client is nil")
		}
		c.client = client
	})
}

// Events shows the events of a queue: that of a relay or of an inbox.Acceptor. It may be used for several queues. Their
// names must be different and not empty.
func Events(name string, q Queue) Option {
	return optionFunc(func(c *config) {
		switch _, taken := c.queue(name); {
		case name == "":
			c.refuse("Events", "the name is empty")
		case taken:
			c.refuse("Events", "the name %q is given twice", name)
		case null.Is(q):
			c.refuse("Events", "the queue %q is nil", name)
		}
		c.queues = append(c.queues, namedQueue{name, q})
	})
}

// queue returns the queue with the name.
func (c *config) queue(name string) (namedQueue, bool) {
	for _, q := range c.queues {
		if q.name == name {
			return q, true
		}
	}
	return namedQueue{}, false
}

// Letters shows the dead letters of an inbox and its events that wait. Only the service redrives them, because it has
// the handler.
func Letters(in Inbox) Option {
	return optionFunc(func(c *config) {
		if null.Is(in) {
			c.refuse("Letters", "the inbox is nil")
		}
		c.inbox = in
	})
}

// Records lets the console find a server's pending records by their Idempotency-Key.
func Records(st Store) Option {
	return optionFunc(func(c *config) {
		if null.Is(st) {
			c.refuse("Records", "the store is nil")
		}
		c.records = st
	})
}

// Authenticate sets the function that authenticates each request. It returns the name of the author for the audit, and
// whether the request is allowed. A request that is not allowed, or that has no author, is refused with 401. f must be
// safe for concurrent use. By default only requests from this machine are served, see the package's comment.
func Authenticate(f func(*http.Request) (author string, ok bool)) Option {
	return optionFunc(func(c *config) {
		if f == nil {
			c.refuse("Authenticate", "the function is nil")
		}
		c.authenticate = f
	})
}

// The Author option names the author of acts if there is no [Authenticate]. The default is "local".
func Author(name string) Option {
	return optionFunc(func(c *config) {
		if name == "" {
			c.refuse("Author", "the name is empty")
		}
		c.local = name
	})
}

// Audit sets the function that receives each act after it was done or has failed. The context is the request's, without
// its cancellation. f must be safe for concurrent use. The default logs to slog.Default at Info, and failures at Warn.
func Audit(f func(context.Context, Act)) Option {
	return optionFunc(func(c *config) {
		if f == nil {
			c.refuse("Audit", "the function is nil")
		}
		c.audit = f
	})
}

// ShowBodies shows the payloads of events and letters, and the first bytes of failed responses. By default only their
// sizes are shown.
func ShowBodies() Option { return optionFunc(func(c *config) { c.bodies = true }) }

// configure returns the configuration of the options.
func configure(opts []Option) (config, error) {
	c := config{local: "local", audit: logAct}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("console: an option is nil")
		}
		o.apply(&c)
	}
	if len(c.wrong) == 0 && c.client == nil && len(c.queues) == 0 && c.inbox == nil {
		return c, errors.New("console: there is nothing to show: use Operations, Events or Letters")
	}
	return c, errors.Join(c.wrong...)
}

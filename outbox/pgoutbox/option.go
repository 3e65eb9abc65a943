package pgoutbox

import (
	"fmt"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
)

// An Option changes how New and Migration set a queue up.
type Option interface{ apply(*config) error }

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

type config struct {
	schema, table string
	silent        bool
}

func newConfig(opts []Option) (config, error) {
	c := config{schema: "public", table: "redo_outbox"}
	for _, o := range opts {
		if o == nil {
			return config{}, fmt.Errorf("pgoutbox: %w: an option is nil", store.ErrInvalid)
		}
		if err := o.apply(&c); err != nil {
			return config{}, err
		}
	}
	return c, nil
}

// maxSuffix is the length of the longest name that is added to the table's.
const maxSuffix = len("_disabled")

// WithSchema names the schema of the tables; the default is "public". The search path is not used. The schema must
// exist.
func WithSchema(name string) Option {
	return option(func(c *config) error {
		c.schema = name
		return pgtable.CheckName("pgoutbox", "schema", name, pgtable.MaxName)
	})
}

// WithTable names the log; the default is "redo_outbox". The names of the other tables and of the indexes begin with
// it, so that it may have 1 to 54 bytes. Two logs are two queues that share no event.
func WithTable(name string) Option {
	return option(func(c *config) error {
		c.table = name
		return pgtable.CheckName("pgoutbox", "table", name, pgtable.MaxName-maxSuffix)
	})
}

// WithoutNotify makes Enqueue notify no relay, so that relays poll. Producers and relays must agree on it. A
// transaction that is to be prepared (PREPARE TRANSACTION) needs it: Postgres prepares none that has notified.
func WithoutNotify() Option {
	return option(func(c *config) error {
		c.silent = true
		return nil
	})
}

package pgstore

import (
	"github.com/redo-go/redo/store/pgstore/pgtable"
)

// An Option changes how Open, New, NewSQL and Migration set a store up. A nil Option is ignored.
type Option interface{ apply(*config) error }

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

type config struct {
	schema, table string
	migrate       bool
}

func newConfig(opts []Option) (config, error) {
	c := config{schema: "public", table: "redo_records"}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.apply(&c); err != nil {
			return config{}, err
		}
	}
	return c, nil
}

const maxSuffix = len("_pending")

// WithSchema names the schema of the table; the default is "public". The search path is not used. The schema must
// exist. Any name of 1 to 63 bytes that Postgres allows is allowed, quotes and blanks included.
func WithSchema(name string) Option {
	return option(func(c *config) error {
		c.schema = name
		return pgtable.CheckName("pgstore", "schema", name, pgtable.MaxName)
	})
}

// WithTable names the table; the default is "redo_records". The names of its sequence and indexes begin with it, so
// that it may have 1 to 55 bytes. Two tables are two stores that share no ID.
func WithTable(name string) Option {
	return option(func(c *config) error {
		c.table = name
		return pgtable.CheckName("pgstore", "table", name, pgtable.MaxName-maxSuffix)
	})
}

// WithMigrate makes Open call [Store.Migrate], where it otherwise calls Check. New, NewSQL and Migration ignore it.
func WithMigrate() Option {
	return option(func(c *config) error {
		c.migrate = true
		return nil
	})
}

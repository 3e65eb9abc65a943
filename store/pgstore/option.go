package pgstore

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store"
)

// An Option changes how Open, New and Migration set a store up.
type Option interface{ apply(*config) error }

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

type config struct {
	schema, table string
	mode          pgx.QueryExecMode // zero: the connection's own
	poll          time.Duration
	migrate       bool
}

func newConfig(opts []Option) (config, error) {
	c := config{schema: "public", table: "redo_records", poll: 200 * time.Millisecond}
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

const (
	maxName   = 63 // bytes; Postgres cuts longer names in silence
	maxSuffix = len("_pending")
)

// WithSchema names the schema that the table stands in; the default is "public". The search path plays no part.
// The schema must exist. Any name of 1 to 63 bytes that Postgres allows is allowed, quotes and blanks included.
func WithSchema(name string) Option {
	return option(func(c *config) error {
		if err := checkName("schema", name, maxName); err != nil {
			return err
		}
		c.schema = name
		return nil
	})
}

// WithTable names the table; the default is "redo_records". The names of its sequence and indexes begin with it,
// so that it may have 1 to 55 bytes. Two tables are two stores that know nothing of each other.
func WithTable(name string) Option {
	return option(func(c *config) error {
		if err := checkName("table", name, maxName-maxSuffix); err != nil {
			return err
		}
		c.table = name
		return nil
	})
}

func checkName(what, name string, limit int) error {
	switch {
	case name == "":
		return fmt.Errorf("pgstore: %w: the name of the %s is empty", store.ErrInvalid, what)
	case len(name) > limit:
		return fmt.Errorf("pgstore: %w: the name of the %s, %.80q, has %d bytes, at most %d are allowed", store.ErrInvalid, what, name, len(name), limit)
	case strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return fmt.Errorf("pgstore: %w: the name of the %s, %q, must be UTF-8 without NUL", store.ErrInvalid, what, name)
	}
	return nil
}

// WithExecMode sets how the store's statements are sent, whatever the pool's default is. pgx.QueryExecModeExec needs no prepared
// statements, and is what a transaction pooler that can't keep them asks for; pgx.QueryExecModeSimpleProtocol and
// pgx.QueryExecModeCacheDescribe work too. pgx.QueryExecModeDescribeExec must never be used behind one: a statement and its
// arguments may reach two sessions, and the arguments another statement. The default is the pool's own mode.
func WithExecMode(m pgx.QueryExecMode) Option {
	return option(func(c *config) error {
		switch m {
		case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
			pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
			c.mode = m
			return nil
		}
		return fmt.Errorf("pgstore: %w: the execution mode %d is none of pgx's", store.ErrInvalid, m)
	})
}

// WithPollInterval sets the longest pause between two looks of [Store.Wait] at a record; the default is 200 ms.
// Looks begin closer together. An interval that is not positive is an error.
func WithPollInterval(d time.Duration) Option {
	return option(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("pgstore: %w: the poll interval is %v, it must be positive", store.ErrInvalid, d)
		}
		c.poll = d
		return nil
	})
}

// WithMigrate lets Open create the table where there is none, as [Store.Migrate] does. New and Migration
// ignore it.
func WithMigrate() Option {
	return option(func(c *config) error {
		c.migrate = true
		return nil
	})
}

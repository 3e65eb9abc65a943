package pgoutbox

import (
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store"
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

const (
	maxName   = 63 // bytes; Postgres cuts longer names in silence
	maxSuffix = len("_pkey")
)

// WithSchema names the schema that the table stands in; the default is "public". The search path plays no part. The schema
// must exist.
func WithSchema(name string) Option {
	return option(func(c *config) error {
		if err := checkName("schema", name, maxName); err != nil {
			return err
		}
		c.schema = name
		return nil
	})
}

// WithTable names the table; the default is "redo_outbox". The names of its indexes begin with it, so that it may have 1 to
// 58 bytes. Two tables are two queues that know nothing of each other.
func WithTable(name string) Option {
	return option(func(c *config) error {
		if err := checkName("table", name, maxName-maxSuffix); err != nil {
			return err
		}
		c.table = name
		return nil
	})
}

// WithoutNotify lets Enqueue notify nobody and relays poll. It has to be the same for those who enqueue and those who relay.
func WithoutNotify() Option {
	return option(func(c *config) error {
		c.silent = true
		return nil
	})
}

func checkName(what, name string, limit int) error {
	switch {
	case name == "":
		return fmt.Errorf("pgoutbox: %w: the name of the %s is empty", store.ErrInvalid, what)
	case len(name) > limit:
		return fmt.Errorf("pgoutbox: %w: the name of the %s, %.80q, has %d bytes, at most %d are allowed", store.ErrInvalid, what, name, len(name), limit)
	case strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return fmt.Errorf("pgoutbox: %w: the name of the %s, %q, must be UTF-8 without NUL", store.ErrInvalid, what, name)
	}
	return nil
}

// name is the table's, for messages and statements.
func (c config) name() string { return pgx.Identifier{c.schema, c.table}.Sanitize() }

// hash tells tables apart where a name would be too long.
func (c config) hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.name()))
	return h.Sum64()
}

// channel is what relays listen to.
func (c config) channel() string { return fmt.Sprintf("redo_outbox_%016x", c.hash()) }

// replacer fills a text with the table's names. Quoted names hold no braces of their own that it would look at twice.
func (c config) replacer() *strings.Replacer {
	pairs := []string{"{table}", c.name(), "{marker}", quoteText(marker), "{channel}", quoteText(c.channel())}
	for _, suffix := range []string{"pkey", "id", "due", "line", "busy", "held", "dead", "sent"} {
		pairs = append(pairs, "{"+suffix+"}", pgx.Identifier{c.table + "_" + suffix}.Sanitize())
	}
	return strings.NewReplacer(pairs...)
}

func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

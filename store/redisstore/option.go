package redisstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/redo-go/redo/store"
)

// An Option changes how Open and New set a Store up.
type Option interface{ apply(*config) error }

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

type config struct {
	prefix        string
	maxResult     int
	allowEviction bool

	replicas       int
	replicaTimeout time.Duration
}

func newConfig(opts []Option) (config, error) {
	c := config{prefix: "redo", maxResult: 16 << 20}
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

// maxPrefix bounds the prefix, which stands in every key.
const maxPrefix = 128

// WithPrefix sets what the store's keys and its channel begin with; "redo" is the default. Stores with different prefixes share
// nothing. It has 1 to 128 bytes and holds no braces: the hash tags, which say where a cluster keeps a key, are the
// store's own, and one in the prefix would put every record on one machine.
func WithPrefix(prefix string) Option {
	return option(func(c *config) error {
		if prefix == "" || len(prefix) > maxPrefix || strings.ContainsAny(prefix, "{}") {
			return fmt.Errorf("redisstore: %w: the prefix is %q, it must have 1 to %d bytes and no braces", store.ErrInvalid, prefix, maxPrefix)
		}
		c.prefix = prefix
		return nil
	})
}

// WithMaxResult bounds a result, in bytes: Complete refuses a larger one with store.ErrInvalid and changes nothing. The
// default is 16 MiB, since a server does nothing else while it takes a value in; the bound is from 1 byte to 512 MiB,
// the engine's own limit.
func WithMaxResult(bytes int) Option {
	return option(func(c *config) error {
		if bytes < 1 || bytes > 512<<20 {
			return fmt.Errorf("redisstore: %w: the largest result is %d bytes, it must be from 1 to %d", store.ErrInvalid, bytes, 512<<20)
		}
		c.maxResult = bytes
		return nil
	})
}

// AllowEviction accepts a server that may evict records, or that won't say whether it does. What it evicts is
// forgotten: a settled record's work runs again when the caller retries, and a second owner starts beside one whose record
// went. It is right where another rule stands against that, or where the server is known to be set up as it must be and
// allows neither CONFIG GET nor INFO.
func AllowEviction() Option {
	return option(func(c *config) error {
		c.allowEviction = true
		return nil
	})
}

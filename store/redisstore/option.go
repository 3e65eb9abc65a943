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

// maxPrefix bounds the prefix, which is part of every key.
const maxPrefix = 128

// WithPrefix sets the prefix of the store's keys and of its channel. The default is "redo". Stores with different
// prefixes share nothing. The prefix has 1 to 128 bytes and no braces: braces in the prefix would put every record of
// a cluster on one node.
func WithPrefix(prefix string) Option {
	return option(func(c *config) error {
		if prefix == "" || len(prefix) > maxPrefix || strings.ContainsAny(prefix, "{}") {
			return fmt.Errorf("redisstore: %w: the prefix is %q, it must have 1 to %d bytes and no braces",
				store.ErrInvalid, prefix, maxPrefix)
		}
		c.prefix = prefix
		return nil
	})
}

// WithMaxResult bounds a result, in bytes. Complete refuses a larger one with store.ErrInvalid and changes nothing.
// The default is 16 MiB, because a server does nothing else while it receives a value. The bound is from 1 byte to 512
// MiB, the engine's own limit.
func WithMaxResult(bytes int) Option {
	return option(func(c *config) error {
		if bytes < 1 || bytes > 512<<20 {
			return fmt.Errorf("redisstore: %w: the largest result is %d bytes, it must be from 1 to %d",
				store.ErrInvalid, bytes, 512<<20)
		}
		c.maxResult = bytes
		return nil
	})
}

// AllowEviction accepts a server that may evict records, or that does not show whether it does. An evicted record is
// forgotten: the work of a settled record runs again when the caller retries, and a second owner starts beside the
// first. Use it if another rule prevents that, or if the server has the right setting and allows neither CONFIG GET
// nor INFO.
func AllowEviction() Option {
	return option(func(c *config) error {
		c.allowEviction = true
		return nil
	})
}

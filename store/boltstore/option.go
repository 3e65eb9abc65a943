package boltstore

import (
	"fmt"
	"time"

	"github.com/redo-go/redo/internal/wallclock"
	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// An Option changes how Open opens a file. There is none that trades durability for speed.
type Option interface{ apply(*config) error }

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

type config struct {
	lazyDelay time.Duration
	maxSize   int64
	pageCheck int64
	clock     func() (int64, time.Duration)
	commit    func(*bbolt.Tx) error
}

func newConfig(opts []Option) (config, error) {
	c := config{
		lazyDelay: 10 * time.Millisecond,
		pageCheck: 64 << 20,
		clock:     wallclock.System(),
		commit:    (*bbolt.Tx).Commit,
	}
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

// WithLazyDelay sets how long a lazy change may wait for the commit of a durable change, before it
// gets a commit of its own. The default is 10 ms. Zero commits it as soon as the disk is free. A negative delay is
// an error.
func WithLazyDelay(d time.Duration) Option {
	return option(func(c *config) error {
		if d < 0 {
			return fmt.Errorf("boltstore: %w: the lazy delay is %v, it must not be negative", store.ErrInvalid, d)
		}
		c.lazyDelay = d
		return nil
	})
}

// WithMaxSize bounds the file, in bytes. A change that would need more fails with store.ErrUnavailable and
// changes nothing. The default, zero, sets no bound. A negative bound is an error.
func WithMaxSize(bytes int64) Option {
	return option(func(c *config) error {
		if bytes < 0 || int64(int(bytes)) != bytes {
			return fmt.Errorf("boltstore: %w: the maximum size is %d bytes, it must be a non-negative int",
				store.ErrInvalid, bytes)
		}
		c.maxSize = bytes
		return nil
	})
}

// WithPageCheck sets the size, in bytes, up to which Open checks a file page by page before it is used. The check
// reads the whole file, in about 1 ms a MiB. The default is 64 MiB. Zero checks no file. A negative size checks
// every file. See "Damage" in the package's documentation.
func WithPageCheck(upTo int64) Option {
	return option(func(c *config) error {
		c.pageCheck = upTo
		return nil
	})
}

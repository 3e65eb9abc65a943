package boltstore

import (
	"fmt"
	"time"

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
	olderMeta bool
	clock     func() (int64, time.Duration)
	commit    func(*bbolt.Tx) error
}

func newConfig(opts []Option) (config, error) {
	c := config{
		lazyDelay: 10 * time.Millisecond,
		pageCheck: 64 << 20,
		clock:     systemTime(),
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

// WithLazyDelay sets how long a lazy outcome may wait for a durable change to share its commit with, before it
// gets one of its own. The default is 10 ms; zero commits it as soon as the disk is free. A negative delay is
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

// WithMaxSize bounds the file, in bytes: a change that would need more fails with store.ErrUnavailable and
// changes nothing. The default, zero, sets no bound. A negative bound is an error.
func WithMaxSize(bytes int64) Option {
	return option(func(c *config) error {
		if bytes < 0 || int64(int(bytes)) != bytes {
			return fmt.Errorf("boltstore: %w: the maximum size is %d bytes, it must be a non-negative int", store.ErrInvalid, bytes)
		}
		c.maxSize = bytes
		return nil
	})
}

// WithPageCheck sets the size, in bytes, up to which a file is checked page by page before it is used: that
// reads the whole file, some 1 ms a MiB. The default is 64 MiB; zero checks no file, which leaves damage to be
// found when a damaged page is read, or not at all where it hides records. A negative size checks every file.
func WithPageCheck(upTo int64) Option {
	return option(func(c *config) error {
		c.pageCheck = upTo
		return nil
	})
}

// WithOlderMeta accepts a file one of whose two meta pages is damaged. Open refuses such a file by default,
// because the damaged page may be the newer one, and going on without it forgets the last commit. It is an
// operator's decision, after a copy of the file was made.
func WithOlderMeta() Option {
	return option(func(c *config) error {
		c.olderMeta = true
		return nil
	})
}

package pebblestore

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/redo-go/redo/internal/wallclock"
	"github.com/redo-go/redo/store"
)

// An Option changes how Open opens a directory. There is none that trades durability for speed.
type Option interface{ apply(*config) error }

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

type config struct {
	lazyDelay time.Duration
	clock     func() (int64, time.Duration)
	fs        vfs.FS
	maxBatch  int // bytes from which a group's rows go into one more batch, because Pebble holds a batch in memory
}

func newConfig(opts []Option) (config, error) {
	c := config{lazyDelay: 10 * time.Millisecond, clock: wallclock.System(), fs: vfs.Default, maxBatch: 64 << 20}
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

// WithLazyDelay sets how long a lazy change may wait for the sync of a durable change, before it gets a sync of its
// own. The default is 10 ms. Zero syncs it as soon as the disk is free. A negative delay is an error.
func WithLazyDelay(d time.Duration) Option {
	return option(func(c *config) error {
		if d < 0 {
			return fmt.Errorf("pebblestore: %w: the lazy delay is %v, it must not be negative", store.ErrInvalid, d)
		}
		c.lazyDelay = d
		return nil
	})
}

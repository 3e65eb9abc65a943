package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
)

// Callers reserve and complete while servers come and go. Each call has one of three ends: it is done, it is
// unavailable, it is unknown.
type callersAtWork struct {
	stop    chan struct{}
	wg      sync.WaitGroup
	done    atomic.Int64
	failed  atomic.Int64
	settled [8][]store.Lease
}

func callersOn(t *testing.T, st *redisstore.Store) *callersAtWork {
	c := &callersAtWork{stop: make(chan struct{})}
	for i := range c.settled {
		c.wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-c.stop:
					return
				default:
				}
				l, err := settle(t, st, claim(fmt.Sprintf("%d-%d", i, n)))
				switch {
				case err == nil:
					c.settled[i] = append(c.settled[i], l)
					c.done.Add(1)
				case errors.Is(err, store.ErrUnknown) == errors.Is(err, store.ErrUnavailable):
					t.Errorf("%v is not one of unknown and unavailable", err)
					return
				default:
					c.failed.Add(1)
				}
			}
		})
	}
	return c
}

// more waits until the counter has grown.
func (c *callersAtWork) more(t *testing.T, counter *atomic.Int64) {
	t.Helper()
	want := counter.Load() + 20
	until(t, "the callers go on", func() bool { return t.Failed() || counter.Load() >= want })
}

// end returns the leases of all acknowledged completions.
func (c *callersAtWork) end() []store.Lease {
	close(c.stop)
	c.wg.Wait()
	return slices.Concat(c.settled[:]...)
}

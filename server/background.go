package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// DefaultBackgroundLimit is the default of Background.Limit.
const DefaultBackgroundLimit = 1024

// A Background records outcomes that the store did not accept within StoreTimeout. The client has then received 503,
// although the effect is made. The middleware keeps the lease of the key. It tries to record the outcome until the
// store accepts it, the retention ends, or Shutdown ends the attempts. It does the same for a key that could not be
// released.
//
// The zero value is ready. Each middleware has a separate Background unless [RunIn] gives it one. A program that
// stops cleanly needs one, for Shutdown:
//
//	var background server.Background
//	once := server.Middleware(st, server.Required(), server.Principal(customer), server.RunIn(&background))
//	…
//	srv.Shutdown(ctx)        // no request comes in after this
//	background.Shutdown(ctx) // no request is running, and no outcome is waiting after this
//	st.Close()
//
// All methods may be called concurrently. A Background must not be copied after its first use.
type Background struct {
	// Limit is the number of keys that may wait at a time, each with its response in memory. Zero means
	// DefaultBackgroundLimit. For a key beyond the limit the middleware logs an error. Its lease then ends, and the
	// next request takes the key over. Set Limit before the first use.
	Limit int

	mu       sync.Mutex
	shut     bool // Shutdown has ended
	waiting  map[*settlement]context.CancelFunc
	finished chan struct{} // closed when nothing waits or runs; nil before Shutdown
	running  registry
	requests atomic.Int64 // that the middlewares serve
}

// RunIn makes the middleware record late outcomes in b, so that the program can end them with [Background.Shutdown].
// Several middlewares may share b and its limit, and then exclude each other's keys over one store. The default is a
// Background of the middleware's own. Middlewares with that default exclude each other's keys too. A nil b is an error
// of the options.
func RunIn(b *Background) Option {
	return optionFunc(func(c *config) {
		c.check(b != nil, "RunIn", "the Background must not be nil")
		c.check(b == nil || b.Limit >= 0, "RunIn", "the Background's Limit must not be negative")
		c.background = b
	})
}

// Len returns the number of outcomes that wait to be recorded.
func (b *Background) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// Shutdown waits until no request with a key is running and every outcome is recorded, or until ctx ends. It then ends
// the remaining attempts, and the middleware's logger gets an error for each of their keys. The returned error contains
// their number, and wraps the context's. An outcome that the store refuses after Shutdown is logged as an error and not
// kept.
//
// Call Shutdown after http.Server.Shutdown and before the store is closed. That method does not wait for a handler
// whose HTTP/2 connection the client has closed, or that http.TimeoutHandler has left running.
func (b *Background) Shutdown(ctx context.Context) error {
	b.mu.Lock()
	if b.finished == nil {
		b.finished = make(chan struct{})
		b.finish()
	}
	b.mu.Unlock()
	select {
	case <-b.finished:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	b.shut = true
	var left []*settlement
	for s := range b.waiting {
		if !s.ended {
			s.ended = true
			left = append(left, s)
			b.remove(s)
		}
	}
	b.mu.Unlock()
	for _, s := range left {
		s.report(errShutdown)
	}
	running := b.requests.Load()
	if len(left) == 0 && running == 0 {
		return nil
	}
	return fmt.Errorf("server: %d requests are running, and outcomes of %d keys are not recorded: %w",
		running, len(left), context.Cause(ctx))
}

var errShutdown = errors.New("server: shut down before the store took the outcome")

// start repeats a write, which returned err, in a goroutine. It reports false, and logs an error, if there is no room
// or after Shutdown.
func (b *Background) start(s *settlement, err error) bool {
	limit := b.Limit
	if limit == 0 {
		limit = DefaultBackgroundLimit
	}
	b.mu.Lock()
	full := len(b.waiting) >= limit
	if b.shut || full {
		b.mu.Unlock()
		why := errShutdown
		if full {
			why = fmt.Errorf("server: the outcomes of %d keys wait already", limit)
		}
		s.report(errors.Join(why, err))
		return false
	}
	ctx, cancel := context.WithCancel(s.values)
	if b.waiting == nil {
		b.waiting = map[*settlement]context.CancelFunc{}
	}
	b.waiting[s] = cancel
	b.mu.Unlock()
	go func() {
		err := s.repeat(ctx, s.gate.storeTimeout, err)
		s.gate.running.remove(s.gate, s.Lease)
		if b.end(s) {
			s.report(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.remove(s) // after the report: Shutdown waits for it
	}()
	return true
}

// end reports whether the settlement has not been reported yet. It is true once.
func (b *Background) end(s *settlement) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !s.ended
	s.ended = true
	return first
}

// remove cancels and forgets a settlement. The mutex is held.
func (b *Background) remove(s *settlement) {
	if cancel, ok := b.waiting[s]; ok {
		cancel()
		delete(b.waiting, s)
		b.finish()
	}
}

// leave ends a request, which requests has counted.
func (b *Background) leave() {
	if b.requests.Add(-1) == 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.finish()
	}
}

// finish wakes Shutdown if nothing waits or runs. The mutex is held.
func (b *Background) finish() {
	if b.finished == nil || len(b.waiting) > 0 || b.requests.Load() > 0 {
		return
	}
	b.shut = true
	select {
	case <-b.finished:
	default:
		close(b.finished)
	}
}

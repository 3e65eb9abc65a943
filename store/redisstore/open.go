package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Open connects to the server at url and returns a Store on it. The URL is "redis://user:password@host:port/db",
// "rediss://" for TLS, or "unix://" for a socket, as [rueidis.ParseURL] reads it. A server that is part of a cluster
// leads to the whole cluster. For settings that a URL can't express, make a client and use [New].
//
// The error wraps store.ErrInvalid if the URL or an option can't be used, and otherwise store.ErrUnavailable. It
// wraps ErrEviction too if the server may evict records, and ErrFormat if its records are of another release. No
// error shows the URL.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := newConfig(opts); err != nil {
		return nil, err // before it connects
	}
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w: the URL, which is not shown since it may hold a password, "+
			"is not of the form redis://user:password@host:port/db", store.ErrInvalid)
	}
	o.DisableCache = true // a cached read may be stale
	client, err := dial(ctx, o)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, client, opts...)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.owned = client.Close
	return s, nil
}

// dial connects until the context ends. rueidis itself knows only its own timeout.
func dial(ctx context.Context, o rueidis.ClientOption) (rueidis.Client, error) {
	type dialed struct {
		client rueidis.Client
		err    error
	}
	d, err := within(ctx, func() (d dialed) {
		d.client, d.err = rueidis.NewClient(o)
		return d
	}, func(d dialed) {
		if d.err == nil {
			d.client.Close()
		}
	})
	switch {
	case err != nil:
		return nil, err
	case d.err != nil:
		return nil, unavailable(d.err)
	}
	return d.client, nil
}

// within returns the result of get. If the context ends first, within returns its error, and calls drop with the result
// later.
func within[T any](ctx context.Context, get func() T, drop func(T)) (T, error) {
	done := make(chan T)
	go func() { done <- get() }()
	select {
	case t := <-done:
		return t, nil
	case <-ctx.Done():
		go func() { drop(<-done) }()
		var none T
		return none, ctx.Err()
	}
}

// New returns a Store on a client that the caller made, may use for other things, and closes after the Store. Its
// errors are those of [Open].
//
// The client may pipeline, follow a Sentinel or speak to a cluster. Its timeouts are those of the Store, beside each
// call's context. If it has an AuthCredentialsFn, that function must not return context.Canceled for a refresh: the
// Store takes that error for a command that was not sent.
func New(ctx context.Context, client rueidis.Client, opts ...Option) (*Store, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, fmt.Errorf("redisstore: %w: the client is nil", store.ErrInvalid)
	}
	s := &Store{config: c, client: client}
	s.life, s.end = context.WithCancel(context.Background())
	s.poller = store.Poll(awaited{s})
	if err := s.Check(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends every Wait and, if Open made the client, closes it after its pending calls. Afterwards all methods return
// an error that wraps store.ErrUnavailable. Closing again does nothing. Close always returns nil.
func (s *Store) Close() error {
	s.listening.Do(func() {}) // none begins any more
	s.closing.Do(func() {
		s.end()
		s.listener.Wait()
		s.poller.Pushed(false) // each waiter reads once more, and gets the error
		if s.owned != nil {
			s.owned()
		}
	})
	return nil
}

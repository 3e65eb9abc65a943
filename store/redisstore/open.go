package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// A Client is what a Store needs of a client. Every [rueidis.Client] is one.
type Client interface {
	// B returns the builder of commands.
	B() rueidis.Builder
	// Do sends one command. It must not send it to a replica unless the command only reads, nor twice unless it is
	// marked as retryable.
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
	// DoMulti sends some commands at once.
	DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult
	// Receive subscribes until the context ends.
	Receive(ctx context.Context, subscribe rueidis.Completed, fn func(rueidis.PubSubMessage)) error
}

// Open connects to the server at url, "redis://user:password@host:port/db", "rediss://" for TLS or "unix://" for a
// socket, as [rueidis.ParseURL] reads it, and returns a Store on it. A server that is part of a cluster leads to the whole
// of it. For anything that the URL can't say make a client and use [New].
//
// The error wraps store.ErrUnavailable when the server can't be reached or lets nobody in, beside ErrEviction when it
// may evict records, and store.ErrInvalid when the URL or an option can't be used. No error shows the URL.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := newConfig(opts); err != nil {
		return nil, err // before anybody is bothered
	}
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w: the URL, which is not shown since it may hold a password, "+
			"is not of the form redis://user:password@host:port/db", store.ErrInvalid)
	}
	o.DisableCache = true // nothing is read that may be stale
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

// dial connects, or gives up when the context ends: rueidis itself heeds only its own timeout.
func dial(ctx context.Context, o rueidis.ClientOption) (rueidis.Client, error) {
	type dialed struct {
		client rueidis.Client
		err    error
	}
	done := make(chan dialed, 1)
	go func() {
		c, err := rueidis.NewClient(o)
		done <- dialed{c, err}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, unavailable(d.err)
		}
		return d.client, nil
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				d.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// New returns a Store on a client that the caller made, may use for other things, and closes, after the Store. It
// asks the server for its maxmemory-policy. Its errors are those of [Open].
//
// The client may pipeline, follow a Sentinel or speak to a cluster. Its timeouts are those of the Store, beside each
// call's context. An AuthCredentialsFn of its must not return context.Canceled for a refresh: that error says that a
// command was not sent.
func New(ctx context.Context, client Client, opts ...Option) (*Store, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, fmt.Errorf("redisstore: %w: the client is nil", store.ErrInvalid)
	}
	if _, ok := client.(dedicater); !ok && c.replicas > 0 {
		return nil, errNotDedicated
	}
	s := &Store{
		config: c,
		client: client,
		layout: newLayout(c.prefix),
		closed: make(chan struct{}),
	}
	s.waits.init()
	if err := s.Check(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends every Wait and, if Open made it, closes the client after its pending calls. Afterwards all methods return an
// error that wraps store.ErrUnavailable; closing again does nothing. It always returns nil.
func (s *Store) Close() error {
	if !s.waits.close() {
		return nil
	}
	close(s.closed)
	s.waits.listener.Wait()
	if s.owned != nil {
		s.owned()
	}
	return nil
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
)

// maxTries bounds how often a statement is made again. Of 64 callers of one ID that can only succeed one after
// the other, as under repeatable read, the last needs about as many tries.
const maxTries = 100

// run calls f on a connection of the pool until it is through, and translates its error. f makes one statement;
// writes says that it may change something.
func (s *records) run(ctx context.Context, writes bool, f func(on session) error) error {
	return s.statement(ctx, writes, f, s.on)
}

// anyway is run, of a closed store too.
func (s *records) anyway(ctx context.Context, writes bool, f func(on session) error) error {
	return s.statement(ctx, writes, f, s.with)
}

func (s *records) statement(
	ctx context.Context, writes bool, f func(session) error, on func(context.Context, bool, func(connection) error) error,
) error {
	return s.retry(ctx, func() error {
		return on(ctx, writes, func(conn connection) error {
			defer conn.release()
			return f(conn)
		})
	})
}

// retry makes a try again as long as its error is retriable.
func (s *records) retry(ctx context.Context, once func() error) error {
	for try := 1; ; try++ {
		err := once()
		var retry *retriable
		if !errors.As(err, &retry) {
			return err
		}
		if try == maxTries {
			return fmt.Errorf("pgstore: %w: given up after %d tries: %w", store.ErrUnavailable, try, retry.error)
		}
		if err := s.pause(ctx, backoff(try, rand.Float64())); err != nil {
			return err
		}
	}
}

// A retriable failure changed nothing.
type retriable struct{ error }

// on calls f with a connection, which f releases, and translates its error.
func (s *records) on(ctx context.Context, writes bool, f func(conn connection) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.with(ctx, writes, f)
}

// with is on, of a closed store too.
func (s *records) with(ctx context.Context, writes bool, f func(conn connection) error) error {
	conn, err := s.engine.acquire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("pgstore: %w: %w", store.ErrUnavailable, err)
	}
	if conn.closed() {
		conn.release()
		return &retriable{pgconn.ErrConnClosed}
	}
	err = f(conn)
	switch {
	case err == nil, errors.Is(err, store.ErrLost), errors.Is(err, store.ErrNotFound), errors.Is(err, ErrForeign):
		return err
	case again(err, writes) && ctx.Err() == nil:
		return &retriable{err}
	}
	return s.failure(ctx, err, writes)
}

func (s *records) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.life.Err() != nil {
		return errClosed
	}
	return nil
}

// pause waits for d, and returns an error when the context ends or the store is closed first.
func (s *records) pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.life.Done():
		return errClosed
	}
}

// backoff is the pause after a try: none after the first, since the write that was in the way is over, then
// up to 1 ms, doubling up to 32 ms. r is in [0, 1).
func backoff(try int, r float64) time.Duration {
	if try == 1 {
		return 0
	}
	return time.Duration(r * float64(time.Millisecond<<min(try-2, 5)))
}

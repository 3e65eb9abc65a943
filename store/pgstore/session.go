package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
)

// A session runs statements: a connection on which each is a transaction, or a transaction.
type session interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// maxTries bounds how often a statement is made again. Of 64 callers of one ID that can only succeed one after
// the other, as under repeatable read, the last needs about as many tries.
const maxTries = 100

// run calls f on a connection of the pool until it is through, and translates its error. f makes one statement;
// writes says that it may change something.
func (s *Store) run(ctx context.Context, writes bool, f func(on session) error) error {
	for try := 1; ; try++ {
		err := s.once(ctx, writes, f)
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

func (s *Store) once(ctx context.Context, writes bool, f func(on session) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("pgstore: %w: %w", store.ErrUnavailable, err)
	}
	defer conn.Release()
	var on session = conn
	if s.mode != 0 {
		on = moded{conn, s.mode}
	}
	err = f(on)
	switch {
	case err == nil, errors.Is(err, store.ErrLost), errors.Is(err, store.ErrNotFound), errors.Is(err, ErrForeign):
		return err
	case again(err) && ctx.Err() == nil:
		return &retriable{err}
	}
	return s.failure(ctx, err, writes)
}

func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.life.Err() != nil {
		return errClosed
	}
	return nil
}

// pause waits for d, and returns an error when the context ends or the store is closed first.
func (s *Store) pause(ctx context.Context, d time.Duration) error {
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

// moded is a session whose statements are sent in a mode of their own.
type moded struct {
	session
	mode pgx.QueryExecMode
}

func (m moded) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return m.session.Exec(ctx, sql, m.with(args)...)
}

func (m moded) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return m.session.Query(ctx, sql, m.with(args)...)
}

func (m moded) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return m.session.QueryRow(ctx, sql, m.with(args)...)
}

func (m moded) with(args []any) []any { return append([]any{m.mode}, args...) }

package pgtable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/store"
)

// maxAttempts bounds how often a statement is repeated. Of 64 callers of one ID that can only succeed one after the
// other, as under repeatable read, the last needs about as many attempts.
const maxAttempts = 100

var (
	// ErrRace, returned by a function that Do calls, requests another attempt: another session wrote the row
	// between the statement's read and its write.
	ErrRace = errors.New("lost race")

	errNotSent = errors.New("no connection")
)

// Conns calls f with a connection of a pool. Its error is f's, or that of [Acquired].
type Conns func(ctx context.Context, f func(*pgx.Conn) error) error

// Pool returns the Conns of a pgx pool.
func Pool(pool *pgxpool.Pool) Conns {
	return func(ctx context.Context, f func(*pgx.Conn) error) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return Acquired(nil, err)
		}
		defer conn.Release()
		if err := Acquired(conn.Conn(), nil); err != nil {
			return err
		}
		return f(conn.Conn())
	}
}

// Acquired returns nil if the connection can be used. err is the pool's error. If the connection is closed, Do makes
// another attempt.
func Acquired(conn *pgx.Conn, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errNotSent, err)
	case conn.IsClosed():
		return fmt.Errorf("%w: %w", ErrRace, pgconn.ErrConnClosed)
	}
	return nil
}

// Run calls f, which sends one statement, with a connection of the pool. See Do. It closes the connection after an
// error that is [OfSession].
func (t Table) Run(ctx context.Context, conns Conns, writes bool, f func(*pgx.Conn) error) error {
	return t.Do(ctx, writes, func() error {
		return conns(ctx, func(conn *pgx.Conn) error {
			err := f(conn)
			if OfSession(err) {
				_ = conn.Close(ctx) // it is closed in any case
			}
			return err
		})
	})
}

// OfSession reports whether each later call of the session would fail too: a user's SET has changed the form of values,
// and the driver can't read them.
func OfSession(err error) bool {
	_, unreadable := errors.AsType[pgx.ScanArgError](err)
	return unreadable
}

// Do calls attempt, and repeats it after an ErrRace, a deadlock, a failure to serialize, and if nothing was sent. It
// returns the last error in the terms of package store: see Failure. writes means that attempt may change something.
func (t Table) Do(ctx context.Context, writes bool, attempt func() error) error {
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := attempt()
		switch {
		case err == nil:
			return nil
		case !repeatable(err), ctx.Err() != nil:
			return t.Failure(ctx, err, writes)
		case n == maxAttempts:
			return fmt.Errorf("%s: %w: given up after %d attempts: %w", t.Package, store.ErrUnavailable, n, err)
		}
		if err := Pause(ctx, backoff(n, rand.Float64())); err != nil {
			return err
		}
	}
}

func repeatable(err error) bool {
	switch code := Code(err); {
	case errors.Is(err, ErrRace), code == serializationFailure, code == deadlockDetected:
		return true
	case errors.Is(err, errNotSent):
		return false // the pool has tried, as long as the context allowed
	}
	return unsent(err)
}

// Pause waits for d, or returns the context's error if that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff is the pause after an attempt. After the first there is none, because the other session's write has ended.
// Then it is up to 1 ms, and doubles up to 32 ms. r is in [0, 1).
func backoff(attempt int, r float64) time.Duration {
	if attempt == 1 {
		return 0
	}
	return time.Duration(r * float64(time.Millisecond<<min(attempt-2, 5)))
}

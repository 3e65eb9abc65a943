package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
)

// Where the arguments that differ from one record to the next stand in the statements.
const (
	keyArg   = 1
	fenceArg = 2 // of complete
	turnArg  = 3 // of reserve: the numbers of the ID's locks
	openArg  = 8
)

// A recording holds the statements of a store, in their order. It implements pgx.QueryTracer.
type recording struct{ sent []sent }

// A sent statement, with its arguments.
type sent struct {
	text string
	args []any
}

// TraceQueryStart implements pgx.QueryTracer.
func (r *recording) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.sent = append(r.sent, sent{q.SQL, slices.Clone(q.Args)})
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (r *recording) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

var errOtherStatements = errors.New("benchmarks: pgstore's statements are others than this comparison was written for")

// check returns an error unless the recording is a reserve and a complete of the form that the driver is made to
// send.
func (r *recording) check() error {
	if len(r.sent) != 2 {
		return fmt.Errorf("%w: %d of them", errOtherStatements, len(r.sent))
	}
	reserve, complete := r.sent[0], r.sent[1]
	if len(reserve.args) != 9 || len(complete.args) != 6 {
		return fmt.Errorf("%w: %d and %d arguments", errOtherStatements, len(reserve.args), len(complete.args))
	}
	_, turn := reserve.args[turnArg].(int64)
	_, fence := complete.args[fenceArg].(int64)
	for _, s := range r.sent {
		if key, ok := s.args[keyArg].([]byte); !ok || string(key) != replayed || !turn || !fence {
			return errOtherStatements
		}
	}
	return nil
}

// argsFor returns the arguments of a reserve for another key.
func (s sent) argsFor(key []byte, turn int64) []any {
	args := slices.Clone(s.args)
	args[keyArg], args[turnArg], args[openArg] = key, turn, -turn
	return args
}

// A reserved row is the result of reserve, as the store reads it.
type reserved struct {
	owned                            bool
	format, state                    zeronull.Int2
	fingerprint, result, meta, owner []byte
	fence, born                      zeronull.Int8
	leaseUntil, createdAt, expiresAt pgtype.Timestamptz
	readAt                           pgtype.Timestamptz
}

func (a *postgresArena) reserveByDriver(ctx context.Context, s sent, args []any) (got reserved, err error) {
	err = a.pool.QueryRow(ctx, s.text, args...).Scan(&got.owned, &got.format, &got.fingerprint, &got.state,
		&got.result, &got.meta, &got.owner, &got.fence, &got.born, &got.leaseUntil, &got.createdAt, &got.expiresAt,
		&got.readAt)
	return got, err
}

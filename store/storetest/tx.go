package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/redo-go/redo/store"
)

// A TxHarness connects RunTx to an engine whose transactions are of type T.
type TxHarness[T any] struct {
	// Open returns an empty store that shares nothing with the stores it returned before, and closes it with
	// t.Cleanup. Write's effects are kept on the same backend.
	Open func(t *testing.T) store.TxStore[T]
	// Write makes one effect with the key in the engine's transaction. Keys are not unique: each call adds one.
	Write func(ctx context.Context, tx T, key string) error
	// Written counts the committed effects with the key on st's backend, outside of any transaction and without
	// waiting for one. st may be a store that [Beside] or [Reopen] returned.
	Written func(ctx context.Context, st store.TxStore[T], key string) (int, error)
	// Fail makes a statement fail in the engine's transaction and returns its error. If it is nil, the cases of
	// failed statements are skipped.
	Fail func(ctx context.Context, tx T) error
	// Commit and Rollback call the methods of T and return their errors, which must be store.ErrTxEnded. If one is
	// nil, because T has no such methods, their cases are skipped.
	Commit, Rollback func(ctx context.Context, tx T) error
	// Ends are the ways in which the engine's transaction ends without the store, where T can't prevent them: for
	// example by the SQL texts "COMMIT" and "ROLLBACK". If there are none, their cases are skipped.
	Ends []func(ctx context.Context, tx T) error
	// SingleWriter means that the engine has one write transaction at a time. A Begin of another ID then waits for
	// the open one, and so may every other write.
	SingleWriter bool
}

// TxCases returns every case that RunTx knows, in its order.
func TxCases() []Case {
	return slices.Concat(
		txCommitCases, txBeginCases, txRetainCases, txFenceCases, txHeldCases, txEndCases, txEndedCases, txOnceCases,
		txFaultCases, txHandleCases, txReopenCases,
	)
}

// RunTx runs the cases of store.TxStore as subtests of t. Run holds for the same store, and is not repeated here. The
// stores that the functions of [Beside] and [Reopen] return must be of the harness's store.TxStore too. The harness's
// functions may be called concurrently. Open, Write and Written must not be nil.
func RunTx[T any](t *testing.T, h TxHarness[T], opts ...Option) {
	t.Helper()
	if h.Open == nil || h.Write == nil || h.Written == nil {
		t.Fatal("storetest: a TxHarness needs Open, Write and Written")
	}
	cfg := h.config(configured(opts))
	for _, c := range TxCases() {
		t.Run(c.Name, func(t *testing.T) {
			cfg.bubble(t, func(t *testing.T) { c.run(cfg.trial(t, t, c, h.open)) })
		})
	}
}

// An engine is a TxHarness whose T is hidden, so that a case is a value like any other.
type engine struct {
	write        func(ctx context.Context, tx any, key string) error
	written      func(ctx context.Context, st store.Store, key string) (int, error)
	fail         func(ctx context.Context, tx any) error // nil: not offered, as with the two below
	commit       func(ctx context.Context, tx any) error
	rollback     func(ctx context.Context, tx any) error
	ends         []func(ctx context.Context, tx any) error
	singleWriter bool
}

func (h TxHarness[T]) config(cfg config) config {
	e := &engine{
		write:        func(ctx context.Context, tx any, key string) error { return h.Write(ctx, tx.(T), key) },
		singleWriter: h.SingleWriter,
	}
	e.written = func(ctx context.Context, st store.Store, key string) (int, error) {
		return h.Written(ctx, st.(hidden[T]).TxStore, key)
	}
	e.fail, e.commit, e.rollback = untyped(h.Fail), untyped(h.Commit), untyped(h.Rollback)
	for _, end := range h.Ends {
		e.ends = append(e.ends, untyped(end))
	}
	cfg.engine, cfg.beside, cfg.reopen = e, h.hide(cfg.beside), h.hide(cfg.reopen)
	if faults := cfg.faults; faults != nil {
		cfg.faults = func(t *testing.T, st store.Store, f Fault) func() { return faults(t, st.(hidden[T]).TxStore, f) }
	}
	return cfg
}

func untyped[T any](f func(ctx context.Context, tx T) error) func(ctx context.Context, tx any) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, tx any) error { return f(ctx, tx.(T)) }
}

func (h TxHarness[T]) open(t *testing.T) store.Store { return hidden[T]{h.Open(t)} }

func (h TxHarness[T]) hide(open func(*testing.T, store.Store) store.Store) func(*testing.T, store.Store) store.Store {
	if open == nil {
		return nil
	}
	return func(t *testing.T, st store.Store) store.Store {
		t.Helper()
		next, ok := open(t, st.(hidden[T]).TxStore).(store.TxStore[T])
		if !ok {
			t.Fatal("storetest: the store that Beside or Reopen returned is no store.TxStore of the harness's")
		}
		return hidden[T]{next}
	}
}

// A hidden store is a store.TxStore[any] of a store.TxStore[T].
type hidden[T any] struct{ store.TxStore[T] }

func (s hidden[T]) Begin(ctx context.Context, c store.Claim) (store.Tx[any], store.Grant, error) {
	tx, g, err := s.TxStore.Begin(ctx, c)
	if tx == nil {
		return nil, g, err
	}
	return hiddenTx[T]{tx}, g, err
}

// shown returns the store itself, which may implement more than the contract.
func (s hidden[T]) shown() store.Store { return s.TxStore }

type hiddenTx[T any] struct{ tx store.Tx[T] }

func (h hiddenTx[T]) Tx() any                                            { return h.tx.Tx() }
func (h hiddenTx[T]) Commit(ctx context.Context, o store.Outcome) error  { return h.tx.Commit(ctx, o) }
func (h hiddenTx[T]) Discard(ctx context.Context, o store.Outcome) error { return h.tx.Discard(ctx, o) }
func (h hiddenTx[T]) Rollback(ctx context.Context) error                 { return h.tx.Rollback(ctx) }

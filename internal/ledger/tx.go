package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// A Tx is the engine's transaction. It must not be used concurrently.
type Tx struct {
	s          *Store
	entries    []string
	err        error // why no further statement is accepted
	ended      bool  // by End
	rolledBack bool  // by Rollback, which refused
}

// ErrStatement is the error of a failed statement and of every one after it, as in Postgres.
var ErrStatement = errors.New("ledger: a statement failed")

var errOver = errors.New("ledger: the transaction has ended")

// Add adds an entry.
func (tx *Tx) Add(entry string) error {
	if tx.err == nil {
		tx.entries = append(tx.entries, entry)
	}
	return tx.err
}

// Fail is a statement that fails.
func (tx *Tx) Fail() error {
	tx.err = cmp.Or(tx.err, ErrStatement)
	return tx.err
}

// Commit refuses. It returns store.ErrTxEnded, and the transaction goes on.
func (tx *Tx) Commit() error { return store.ErrTxEnded }

// Rollback refuses. It returns store.ErrTxEnded, and the store then commits nothing.
func (tx *Tx) Rollback() error {
	tx.rolledBack = true
	return store.ErrTxEnded
}

// End ends the transaction without the store, like a "COMMIT" or a "ROLLBACK" in the text of a statement.
func (tx *Tx) End(commit bool) error {
	if tx.err != nil {
		return tx.err
	}
	tx.s.mu.Lock()
	defer tx.s.mu.Unlock()
	if commit {
		tx.s.add(tx.entries)
	}
	tx.ended, tx.err = true, errOver
	return nil
}

func (s *Store) add(entries []string) {
	for _, e := range entries {
		s.entries[e]++
	}
}

// Begin implements store.TxStore.
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Tx[*Tx], store.Grant, error) {
	if err := c.Validate(); err != nil {
		return nil, store.Grant{}, err
	}
	c.Lease, c.Owner, c.Meta = 0, "", nil
	var tx store.Tx[*Tx]
	g, err := s.claim(ctx, c, func(r store.Record, _ store.Verdict, _ time.Time) {
		s.held[c.ID] = true
		tx = &open{s: s, claim: c, rec: r, tx: &Tx{s: s}}
	})
	return tx, g, err
}

// open is a transaction with the record that it holds.
type open struct {
	s     *Store
	claim store.Claim
	rec   store.Record
	tx    *Tx
	over  bool
}

func (o *open) Tx() *Tx { return o.tx }

func (o *open) Commit(ctx context.Context, out store.Outcome) error {
	out.Result = bytes.Clone(out.Result)
	return o.end(ctx, func(now time.Time) error {
		if err := cmp.Or(o.settle(ctx, out, now), o.tx.err); err != nil {
			return err
		}
		o.s.add(o.tx.entries)
		o.s.records[o.rec.ID] = o.rec.Settled(out, now)
		return nil
	})
}

func (o *open) Discard(ctx context.Context, out store.Outcome) error {
	out.Result = bytes.Clone(out.Result)
	return o.end(ctx, func(now time.Time) error {
		if err := o.settle(ctx, out, now); err != nil {
			return err
		}
		o.s.records[o.rec.ID] = o.rec.Settled(out, now)
		return nil
	})
}

func (o *open) Rollback(ctx context.Context) error {
	o.s.mu.Lock()
	over := o.over
	o.s.mu.Unlock()
	if over {
		return nil
	}
	return o.end(ctx, func(time.Time) error { return nil })
}

// settle returns the error that keeps the record from being settled.
func (o *open) settle(ctx context.Context, out store.Outcome, now time.Time) error {
	if err := cmp.Or(ctx.Err(), out.Validate()); err != nil {
		return err
	}
	switch {
	case o.tx.rolledBack:
		return store.ErrTxEnded
	case o.rec.Expired(now):
		return store.ErrLost
	}
	return nil
}

// end commits and frees the ID, also if the commit fails. It commits nothing if the user has ended the transaction.
func (o *open) end(ctx context.Context, commit func(now time.Time) error) error {
	if o.over {
		return fmt.Errorf("%v: %w", o.rec.ID, errOver)
	}
	o.over = true
	err := o.free(commit)
	if o.tx.ended {
		return store.SettleEnded(ctx, o.s, o.claim)
	}
	return err
}

func (o *open) free(commit func(now time.Time) error) (err error) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	if !o.tx.ended {
		err = commit(time.Now())
	}
	o.tx.err = errOver
	delete(o.s.held, o.rec.ID)
	o.s.wake()
	return err
}

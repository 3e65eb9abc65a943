package store

import (
	"context"
	"errors"
)

// SealedTx is [Sealed] for a [TxStore]. It encrypts the record's result and meta, and not the caller's writes through
// the transaction. If st is nil, every method returns an error that wraps ErrInvalid.
func SealedTx[T any](st TxStore[T], keyring *Keyring) TxStore[T] {
	s := newSealed(st, keyring)
	begin := func(context.Context, Claim) (Tx[T], Grant, error) { return nil, Grant{}, errUnfit }
	if s.ring != nil {
		begin = st.Begin
	}
	if listing := s.listing(); listing != nil {
		return &sealedListingTx[T]{listing, sealedBegin[T]{s, begin}}
	}
	return &sealedStoreTx[T]{s, sealedBegin[T]{s, begin}}
}

type sealedStoreTx[T any] struct {
	*sealedStore
	sealedBegin[T]
}

type sealedListingTx[T any] struct {
	*sealedListing
	sealedBegin[T]
}

// A sealedBegin begins the transactions of an engine.
type sealedBegin[T any] struct {
	seal  *sealedStore
	begin func(context.Context, Claim) (Tx[T], Grant, error)
}

func (b sealedBegin[T]) Begin(ctx context.Context, c Claim) (Tx[T], Grant, error) {
	if err := c.Validate(); err != nil {
		return nil, Grant{}, err
	}
	tx, g, err := b.begin(ctx, b.seal.claim(c))
	if err != nil {
		return nil, Grant{}, err
	}
	rec, err := b.seal.open(g.Record)
	if err != nil {
		if tx != nil {
			err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
		}
		return nil, Grant{}, err
	}
	g.Record = rec
	if tx == nil {
		return nil, g, nil
	}
	return &sealedTx[T]{tx, b.seal, c.ID}, g, nil
}

type sealedTx[T any] struct {
	inner Tx[T]
	seal  *sealedStore
	id    ID
}

func (t *sealedTx[T]) Tx() T { return t.inner.Tx() }

func (t *sealedTx[T]) Commit(ctx context.Context, o Outcome) error {
	return t.inner.Commit(ctx, t.outcome(o))
}

func (t *sealedTx[T]) Discard(ctx context.Context, o Outcome) error {
	return t.inner.Discard(ctx, t.outcome(o))
}

func (t *sealedTx[T]) Rollback(ctx context.Context) error { return t.inner.Rollback(ctx) }

func (t *sealedTx[T]) outcome(o Outcome) Outcome {
	o.Result = t.seal.close(o.Result, t.id, sealedResult)
	return o
}

package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redo-go/redo/internal/null"
)

// Sealed returns st with results and metas encrypted at rest by AES-256-GCM. Scopes, keys, owners and fingerprints
// are not encrypted. A fingerprint is a hash. The server's Pepper keeps keys and principals out of the store. A value
// can be opened only in the record and the field for which it was sealed.
//
// A value whose key is missing from the keyring is an error that wraps [ErrUnavailable]. A value that was changed, or
// a result that was removed, is an error that wraps [ErrDamaged] too. A meta that was removed is not noticed. If
// Reserve takes over a record whose meta it can't open, it gives the lease up. An earlier owner whose lease has ended
// can't complete the record any more. If the lease could not be given up, the error also wraps [ErrUnknown].
//
// The returned Store is a [Waiter] and a [Checker]. If st is a [Lister] and a [Forgetter] it is both, and a
// [Dropper]. Use [SealedTx] for a [TxStore]. If st or the keyring is nil, every method returns an error that wraps
// ErrInvalid.
func Sealed(st Store, keyring *Keyring) Store {
	s := newSealed(st, keyring)
	if listing := s.listing(); listing != nil {
		return listing
	}
	return s
}

func newSealed(st Store, keyring *Keyring) *sealedStore {
	if null.Is(st) || keyring == nil || keyring.set.Load() == nil {
		return &sealedStore{inner: unfit{}, waiter: unfit{}}
	}
	s := &sealedStore{inner: st, ring: keyring}
	var waits bool
	if s.waiter, waits = st.(Waiter); !waits {
		s.waiter = Poll(st)
	}
	return s
}

type sealedStore struct {
	inner  Store
	ring   *Keyring
	waiter Waiter
}

// listing returns the store of an engine that lists and forgets, or nil for another engine.
func (s *sealedStore) listing() *sealedListing {
	lister, lists := s.inner.(Lister)
	forgetter, forgets := s.inner.(Forgetter)
	if !lists || !forgets {
		return nil
	}
	return &sealedListing{s, lister, forgetter}
}

func (s *sealedStore) Reserve(ctx context.Context, c Claim) (Grant, error) {
	if err := c.Validate(); err != nil {
		return Grant{}, err
	}
	g, err := s.inner.Reserve(ctx, s.claim(c))
	if err != nil {
		return Grant{}, err
	}
	if g.Record, err = s.open(g.Record); err == nil {
		return g, nil
	}
	if g.Verdict.Owned() {
		// The claim has taken over a record that it can't read, and gives it up. The earlier owner's fence is gone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		if kept := s.inner.Extend(ctx, g.Lease, 0, nil); kept != nil {
			err = errors.Join(ErrUnknown, err, kept)
		}
	}
	return Grant{}, err
}

func (s *sealedStore) claim(c Claim) Claim {
	c.Meta = s.close(c.Meta, c.ID, sealedMeta)
	return c
}

func (s *sealedStore) close(value []byte, id ID, field sealedField) []byte {
	if s.ring == nil {
		return nil // the store is unfit, and writes nothing
	}
	return s.ring.close(value, sealPlace{id, field})
}

// open returns the record with its result and meta decrypted.
func (s *sealedStore) open(r Record) (_ Record, err error) {
	if r.State == StateComplete || r.State == StateFailed || r.Result != nil {
		if r.Result, err = s.ring.open(r.Result, sealPlace{r.ID, sealedResult}); err != nil {
			return Record{}, err
		}
	}
	if r.Meta, err = s.ring.open(r.Meta, sealPlace{r.ID, sealedMeta}); err != nil {
		return Record{}, err
	}
	return r, nil
}

func (s *sealedStore) Extend(ctx context.Context, l Lease, d time.Duration, meta []byte) error {
	if len(meta) > MaxMeta {
		return l.ValidateExtend(d, meta)
	}
	return s.inner.Extend(ctx, l, d, s.close(meta, l.ID, sealedMeta))
}

func (s *sealedStore) Complete(ctx context.Context, l Lease, o Outcome) error {
	o.Result = s.close(o.Result, l.ID, sealedResult)
	return s.inner.Complete(ctx, l, o)
}

func (s *sealedStore) Release(ctx context.Context, l Lease) error { return s.inner.Release(ctx, l) }

func (s *sealedStore) Find(ctx context.Context, id ID) (Record, error) {
	r, err := s.inner.Find(ctx, id)
	if err != nil {
		return Record{}, err
	}
	return s.open(r)
}

func (s *sealedStore) Purge(ctx context.Context, limit int) (int, error) {
	return s.inner.Purge(ctx, limit)
}

func (s *sealedStore) Wait(ctx context.Context, id ID, fence uint64) error {
	return s.waiter.Wait(ctx, id, fence)
}

func (s *sealedStore) Check(ctx context.Context) error {
	if checker, ok := s.inner.(Checker); ok {
		return checker.Check(ctx)
	}
	return ctx.Err()
}

// sealedListing is a sealedStore whose engine lists and forgets.
type sealedListing struct {
	*sealedStore
	lister    Lister
	forgetter Forgetter
}

func (s *sealedListing) Pending(ctx context.Context, scope string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r, err := range s.lister.Pending(ctx, scope) {
			if err == nil {
				id := r.ID
				if r, err = s.open(r); err != nil {
					r.ID = id
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (s *sealedListing) Forget(ctx context.Context, l Lease) error { return s.forgetter.Forget(ctx, l) }

// Drop also removes a record whose seal is damaged, which the engine can read. A record whose key is missing stays.
func (s *sealedListing) Drop(ctx context.Context, id ID) error {
	r, err := s.inner.Find(ctx, id)
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotFound) { // an index of the engine may still have the ID
		if dropper, ok := s.inner.(Dropper); ok {
			return dropper.Drop(ctx, id)
		}
	}
	if err != nil {
		return err
	}
	_, err = s.open(r)
	switch {
	case err == nil:
		return fmt.Errorf("%w: the record of %v can be read: use Release or Forget", ErrInvalid, id)
	case !errors.Is(err, ErrDamaged):
		return err
	case r.State == StatePending:
		return s.inner.Release(ctx, r.Lease())
	default:
		return s.forgetter.Forget(ctx, r.Lease())
	}
}

// errUnfit is the error of every method of a Sealed store without a store or a keyring.
var errUnfit = fmt.Errorf("%w: Sealed needs a store and a Keyring made by NewKeyring", ErrInvalid)

// unfit replaces a store that is nil.
type unfit struct{}

func (unfit) Reserve(context.Context, Claim) (Grant, error)              { return Grant{}, errUnfit }
func (unfit) Extend(context.Context, Lease, time.Duration, []byte) error { return errUnfit }
func (unfit) Complete(context.Context, Lease, Outcome) error             { return errUnfit }
func (unfit) Release(context.Context, Lease) error                       { return errUnfit }
func (unfit) Find(context.Context, ID) (Record, error)                   { return Record{}, errUnfit }
func (unfit) Purge(context.Context, int) (int, error)                    { return 0, errUnfit }
func (unfit) Wait(context.Context, ID, uint64) error                     { return errUnfit }
func (unfit) Check(context.Context) error                                { return errUnfit }

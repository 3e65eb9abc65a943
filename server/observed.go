package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// An observedStore reports each call to the observer. If StoreTimeout caused an error, the error names it.
type observedStore struct {
	store.Store
	observer Observer // may be nil
}

// Reserve implements store.Store.
func (s *observedStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	began := s.clock()
	g, err := s.Store.Reserve(ctx, c)
	return g, s.saw(ctx, "Reserve", began, err)
}

// Extend implements store.Store.
func (s *observedStore) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	began := s.clock()
	return s.saw(ctx, "Extend", began, s.Store.Extend(ctx, l, d, meta))
}

// Complete implements store.Store.
func (s *observedStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	began := s.clock()
	return s.saw(ctx, "Complete", began, s.Store.Complete(ctx, l, o))
}

// Release implements store.Store.
func (s *observedStore) Release(ctx context.Context, l store.Lease) error {
	began := s.clock()
	return s.saw(ctx, "Release", began, s.Store.Release(ctx, l))
}

// Find implements store.Store.
func (s *observedStore) Find(ctx context.Context, id store.ID) (store.Record, error) {
	began := s.clock()
	rec, err := s.Store.Find(ctx, id)
	return rec, s.saw(ctx, "Find", began, err)
}

// clock returns the time, or the zero time if there is no observer.
func (s *observedStore) clock() time.Time {
	if s.observer == nil {
		return time.Time{}
	}
	return time.Now()
}

// saw reports a call that began at the given time to the observer. It returns err, as a storeTimeout if that is its
// cause.
func (s *observedStore) saw(ctx context.Context, method string, began time.Time, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errStoreTimeout) {
		err = &storeTimeout{err}
	}
	if s.observer != nil {
		s.observer.ObserveStore(ctx, StoreCall{Method: method, Elapsed: time.Since(began), Err: err})
	}
	return err
}

// errStoreTimeout is the cause of a context that StoreTimeout has ended.
var errStoreTimeout = fmt.Errorf("server: the store did not respond within StoreTimeout: %w",
	context.DeadlineExceeded)

// A storeTimeout is the error of a call that StoreTimeout has ended. The store's own error would say that the context
// was cancelled, as if the client had done so.
type storeTimeout struct{ err error }

// Error implements error.
func (*storeTimeout) Error() string { return errStoreTimeout.Error() }

// Unwrap returns errStoreTimeout, and the store's error, which may be store.ErrUnknown.
func (t *storeTimeout) Unwrap() []error { return []error{errStoreTimeout, t.err} }

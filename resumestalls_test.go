package redo_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// A silentStore does not respond to the first call of one of its methods.
type silentStore struct {
	*memstore.Store
	method string
	once   sync.Once
}

// wait waits until ctx ends if this is the call.
func (s *silentStore) wait(ctx context.Context, method string) {
	if s.method == method {
		s.once.Do(func() { <-ctx.Done() })
	}
}

func (s *silentStore) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	s.wait(ctx, "Pending")
	return s.Store.Pending(ctx, scope)
}

func (s *silentStore) Find(ctx context.Context, id store.ID) (store.Record, error) {
	s.wait(ctx, "Find")
	return s.Store.Find(ctx, id)
}

func (s *silentStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	s.wait(ctx, "Reserve")
	return s.Store.Reserve(ctx, c)
}

func (s *silentStore) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	s.wait(ctx, "Extend")
	return s.Store.Extend(ctx, l, d, meta)
}

// A connection may be dead without an error.
func TestResumeEveryGoesOnAfterACallThatTheStoreDoesNotAnswer(t *testing.T) {
	for _, method := range []string{"Pending", "Find", "Reserve", "Extend"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				defer mem.Close()
				leaveBehind(t, mem, "a")
				p := newProvider(201, 0)
				client := resuming(t, p, &silentStore{Store: mem, method: method})
				resumeFor(t, 10*time.Minute, time.Second, nil, client)
				require.Len(t, p.came["a"], 1)
			})
		})
	}
}

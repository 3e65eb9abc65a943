package redo_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// The operation is forgotten after Resume has found it. The claim that follows must not begin it anew.
func TestResumeOfAnOperationThatVanishesSendsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		forget error
		code   taxonomy.Code
	}{
		"the claim is taken back":  {nil, taxonomy.InvalidOperation},
		"and the store breaks off": {store.ErrUnavailable, taxonomy.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				mem := openStore(t)
				crash(t, srv, mem, named(t, srv, "op", payment))
				st := &vanishing{faultyStore: &faultyStore{Store: mem}}
				client := connect(t, srv.Transport(), redo.WithStore(st))
				op := pending(t, client)[0]
				st.before = func() { require.NoError(t, mem.Release(t.Context(), record(t, mem, "op").Lease())) }
				st.set(nil, nil, c.forget)
				st.release = c.forget
				_, err := client.Resume(t.Context(), op)
				require.Equal(t, c.code, failure(t, err).Code)
				require.Len(t, srv.Requests(), 1)
				if c.forget == nil {
					requireAbsent(t, mem, "op")
				}
			})
		})
	}
}

// A person has forgotten the operation, so that nothing may send its key any more.
func TestAnOperationThatVanishedHasAnotherKeyAndNoRequest(t *testing.T) {
	for name, fault := range map[string]vanishing{
		"the claim can't be taken back": {release: store.ErrUnavailable},
		"the claim's response is lost":  {lost: store.ErrUnknown},
		"claim and end seem to fail":    {release: store.ErrUnknown, lost: store.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				mem := openStore(t)
				crash(t, srv, mem, named(t, srv, "op", payment))
				st, other := &fault, connect(t, srv.Transport(), redo.WithStore(mem))
				st.faultyStore = &faultyStore{Store: mem}
				op := pending(t, other)[0]
				st.before = func() { require.NoError(t, other.Forget(t.Context(), "op")) }
				_, err := connect(t, srv.Transport(), redo.WithStore(st)).Resume(t.Context(), op)
				require.Error(t, err)
				left := pending(t, other)[0]
				require.NotEqual(t, op.Key, left.Key)
				require.Equal(t, redo.NotApplied, left.Effect)
				_, err = other.Resume(t.Context(), left)
				require.Equal(t, taxonomy.BodyNotReplayable, failure(t, err).Code)
				require.Len(t, srv.Requests(), 1)
				succeed(t, other, named(t, srv, "op", payment))
				require.Equal(t, []string{op.Key, left.Key}, keys(srv))
			})
		})
	}
}

// A vanishing store calls before, once, before a Reserve. Its errors come after the call.
type vanishing struct {
	*faultyStore
	before        func()
	lost, release error
}

func (s *vanishing) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	g, err := s.faultyStore.Reserve(ctx, c)
	return g, errors.Join(err, s.lost)
}

func (s *vanishing) Release(ctx context.Context, l store.Lease) error {
	if s.release != nil {
		return s.release
	}
	return s.faultyStore.Release(ctx, l)
}

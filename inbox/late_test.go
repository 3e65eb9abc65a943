package inbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// slowReserve returns the first grant after a time.
type slowReserve struct {
	*memstore.Store
	wait time.Duration
}

func (s *slowReserve) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	g, err := s.Store.Reserve(ctx, c)
	wait := s.wait
	s.wait = 0
	time.Sleep(wait)
	return g, err
}

// A grant may come when its lease is ending or over, and another delivery may own the event by then.
func TestGrantThatComesLateHandlesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		wait    time.Duration
		between bool // another delivery takes the event over
		late    bool
	}{
		"after another delivery took over": {40 * second, true, true},
		"after the lease":                  {40 * second, false, true},
		"after two thirds of the lease":    {20 * second, false, true},
		"in time":                          {20*second - 1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, mem *memstore.Store) {
				handled := 0
				handle := func(context.Context, inbox.Event) error {
					handled++
					return nil
				}
				in := newInbox(t, &slowReserve{mem, c.wait}, inbox.LeaseTTL(30*second))
				go func() {
					_, err := in.Receive(t.Context(), event, handle)
					if !c.late {
						require.NoError(t, err)
						return
					}
					require.Equal(t, 1, refused(t, err, taxonomy.InFlight).Attempts)
				}()
				synctest.Wait()
				if c.between {
					time.Sleep(35 * second)
					r, err := in.Receive(t.Context(), event, handle)
					require.NoError(t, err)
					require.Equal(t, inbox.Processed, r.Status)
				}
				time.Sleep(time.Minute)
				_, err := in.Receive(t.Context(), event, handle)
				require.NoError(t, err)
				require.Equal(t, 1, handled)
			})
		})
	}
}

// The producer must not wait for the end of a lease that nothing uses.
func TestALeaseThatIsGrantedLateIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, mem *memstore.Store) {
		in := newInbox(t, &slowReserve{mem, 20 * second}, inbox.LeaseTTL(30*second))
		_, err := in.Receive(t.Context(), event, returns(nil))
		refused(t, err, taxonomy.InFlight)
		r, err := in.Receive(t.Context(), event, returns(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
	})
}

// The count of a further attempt renews the lease, so that its handler has all of it.
func TestAGrantThatComesLateIsRenewedByTheCount(t *testing.T) {
	bubble(t, func(t *testing.T, mem *memstore.Store) {
		failOnce(t, newInbox(t, mem))
		time.Sleep(second)
		in := newInbox(t, &slowReserve{mem, 25 * second}, inbox.LeaseTTL(30*second))
		r, err := in.Receive(t.Context(), event, returns(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		require.Equal(t, 2, r.Attempts)
	})
}

// hungReserve responds when the caller gives up.
type hungReserve struct{ *memstore.Store }

func (hungReserve) Reserve(ctx context.Context, _ store.Claim) (store.Grant, error) {
	<-ctx.Done()
	return store.Grant{}, ctx.Err()
}

// The context of a delivery often has no deadline: net/http sets none.
func TestDeliveryWaitsForAHangingStoreAsLongAsTheOptionSays(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, hungReserve{st}, inbox.StoreTimeout(3*second))
		start := time.Now()
		_, err := in.Receive(t.Context(), event, returns(nil))
		refused(t, err, taxonomy.Unavailable)
		require.Equal(t, 3*second, time.Since(start))
	})
}

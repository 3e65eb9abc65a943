package inbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

var (
	errDown    = errors.Join(store.ErrUnavailable, errors.New("connection reset"))
	errUnknown = errors.Join(store.ErrUnknown, errors.New("connection reset"))
)

// A lossy store fails each Complete until a time, or loses its response if the write is made.
type lossy struct {
	*memstore.Store
	err     error
	until   time.Time
	applied bool
	blind   bool // Find fails until then too
	tries   int  // Completes so far
}

func (l *lossy) Complete(ctx context.Context, lease store.Lease, o store.Outcome) error {
	l.tries++
	failing := time.Now().Before(l.until)
	if failing && !l.applied {
		return l.err
	}
	if err := l.Store.Complete(ctx, lease, o); err != nil || !failing {
		return err
	}
	return l.err
}

func (l *lossy) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if l.blind && time.Now().Before(l.until) {
		return store.Record{}, errDown
	}
	return l.Store.Find(ctx, id)
}

const ms = time.Millisecond

func TestASuccessIsRecordedOnceTheStoreIsBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		down    time.Duration
		applied bool
		blind   bool
		tries   int
		after   time.Duration
	}{
		{"it is not down", nil, 0, false, false, 1, 0},
		{"one try is refused", errDown, 1, false, false, 2, 50 * ms},
		{"tries are refused for seconds", errDown, 4 * second, false, false, 9, 4550 * ms},
		{"a response is lost, and the write was made", errUnknown, 1, true, false, 1, 0},
		{"a response is lost, and the write was not made", errUnknown, 1, false, false, 2, 50 * ms},
		{"a lost response can't be settled at first", errUnknown, 100 * ms, true, true, 3, 150 * ms},
		{"an error of the store's own", errors.New("no leader"), 1, false, false, 2, 50 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, mem *memstore.Store) {
				start := time.Now()
				st := &lossy{Store: mem, err: c.err, until: start.Add(c.down), applied: c.applied, blind: c.blind}
				in, h := newInbox(t, st), &scripted{}
				r, err := in.Receive(t.Context(), event, h.handle)
				require.NoError(t, err)
				require.Equal(t, inbox.Processed, r.Status)
				require.Equal(t, c.after, time.Since(start))
				require.Equal(t, c.tries, st.tries)
				time.Sleep(inbox.DefaultLeaseTTL)
				r, err = in.Receive(t.Context(), event, h.handle)
				require.NoError(t, err)
				require.Equal(t, inbox.Replayed, r.Status)
				require.Len(t, h.events, 1)
			})
		})
	}
}

func TestAnOutcomeThatIsNotRecordedIsNotAcknowledged(t *testing.T) {
	for name, down := range map[string]error{"refused": errDown, "unknown and not made": errUnknown} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, mem *memstore.Store) {
				start := time.Now()
				in := newInbox(t, &lossy{Store: mem, err: down, until: start.Add(inbox.DefaultStoreTimeout)})
				h := &scripted{}
				_, err := in.Receive(t.Context(), event, h.handle)
				refused(t, err, taxonomy.Unavailable)
				require.ErrorIs(t, err, down)
				require.Equal(t, errors.Is(down, store.ErrUnknown), errors.Is(err, store.ErrUnknown))
				require.Equal(t, inbox.DefaultStoreTimeout, time.Since(start))
				_, err = in.Receive(t.Context(), event, h.handle)
				refused(t, err, taxonomy.InFlight)
				time.Sleep(inbox.DefaultLeaseTTL)
				r, err := in.Receive(t.Context(), event, h.handle)
				require.NoError(t, err)
				require.Equal(t, 2, r.Attempts, "the gap that only a transaction closes")
			})
		})
	}
}

// The producer may have made its last attempt.
func TestAFailureIsRecordedOnceTheStoreIsBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed error
		err    error
		down   time.Duration
		made   bool // although the response was lost
		dead   bool
		after  time.Duration
	}{
		{"it is not down", errHandler, nil, 0, false, false, 0},
		{"one try is refused", errHandler, errDown, 1, false, false, 50 * ms},
		{"a response is lost, and the write was made", errHandler, errUnknown, 1, true, false, 50 * ms},
		{"a dead letter", inbox.Reject(errHandler), errDown, 4 * second, false, true, 4550 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, mem *memstore.Store) {
				start := time.Now()
				in := newInbox(t, &forgetful{Store: mem, err: c.err, until: start.Add(c.down), made: c.made})
				h := &scripted{errs: []error{c.failed}}
				r, err := in.Receive(t.Context(), event, h.handle)
				require.Equal(t, c.after, time.Since(start))
				if c.dead {
					require.NoError(t, err)
					require.Equal(t, inbox.DeadLettered, r.Status)
					require.Equal(t, event.Payload, letters(t, in, "")[0].Payload)
					return
				}
				require.ErrorIs(t, refused(t, err, inbox.HandlerFailed), errHandler)
				require.NotErrorIs(t, err, c.err)
				list := waiting(t, in, "")
				require.Len(t, list, 1)
				require.Equal(t, event.Payload, list[0].Payload)
				require.Equal(t, errHandler.Error(), list[0].Failure)
				_, err = in.Receive(t.Context(), event, h.handle)
				require.Equal(t, second, refused(t, err, taxonomy.InFlight).RetryAfter, "it rests")
			})
		})
	}
}

// A forgetful store fails each write of a note until a time.
type forgetful struct {
	*memstore.Store
	err   error
	until time.Time
	made  bool
}

func (f *forgetful) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	failing := meta != nil && time.Now().Before(f.until)
	if failing && !f.made {
		return f.err
	}
	if err := f.Store.Extend(ctx, l, d, meta); err != nil || !failing {
		return err
	}
	return f.err
}

// While a success waits for the store, no other delivery may take the event over.
func TestTheLeaseIsRenewedUntilASuccessIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, mem *memstore.Store) {
		start := time.Now()
		st := &lossy{Store: mem, err: errDown, until: start.Add(50 * second)}
		in := newInbox(t, st, inbox.StoreTimeout(time.Minute), inbox.LeaseTTL(30*second))
		h := &scripted{}
		done := make(chan error, 1)
		go func() {
			_, err := in.Receive(t.Context(), event, h.handle)
			done <- err
		}()
		for range 49 {
			time.Sleep(second)
			synctest.Wait()
			_, err := newInbox(t, mem).Receive(t.Context(), event, h.handle)
			refused(t, err, taxonomy.InFlight)
		}
		require.NoError(t, <-done)
		require.Len(t, h.events, 1)
	})
}

// The write is not repeated after the event has another owner.
func TestASuccessWhoseLeaseIsLostChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, mem *memstore.Store) {
		start := time.Now()
		st := &lossy{Store: mem}
		in := newInbox(t, st)
		_, err := in.Receive(t.Context(), event, func(ctx context.Context, ev inbox.Event) error {
			rec, err := mem.Find(ctx, eventRecord)
			require.NoError(t, err)
			require.NoError(t, mem.Extend(ctx, rec.Lease(), 0, nil))
			_, err = newInbox(t, mem).Receive(ctx, ev, returns(inbox.Reject(errHandler)))
			return err
		})
		refused(t, err, taxonomy.InFlight)
		require.ErrorIs(t, err, store.ErrLost)
		require.Equal(t, 1, st.tries)
		require.Zero(t, time.Since(start))
		require.Len(t, letters(t, in, ""), 1)
	})
}

package inbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

func TestConstructorsNameEachWrongOption(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	for _, c := range []struct {
		name string
		opts []inbox.Option
		want string
	}{
		{"nil option", []inbox.Option{nil}, "inbox: an option is nil"},
		{"letters that outlive nothing", []inbox.Option{inbox.LetterRetention(time.Hour)},
			"inbox: option LetterRetention: 1h0m0s is shorter than the retention, 240h0m0s"},
		{"a lease that outlives its record", []inbox.Option{inbox.LeaseTTL(time.Hour), inbox.Retention(time.Minute)},
			"inbox: option LeaseTTL: 1h0m0s is longer than the retention, 1m0s"},
		{"a retention of a nanosecond", []inbox.Option{inbox.Retention(1)},
			"inbox: option LeaseTTL: 30s is longer than the retention, 1ns"},
		{"all together", []inbox.Option{
			inbox.Retention(0), inbox.MaxAttempts(0), inbox.Backoff(nil), inbox.LeaseTTL(0), inbox.HandlerTimeout(0),
			inbox.StoreTimeout(0), inbox.Fingerprint(nil),
		}, "inbox: option Retention: 0s is not positive\n" +
			"inbox: option MaxAttempts: 0 is not positive\n" +
			"inbox: option Backoff: the function must not be nil\n" +
			"inbox: option LeaseTTL: 0s is less than a millisecond\n" +
			"inbox: option HandlerTimeout: 0s is not positive\n" +
			"inbox: option StoreTimeout: 0s is not positive\n" +
			"inbox: option Fingerprint: the function must not be nil"},
		{"a lease for ever", []inbox.Option{inbox.Retention(store.Forever), inbox.LeaseTTL(store.Forever)},
			"inbox: option LeaseTTL: a lease can't be forever, or a crash would block the event for good"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := inbox.New(st, c.opts...)
			require.EqualError(t, err, c.want)
			_, err = inbox.NewTransactional(newEngine(st), c.opts...)
			require.EqualError(t, err, c.want)
		})
	}
	_, err := inbox.New(st, inbox.Retention(time.Millisecond), inbox.LetterRetention(time.Millisecond),
		inbox.LeaseTTL(time.Millisecond), inbox.MaxAttempts(1), inbox.HandlerTimeout(1), inbox.StoreTimeout(1))
	require.NoError(t, err, "each value is the smallest that is allowed")
	_, err = inbox.New(nil)
	require.EqualError(t, err, "inbox: the store is nil")
	_, err = inbox.New((*memstore.Store)(nil))
	require.EqualError(t, err, "inbox: the store is nil")
	_, err = inbox.NewTransactional[rows](nil)
	require.EqualError(t, err, "inbox: the store is nil")
	_, err = inbox.New(st, inbox.Observe((*nilObserver)(nil)))
	require.EqualError(t, err, "inbox: option Observe: the observer is a nil pointer")
	_, err = inbox.Accept((*memoutbox.Queue)(nil), newInbox(t, st).Receiver(returns(nil)))
	require.EqualError(t, err, "inbox: the queue is nil")
}

type nilObserver struct{ inbox.Observer }

func TestTheDefaultBackoffDoublesUpToTenMinutes(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.MaxAttempts(100))
		waits := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
		for _, seconds := range append(waits, slices.Repeat([]int{600}, 60)...) {
			want := time.Unix(int64(seconds), 0).Sub(time.Unix(0, 0))
			_, err := in.Receive(t.Context(), event, returns(errHandler))
			require.Equal(t, want, refused(t, err, inbox.HandlerFailed).RetryAfter)
			time.Sleep(want)
		}
	})
}

func TestABackoffThatIsNoLeaseIsMadeOne(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{-second: 0, store.Forever: time.Hour} {
		bubble(t, func(t *testing.T, st *memstore.Store) {
			in := newInbox(t, st, inbox.Retention(time.Hour), inbox.Backoff(func(int) time.Duration { return asked }))
			_, err := in.Receive(t.Context(), event, returns(errHandler))
			require.Equal(t, want, refused(t, err, inbox.HandlerFailed).RetryAfter)
			rec, err := st.Find(t.Context(), eventRecord)
			require.NoError(t, err)
			require.Equal(t, want, rec.LeaseLeft())
		})
	}
}

func TestAFingerprintFunctionSelectsThePartsOfAPayload(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.Fingerprint(func(ev inbox.Event) (store.Fingerprint, error) {
			if len(ev.Payload) == 0 {
				return store.Fingerprint{}, errors.New("no payload")
			}
			return store.Fingerprint{200, ev.Payload[0]}, nil
		}))
		h := &scripted{}
		for i, payload := range []string{"1 first", "1 second"} {
			ev := event
			ev.Payload = []byte(payload)
			r, err := in.Receive(t.Context(), ev, h.handle)
			require.NoError(t, err)
			require.Equal(t, []inbox.Status{inbox.Processed, inbox.Replayed}[i], r.Status)
			require.Equal(t, store.Fingerprint{200, '1'}, r.PayloadHash)
		}
		ev := event
		ev.Payload = nil
		_, err := in.Receive(t.Context(), ev, h.handle)
		refused(t, err, taxonomy.BadRequest)
		require.EqualError(t, err, `inbox: event "payments"/"ev_001": VALIDATION.bad_request: no payload`)
	})
}

func TestAHandlersContextEndsAfterItsTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.HandlerTimeout(2*second))
		start := time.Now()
		_, err := in.Receive(t.Context(), event, func(ctx context.Context, _ inbox.Event) error {
			<-ctx.Done()
			return ctx.Err()
		})
		refused(t, err, inbox.HandlerFailed)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*second, time.Since(start))
	})
}

func TestAStatusHasAName(t *testing.T) {
	require.Equal(t, "processed", inbox.Processed.String())
	require.Equal(t, "replayed", inbox.Replayed.String())
	require.Equal(t, "dead-lettered", inbox.DeadLettered.String())
	require.Equal(t, "no status", inbox.Status(0).String())
	require.Equal(t, "Status(5)", inbox.Status(5).String())
}

// A producer's operator redrives a dead letter within two days. Its schedule starts anew then.
func TestTheDefaultRetentionCoversARedrive(t *testing.T) {
	var schedule time.Duration
	for _, wait := range outbox.Schedule() {
		schedule += wait * 12 / 10 // with its jitter
	}
	require.Greater(t, inbox.DefaultRetention, 2*schedule+48*time.Hour)
}

package inbox_test

import (
	"context"
	"errors"
	"iter"
	"sync"
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
	errHandler = errors.New("the ledger is closed")
	event      = inbox.Event{Source: "payments", ID: "ev_001", Payload: []byte(`{"amount":1000}`)}
)

// bubble runs f in virtual time, over a new store.
func bubble(t *testing.T, f func(t *testing.T, st *memstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		f(t, st)
	})
}

func newInbox(t *testing.T, st inbox.Store, opts ...inbox.Option) *inbox.Inbox {
	t.Helper()
	in, err := inbox.New(st, opts...)
	require.NoError(t, err)
	return in
}

// scripted is a handler that returns one error after the other, and nil once they are spent.
type scripted struct {
	mu     sync.Mutex
	errs   []error
	events []inbox.Event
}

func (s *scripted) handle(_ context.Context, ev inbox.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, ev)
	if n := len(s.events); n <= len(s.errs) {
		return s.errs[n-1]
	}
	return nil
}

func refused(t *testing.T, err error, code taxonomy.Code) *inbox.Error {
	t.Helper()
	require.ErrorIs(t, err, code)
	e, ok := errors.AsType[*inbox.Error](err)
	require.True(t, ok)
	require.Equal(t, code, e.Code)
	return e
}

func letters(t *testing.T, in interface {
	DeadLetters(context.Context, string) iter.Seq2[inbox.FailedEvent, error]
}, source string,
) []inbox.FailedEvent {
	t.Helper()
	var list []inbox.FailedEvent
	for l, err := range in.DeadLetters(t.Context(), source) {
		require.NoError(t, err)
		list = append(list, l)
	}
	return list
}

// waiting returns the events that have failed and are no dead letters.
func waiting(t *testing.T, in interface {
	Waiting(context.Context, string) iter.Seq2[inbox.FailedEvent, error]
}, source string,
) []inbox.FailedEvent {
	t.Helper()
	var list []inbox.FailedEvent
	for l, err := range in.Waiting(t.Context(), source) {
		require.NoError(t, err)
		list = append(list, l)
	}
	return list
}

var eventRecord = store.ID{Scope: "inbox/payments", Key: "ev_001"}

const second = time.Second

// unused is the handler of a delivery that must not run one.
func unused(context.Context, inbox.Event) error { panic("the handler ran") }

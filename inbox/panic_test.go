package inbox_test

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store/memstore"
)

// brokenHandler is a name that a stack shows.
func brokenHandler(what any) { panic(what) }

// A dead letter keeps the last error, and an operator needs the value of a panic as much as the text of an error. The
// panic goes on as it was, with the stack of the handler.
func TestADeadLetterShowsWhatTheHandlerPanickedWith(t *testing.T) {
	for name, c := range map[string]struct {
		value   any
		failure string
	}{
		"a text":               {"boom", "the handler panicked: boom"},
		"an error":             {http.ErrAbortHandler, "the handler panicked: net/http: abort Handler"},
		"the end of goroutine": {nil, "the handler ended its goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st *memstore.Store) {
				in := newInbox(t, st)
				tx, err := inbox.NewTransactional(newEngine(st))
				require.NoError(t, err)
				breaks := func() error {
					if c.value == nil {
						runtime.Goexit()
					}
					brokenHandler(c.value)
					return nil
				}
				for source, receive := range map[string]func(inbox.Event){
					"plain": func(ev inbox.Event) {
						_, _ = in.Receive(t.Context(), ev, func(context.Context, inbox.Event) error { return breaks() })
					},
					"transactional": func(ev inbox.Event) {
						_, _ = tx.Receive(t.Context(), ev,
							func(context.Context, rows, inbox.Event) error { return breaks() })
					},
				} {
					var got any
					var stack string
					gone := make(chan struct{})
					go func() {
						defer close(gone)
						defer func() { got, stack = recover(), string(debug.Stack()) }()
						receive(inbox.Event{Source: source, ID: "e"})
					}()
					<-gone
					require.Equal(t, c.value, got)
					if c.value != nil {
						require.Contains(t, stack, "inbox_test.brokenHandler")
					}
					for w, err := range in.Waiting(t.Context(), source) {
						require.NoError(t, err)
						require.Equal(t, c.failure, w.Failure, source)
						got = w
					}
					require.NotEqual(t, c.value, got, "it waits")
				}
			})
		})
	}
}

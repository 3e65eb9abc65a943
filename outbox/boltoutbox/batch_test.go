package boltoutbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// newBatches returns a queue, and a function that waits until a rule holds for its changes.
func newBatches(t *testing.T) (q *Queue, until func(what string, holds func(b *batch) bool)) {
	t.Helper()
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	q, err = New(t.Context(), st)
	require.NoError(t, err)
	return q, func(what string, holds func(b *batch) bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			q.ops.mu.Lock()
			defer q.ops.mu.Unlock()
			return holds(&q.ops)
		}, time.Minute, time.Millisecond, what)
	}
}

// Another transaction holds the file. One change is in the commit that waits for it, and one in the next commit.
func TestChangeThatIsCanceledWhileItWaitsIsNotMade(t *testing.T) {
	q, until := newBatches(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun, waiting := make(chan error, 1), make(chan error, 1)
	require.NoError(t, q.st.Update(t.Context(), func(*boltstore.Tx) error {
		go func() { begun <- q.Append(ctx, outbox.Event{ID: "begun"}) }()
		until("the first commit begins", func(b *batch) bool { return b.running && len(b.waiting) == 0 })
		go func() { waiting <- q.Append(ctx, outbox.Event{ID: "waiting"}) }()
		until("the second change waits", func(b *batch) bool { return len(b.waiting) == 1 })
		cancel()
		err := <-waiting
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, store.ErrUnknown)
		require.ErrorIs(t, <-begun, store.ErrUnknown)
		return nil
	}))
	until("all is committed", func(b *batch) bool { return !b.running })
	var ids []string
	for e, err := range q.Events(t.Context(), outbox.Selection{}) {
		require.NoError(t, err)
		ids = append(ids, e.Event.ID)
	}
	require.Equal(t, []string{"begun"}, ids)
}

// Changes that one commit contains have their own results.
func TestAChangeOfAMissingLetterFailsNoOther(t *testing.T) {
	q, until := newBatches(t)
	results := map[string]chan error{}
	begin := func(name string, change func() error) {
		done := make(chan error, 1)
		results[name] = done
		go func() { done <- change() }()
	}
	require.NoError(t, q.st.Update(t.Context(), func(*boltstore.Tx) error {
		begin("first", func() error { return q.Append(t.Context(), outbox.Event{ID: "first"}) })
		until("the first commit begins", func(b *batch) bool { return b.running && len(b.waiting) == 0 })
		begin("redrive", func() error { return q.Redrive(t.Context(), "missing", "") })
		until("the second commit has one change", func(b *batch) bool { return len(b.waiting) == 1 })
		begin("drop", func() error { return q.Drop(t.Context(), "first", "") })
		until("the second commit has two changes", func(b *batch) bool { return len(b.waiting) == 2 })
		begin("last", func() error { return q.Append(t.Context(), outbox.Event{ID: "last"}) })
		until("the second commit has three changes", func(b *batch) bool { return len(b.waiting) == 3 })
		return nil
	}))
	require.NoError(t, <-results["first"])
	require.ErrorIs(t, <-results["redrive"], outbox.ErrNoLetter)
	require.ErrorIs(t, <-results["drop"], outbox.ErrNoLetter, "it waits")
	require.NoError(t, <-results["last"])
}

// A caller makes a change again that was certainly not made.
func TestOnlyAnErrorOfUnknownOutcomeIsNotUnavailable(t *testing.T) {
	unknown, unavailable := fmt.Errorf("sync: %w", store.ErrUnknown), fmt.Errorf("closed: %w", store.ErrUnavailable)
	require.Equal(t, unknown, explain(unknown))
	require.Equal(t, unavailable, explain(unavailable))
	disk := errors.New("disk")
	require.ErrorIs(t, explain(disk), disk)
	require.ErrorIs(t, explain(disk), store.ErrUnavailable)
	require.NotErrorIs(t, explain(disk), ErrCorrupt)
	require.ErrorIs(t, explain(errNoBucket), store.ErrUnavailable)
	require.ErrorIs(t, explain(errNoBucket), ErrCorrupt)
}

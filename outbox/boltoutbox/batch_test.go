package boltoutbox

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// Another transaction holds the file. One change is in the commit that waits for it, and one in the next commit.
func TestChangeThatIsCanceledWhileItWaitsIsNotMade(t *testing.T) {
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	q, err := New(t.Context(), st)
	require.NoError(t, err)
	until := func(what string, holds func(b *batch) bool) {
		require.Eventually(t, func() bool {
			q.ops.mu.Lock()
			defer q.ops.mu.Unlock()
			return holds(&q.ops)
		}, time.Minute, time.Millisecond, what)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun, waiting := make(chan error, 1), make(chan error, 1)
	require.NoError(t, st.Update(t.Context(), func(*boltstore.Tx) error {
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

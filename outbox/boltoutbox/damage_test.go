package boltoutbox_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// useAll calls each method, and requires that an error is one of the store's.
func useAll(t *testing.T, st *boltstore.Store, q *boltoutbox.Queue) (errs []error) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
			errs = append(errs, err)
		}
	}
	_, err := q.Stats(ctx)
	check(err)
	for _, err := range q.Events(ctx, outbox.Selection{}) {
		check(err)
	}
	ds, err := q.Claim(ctx, outbox.Claim{Max: 100, Lease: time.Minute})
	check(err)
	var ended []outbox.Settlement
	for i, d := range ds {
		o := outbox.Outcome{Result: []outbox.Result{outbox.Sent, outbox.Waiting, outbox.Dead}[i%3]}
		ended = append(ended, outbox.Settlement{Lease: d.Lease, Outcome: o})
	}
	_, err = q.Settle(ctx, ended...)
	check(err)
	check(q.Append(ctx, outbox.Event{ID: "appended"}))
	check(st.Update(ctx, func(tx *boltstore.Tx) error {
		_, err := q.Enqueue(ctx, tx, outbox.Event{ID: "enqueued"})
		return err
	}))
	_, err = q.Purge(ctx, 0, 10)
	check(err)
	return errs
}

// bbolt trusts the pages of a file that Open has not checked, and panics. A panic in the goroutine that commits would
// end the process.
func TestDamagedPageIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox.redo")
	st, err := boltstore.Open(path)
	require.NoError(t, err)
	q, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, q.Append(t.Context(), many(200, "d", "a")...))
	require.NoError(t, q.Append(t.Context(), many(200, "d", "")...))
	require.NoError(t, st.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := 0
	for page := 2; page < len(content)/os.Getpagesize(); page++ {
		for _, at := range []int{0, 8, 16 + 4} { // number, flags, first element's position
			damaged := append([]byte(nil), content...)
			damaged[page*os.Getpagesize()+at] ^= 0xff
			path := filepath.Join(t.TempDir(), "damaged.redo")
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			st, err := boltstore.Open(path, boltstore.WithPageCheck(0))
			if err != nil {
				continue
			}
			q, err := boltoutbox.New(t.Context(), st)
			if err != nil {
				require.ErrorIs(t, err, store.ErrUnavailable)
				refused++
			} else if len(useAll(t, st, q)) > 0 {
				refused++
			}
			_ = st.Close()
			require.NoError(t, os.Remove(path))
		}
	}
	require.Greater(t, refused, 10)
}

func TestFileCutShortWhileOpenIsAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there an open file can't be cut short")
	}
	path := filepath.Join(t.TempDir(), "outbox.redo")
	st := open(t, path)
	q, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, q.Append(t.Context(), many(200, "d", "a")...))
	require.NoError(t, os.Truncate(path, int64(2*os.Getpagesize())))
	require.NotEmpty(t, useAll(t, st, q))
}

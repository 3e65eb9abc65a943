package boltoutbox_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

func newQueue(t testing.TB) *boltoutbox.Queue {
	t.Helper()
	q, err := boltoutbox.New(t.Context(), open(t, filepath.Join(t.TempDir(), "outbox.redo")))
	require.NoError(t, err)
	return q
}

// many returns n events for the destination.
func many(n int, destination, key string) []outbox.Event {
	events := make([]outbox.Event, n)
	for i := range events {
		events[i] = outbox.Event{ID: fmt.Sprintf("%s%d", key, i), Destination: destination, OrderingKey: key}
	}
	return events
}

// claim returns the deliveries and their ids.
func claim(t testing.TB, q *boltoutbox.Queue, c outbox.Claim) ([]outbox.Delivery, []string) {
	t.Helper()
	if c.Lease == 0 {
		c.Lease = time.Hour
	}
	ds, err := q.Claim(t.Context(), c)
	require.NoError(t, err)
	var ids []string
	for _, d := range ds {
		ids = append(ids, d.Event.ID)
	}
	return ds, ids
}

func settle(t testing.TB, q *boltoutbox.Queue, o outbox.Outcome, ds ...outbox.Delivery) {
	t.Helper()
	var ended []outbox.Settlement
	for _, d := range ds {
		ended = append(ended, outbox.Settlement{Lease: d.Lease, Outcome: o})
	}
	lost, err := q.Settle(t.Context(), ended...)
	require.NoError(t, err)
	require.Empty(t, lost)
}

func TestABucketsNameIsNeitherEmptyNorTheStoresOwn(t *testing.T) {
	st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
	for _, name := range []string{"", "redo", strings.Repeat("n", 32769)} {
		_, err := boltoutbox.New(t.Context(), st, boltoutbox.WithBucket(name))
		require.ErrorIs(t, err, store.ErrInvalid)
	}
	for _, name := range []string{"redo-", "events", strings.Repeat("n", 32768)} {
		_, err := boltoutbox.New(t.Context(), st, boltoutbox.WithBucket(name))
		require.NoError(t, err)
	}
}

// A relay that is woken for nothing asks the file once more.
func TestOnlyAChangeThatMakesAnEventDueWakesARelay(t *testing.T) {
	q := newQueue(t)
	ctx, stop := context.WithCancel(t.Context())
	woken, ended := make(chan struct{}, 100), make(chan error)
	go func() { ended <- q.Watch(ctx, func() { woken <- struct{}{} }) }()
	<-woken // it watches
	require.NoError(t, q.Append(t.Context(), many(2, "d", "line")...))
	require.Len(t, woken, 1)
	ds, _ := claim(t, q, outbox.Claim{Max: 1})
	_, err := q.Extend(t.Context(), time.Hour, ds[0].Lease)
	require.NoError(t, err)
	settle(t, q, outbox.Outcome{Result: outbox.Waiting, Wait: time.Hour}, ds...)
	require.NoError(t, q.Disable(t.Context(), "d", outbox.Failure{Code: "GONE", Reason: "gone"}))
	require.Len(t, woken, 1, "no event has become due")
	require.NoError(t, q.Enable(t.Context(), "d"))
	require.Len(t, woken, 2)
	stop()
	require.NoError(t, <-ended)
}

func TestClaimTakesOneOfEachLineBeforeTheSecondOfAny(t *testing.T) {
	q := newQueue(t)
	require.NoError(t, q.Append(t.Context(), many(4, "d", "a")...))
	require.NoError(t, q.Append(t.Context(), many(2, "d", "b")...))
	require.NoError(t, q.Append(t.Context(), outbox.Event{ID: "free", Destination: "d"}))
	_, ids := claim(t, q, outbox.Claim{Max: 6})
	require.Equal(t, []string{"a0", "b0", "free", "a1", "b1", "a2"}, ids)
	_, ids = claim(t, q, outbox.Claim{Max: 6})
	require.Empty(t, ids, "a3 waits for those before it")
}

// The claim has room for one event. That of the first destination is older.
func TestADestinationWithoutRoomTakesNoPlaceOfAClaim(t *testing.T) {
	for _, key := range []string{"", "line"} {
		q := newQueue(t)
		require.NoError(t, q.Append(t.Context(), many(2, "full", key)...))
		require.NoError(t, q.Append(t.Context(), outbox.Event{ID: "free", Destination: "free", OrderingKey: key}))
		_, ids := claim(t, q, outbox.Claim{Max: 1, Room: map[string]int{"full": 0}})
		require.Equal(t, []string{"free"}, ids)
		_, ids = claim(t, q, outbox.Claim{Max: 1})
		require.Equal(t, []string{key + "0"}, ids)
	}
}

func TestLineIsDueWhenAllItsLeasesHaveEnded(t *testing.T) {
	q := newQueue(t)
	require.NoError(t, q.Append(t.Context(), many(3, "d", "a")...))
	ds, _ := claim(t, q, outbox.Claim{Max: 2})
	settle(t, q, outbox.Outcome{Result: outbox.Waiting}, ds[0])
	_, ids := claim(t, q, outbox.Claim{Max: 9})
	require.Empty(t, ids, "a1 is under way")
	settle(t, q, outbox.Outcome{Result: outbox.Released}, ds[1])
	_, ids = claim(t, q, outbox.Claim{Max: 9})
	require.Equal(t, []string{"a0", "a1", "a2"}, ids)
}

func TestFormatOfAnotherVersionIsRefused(t *testing.T) {
	for name, format := range map[string]string{
		"the first version": "redo boltoutbox \x01", "another application's": "",
	} {
		t.Run(name, func(t *testing.T) {
			st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
			require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
				b, err := tx.CreateBucket([]byte("redo-outbox"))
				if err != nil || format == "" {
					return err
				}
				return b.Put([]byte("format"), []byte(format))
			}))
			_, err := boltoutbox.New(t.Context(), st)
			require.ErrorIs(t, err, boltoutbox.ErrFormat)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, fmt.Sprintf("%q", format))
			_, err = boltoutbox.New(t.Context(), st, boltoutbox.WithBucket("events"))
			require.NoError(t, err, "another bucket of the file")
		})
	}
}

func TestRefusedBatchChangesNothing(t *testing.T) {
	st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
	q, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, q.Append(t.Context(), outbox.Event{ID: "taken"}))
	require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
		for _, events := range [][]outbox.Event{
			{{ID: "x"}, {ID: "taken"}}, {{ID: "x"}, {ID: "x"}}, {{ID: "x"}, {ID: "a b"}},
		} {
			_, err := q.EnqueueBatch(t.Context(), tx, events)
			require.Error(t, err)
		}
		ids, err := q.EnqueueBatch(t.Context(), tx, []outbox.Event{{ID: "x"}, {ID: "x", Destination: "other"}, {}})
		require.NoError(t, err)
		require.Equal(t, []string{"x", "x"}, ids[:2])
		require.Len(t, ids[2], 36)
		return nil
	}))
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, stats.Waiting)
	require.ErrorIs(t, q.Append(t.Context(), outbox.Event{ID: "y"}, outbox.Event{ID: "x"}), outbox.ErrDuplicate)
	require.ErrorContains(t, q.Append(t.Context(), outbox.Event{ID: "y"}, outbox.Event{ID: "x"}), `"x"`)
	require.NoError(t, q.Append(t.Context(), outbox.Event{ID: "y"}))
}

// One transaction reads at most 1,000 events of the list.
func TestEachEventOfALongListIsListedOnce(t *testing.T) {
	q, events := newQueue(t), many(2100, "", "k")
	require.NoError(t, q.Append(t.Context(), events...))
	var listed []string
	for e, err := range q.Events(t.Context(), outbox.Selection{}) {
		require.NoError(t, err)
		listed = append(listed, e.Event.ID)
	}
	require.Equal(t, len(events), len(listed)) //nolint:testifylint // Len would print the list
	for i, ev := range events {
		require.Equal(t, ev.ID, listed[i])
	}
}

package console_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/console"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// A long store lists 100,000 records and counts those that are read. They are unreadable, so that they need no content.
type long struct {
	*memstore.Store
	read int
}

func (l *long) Pending(context.Context, string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for i := range 100_000 {
			l.read++
			if !yield(store.Record{ID: store.ID{Scope: "redo", Key: fmt.Sprint("op-", i)}}, store.ErrDamaged) {
				return
			}
		}
	}
}

// A longQueue lists 100,000 dead letters, and counts those that are read.
type longQueue struct {
	console.Queue
	read int
}

func (l *longQueue) Events(context.Context, outbox.Selection) iter.Seq2[outbox.Entry, error] {
	return func(yield func(outbox.Entry, error) bool) {
		for i := range 100_000 {
			l.read++
			if !yield(outbox.Entry{State: outbox.StateDead, Event: outbox.Event{ID: fmt.Sprint("ev-", i)}}, nil) {
				return
			}
		}
	}
}

func (*longQueue) Stats(context.Context) (outbox.Stats, error) {
	return outbox.Stats{Dead: 100_000}, nil
}
func (*longQueue) Disabled(context.Context) ([]outbox.DisabledDestination, error) {
	return nil, nil
}

func TestPageOfALongListReadsLittle(t *testing.T) {
	st, queue := &long{Store: memstore.New()}, &longQueue{}
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	client, err := redo.New(redo.WithStore(st))
	require.NoError(t, err)
	c, err := console.New(console.Operations(client), console.Events("outbox", queue))
	require.NoError(t, err)
	r := &rig{T: t, console: c}
	for page, most := range map[string]int{
		"./": 5001, "operations": 101, "operations?from=100": 201, "operations?show=unknown": 5001,
		"events?queue=outbox": 101, "events?queue=outbox&from=300": 401, "events?queue=outbox&to=none": 5001,
		"selection?queue=outbox": 5001, "find?q=none": 105_001, // the events are found by the queue's index
	} {
		st.read, queue.read = 0, 0
		w := r.do(http.MethodGet, page, nil)
		require.Equal(t, http.StatusOK, w.Code, page)
		require.LessOrEqual(t, max(st.read, queue.read), most, page)
		require.LessOrEqual(t, strings.Count(w.Body.String(), "<tr"), 102, page)
	}
}

func TestPagesOfAListShowEachRowOnce(t *testing.T) {
	queue := &longQueue{}
	c, err := console.New(console.Events("outbox", queue))
	require.NoError(t, err)
	r := &rig{T: t, console: c}
	page, seen := "events?queue=outbox", 0
	for range 3 {
		text := r.get(page)
		for i := range 100 {
			require.Contains(t, text, fmt.Sprintf(">ev-%d</a>", seen+i))
		}
		seen += 100
		require.NotContains(t, text, fmt.Sprintf(">ev-%d</a>", seen))
		page = r.link(page, "from=")
	}
	require.Contains(t, r.get("events?queue=outbox&from=99950"), ">ev-99999</a>")
	require.NotContains(t, r.get("events?queue=outbox&from=99950"), `rel="next"`)
	require.Contains(t, r.get("events?queue=outbox&from=-5"), ">ev-0</a>")
	require.Contains(t, r.get("events?queue=outbox&from=200000"), "No event")
	require.Contains(t, r.get("events?queue=outbox&to=none"), "in these 5000 records")
}

package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// Limits of the records that a request reads.
const (
	pageSize = 100                    // rows of a page
	maxScan  = 5000                   // records that a page examines
	budget   = 100 * time.Millisecond // for the letters on a page that shows other things too
)

// A window is a part of a list.
type window[T any] struct {
	Rows     []T
	From     int // the position of the first row that was examined
	Next     int // where the next window begins, zero if there is none
	Examined int
	Err      string // why the list ended early
}

// read reads the window that begins at a position. It examines at most maxScan rows after the position. convert returns
// a row. It reports whether to keep the row, and whether the error has ended the list.
func read[E, T any](seq iter.Seq2[E, error], from int, convert func(E, error) (row T, keep, ended bool)) window[T] {
	w := window[T]{From: from}
	at := 0
	for e, err := range seq {
		if at++; at <= from {
			continue
		}
		if len(w.Rows) == pageSize || w.Examined == maxScan {
			w.Next = at - 1
			break
		}
		row, keep, ended := convert(e, err)
		if ended {
			w.Err = err.Error()
			break
		}
		if w.Examined++; keep {
			w.Rows = append(w.Rows, row)
		}
	}
	return w
}

// from returns the position in the request's parameter "from".
func from(r *http.Request) int {
	n, err := strconv.Atoi(r.FormValue("from"))
	if err != nil {
		return 0
	}
	return min(max(0, n), 1e9)
}

// An operationRow is an operation on a page.
type operationRow struct {
	redo.Operation
	URL     string // without its query
	Link    string
	Unknown bool // pending, and never sent again: a person must find out its effect
	Problem string
}

func rowOf(op redo.Operation, err error) operationRow {
	row := operationRow{
		Operation: op, URL: wire.ShownURL(op.URL), Link: link("operation", "name", op.Name),
		Unknown: op.State == store.StatePending && op.Code != "",
	}
	if err != nil {
		row.Problem = err.Error()
	}
	return row
}

// settleHint is the advice for an operation that only a person can end.
const settleHint = "read the resource back, then settle the operation"

// Hint returns the advice for the operation.
func (o operationRow) Hint() string {
	switch {
	case o.Unknown && o.Code.Transient(): // the hint of the code is for a client, which may still retry
		return settleHint
	case o.Code != "":
		return o.Code.Hint()
	case o.State != store.StatePending:
		return ""
	case o.Resumable:
		return "it may be resumed here"
	}
	return "run the same code again: the request is not stored"
}

// An eventRow is an event on a page.
type eventRow struct {
	outbox.Entry
	Queue       string
	Destination string // without its query
	To          string // names the destination in a link
	Link        string
	Age         time.Duration
	Problem     string
}

func eventRowOf(queue string, e outbox.Entry, err error) eventRow {
	to := destinationID(e.Event.Destination)
	row := eventRow{
		Entry: e, Queue: queue, Destination: wire.ShownURL(e.Event.Destination), To: to,
		Link: link("event", "queue", queue, "id", e.Event.ID, "to", to),
	}
	if !e.EnqueuedAt.IsZero() {
		row.Age = time.Since(e.EnqueuedAt)
	}
	if err != nil {
		row.Problem = err.Error()
	}
	return row
}

// Dead reports whether the event is a dead letter.
func (e eventRow) Dead() bool { return e.State == outbox.StateDead }

// StateName returns the state in a word.
func (e eventRow) StateName() string {
	switch e.State {
	case outbox.StateDead:
		return "dead"
	case outbox.StateWaiting:
		return "waiting"
	}
	return "unreadable"
}

// endsEvents reports whether the error is that of a whole list.
func endsEvents(e outbox.Entry, err error) bool {
	return err != nil && e.State == 0 && e.Event.ID == ""
}

// destinationID names a destination in a link. The destination itself may be a secret.
func destinationID(destination string) string {
	sum := sha256.Sum256([]byte(destination))
	return hex.EncodeToString(sum[:12])
}

// link returns the relative address of a page with its parameters, given in pairs.
func link(page string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return page
	}
	return page + "?" + v.Encode()
}

// unit returns a duration in a unit and its rest in a smaller one.
func unit(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d%s", d/large, largeName)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d%s", rest, smallName)
	}
	return text
}

// within returns a context for reading the letters beside other things.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, budget)
}

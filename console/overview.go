package console

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// An overviewPage shows how much has stopped, and why.
type overviewPage struct {
	Operations *operationCounts
	Queues     []queueCounts
	Letters    *letterCounts
	Decisions  []operationRow // unknown operations, oldest first
	Causes     []cause
}

// shownDecisions is the number of unknown operations in the overview.
const shownDecisions = 10

type operationCounts struct {
	Pending, Unknown, Unreadable int
	More                         bool // there are more than were counted
	Oldest                       time.Duration
	Err                          string
}

type queueCounts struct {
	Name string
	outbox.Stats
	Disabled []disabledRow
	Err      string
}

type disabledRow struct {
	Queue, Destination, To, Link string
	Since                        time.Time
	Code                         taxonomy.Code
	Reason                       string
	Status                       int
}

type letterCounts struct {
	Waiting, Dead, Unknown int
	More                   bool
	Err                    string
}

// A cause is a code with the number of operations, events and letters that it has stopped.
type cause struct {
	Code  taxonomy.Code
	Count int
	Hint  string
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	var p overviewPage
	causes := map[cause]int{}
	if c.client != nil {
		p.Operations = c.countOperations(r.Context(), &p, causes)
	}
	for _, q := range c.queues {
		p.Queues = append(p.Queues, countQueue(r.Context(), q, causes))
	}
	if c.inbox != nil {
		p.Letters = c.countLetters(r.Context())
	}
	for _, why := range slices.SortedFunc(maps.Keys(causes), func(a, b cause) int {
		return cmp.Or(cmp.Compare(causes[b], causes[a]), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Hint, b.Hint))
	}) {
		why.Count = causes[why]
		p.Causes = append(p.Causes, why)
	}
	c.show(w, r, http.StatusOK, "overview", "Overview", "overview", p)
}

// countOperations counts the first operations. The oldest comes first.
func (c *Console) countOperations(ctx context.Context, p *overviewPage, causes map[cause]int) *operationCounts {
	n := &operationCounts{}
	for op, err := range c.client.Pending(ctx) {
		if err != nil && op.Name == "" {
			n.Err = err.Error()
			break
		}
		if n.Pending == maxScan {
			n.More = true
			break
		}
		n.Pending++
		n.Oldest = max(n.Oldest, op.Age)
		row := rowOf(op, err)
		switch {
		case err != nil:
			n.Unreadable++
		case row.Unknown:
			n.Unknown++
			causes[cause{Code: op.Code, Hint: row.Hint()}]++
			if len(p.Decisions) < shownDecisions {
				p.Decisions = append(p.Decisions, row)
			}
		}
	}
	return n
}

// countQueue counts the events of a queue, and the causes of its first dead letters.
func countQueue(ctx context.Context, q namedQueue, causes map[cause]int) queueCounts {
	n := queueCounts{Name: q.name}
	fail := func(err error) queueCounts {
		n.Err = err.Error()
		return n
	}
	var err error
	if n.Stats, err = q.Stats(ctx); err != nil {
		return fail(err)
	}
	disabled, err := q.Disabled(ctx)
	if err != nil {
		return fail(err)
	}
	for _, d := range disabled {
		to := destinationID(d.Destination)
		n.Disabled = append(n.Disabled, disabledRow{
			Queue: q.name, Destination: wire.ShownURL(d.Destination), To: to, Since: d.Since,
			Code: d.Why.Code, Reason: d.Why.Reason, Status: d.Why.Status,
			Link: link("events", "queue", q.name, "to", to),
		})
	}
	examined := 0
	for e, err := range q.Events(ctx, outbox.Selection{State: outbox.StateDead}) {
		if endsEvents(e, err) {
			return fail(err)
		}
		if examined == pageSize {
			break
		}
		examined++
		if code := e.Failure().Code; code != "" {
			causes[cause{Code: code, Hint: code.Hint()}]++
		}
	}
	return n
}

// countLetters counts the letters for a short time. The inbox may share its store with many operations.
func (c *Console) countLetters(ctx context.Context) *letterCounts {
	ctx, cancel := within(ctx)
	defer cancel()
	n := &letterCounts{}
	for f, err := range c.inbox.DeadLetters(ctx, "") {
		if !n.count(ctx, f, err, n.Dead) {
			break
		}
		n.Dead++
		if f.Unknown {
			n.Unknown++
		}
	}
	for f, err := range c.inbox.Waiting(ctx, "") {
		if !n.count(ctx, f, err, n.Waiting) {
			break
		}
		n.Waiting++
	}
	return n
}

// count reports whether a letter is counted. Otherwise the count ends.
func (n *letterCounts) count(ctx context.Context, f inbox.FailedEvent, err error, counted int) bool {
	switch {
	case ctx.Err() != nil || counted == maxScan:
		n.More = true
		return false
	case err != nil && f.ID == "":
		n.Err = err.Error()
		return false
	}
	return true
}

package console

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// A findPage shows where an id occurs: a name, an Idempotency-Key or the id of an event.
type findPage struct {
	Operations []operationRow
	Records    []recordRow
	Events     []eventRow
	Letters    []letterRow
	Partial    bool // a list was too long to be searched whole
	Problems   []string
}

// A recordRow is a server's record.
type recordRow struct {
	Scope, Key, State string
	CreatedAt         time.Time
	Age, LeaseLeft    time.Duration
}

func (c *Console) find(w http.ResponseWriter, r *http.Request) {
	var p findPage
	if id := strings.TrimSpace(r.FormValue("q")); id != "" {
		c.findOperations(r.Context(), &p, id)
		c.findEvents(r.Context(), &p, id)
		c.findRecords(r.Context(), &p, id)
		c.findLetters(r.Context(), &p, id)
	}
	c.show(w, r, http.StatusOK, "find", "Find", "find", p)
}

// bounded yields the first maxScan elements, and notes in the page if there are more.
func bounded[E any](p *findPage, seq iter.Seq2[E, error]) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		n := 0
		for e, err := range seq {
			if n++; n > maxScan {
				p.Partial = true
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// findOperations finds the operation with a name, or else the pending ones with a key.
func (c *Console) findOperations(ctx context.Context, p *findPage, id string) {
	if c.client == nil {
		return
	}
	switch op, err := c.client.Find(ctx, id); {
	case op.Name != "":
		p.Operations = append(p.Operations, rowOf(op, err))
		return
	case errors.Is(err, store.ErrDamaged): // of this name, since the list has no other
		p.Problems = append(p.Problems, err.Error())
		return
	}
	for op, err := range bounded(p, c.client.Pending(ctx)) {
		switch {
		case err != nil && op.Name == "":
			p.Problems = append(p.Problems, err.Error())
			return
		case op.Key == id:
			p.Operations = append(p.Operations, rowOf(op, err))
		}
	}
}

func (c *Console) findEvents(ctx context.Context, p *findPage, id string) {
	for _, q := range c.queues {
		for e, err := range q.Events(ctx, outbox.Selection{ID: id}) {
			switch {
			case endsEvents(e, err):
				p.Problems = append(p.Problems, err.Error())
			case e.Event.ID == id && len(p.Events) < pageSize:
				p.Events = append(p.Events, eventRowOf(q.name, e, err))
			}
		}
	}
}

func (c *Console) findRecords(ctx context.Context, p *findPage, id string) {
	if c.records == nil {
		return
	}
	for rec, err := range bounded(p, c.records.Pending(ctx, "")) {
		switch {
		case err != nil && rec.ID == (store.ID{}):
			p.Problems = append(p.Problems, err.Error())
			return
		case rec.ID.Key == id:
			row := recordRow{Scope: rec.ID.Scope, Key: rec.ID.Key, State: "can't be read"}
			if err == nil {
				row.State, row.CreatedAt, row.Age, row.LeaseLeft = rec.State.String(), rec.CreatedAt, rec.Age(),
					rec.LeaseLeft()
			}
			p.Records = append(p.Records, row)
		}
	}
}

func (c *Console) findLetters(ctx context.Context, p *findPage, id string) {
	if c.inbox == nil {
		return
	}
	ctx, cancel := within(ctx)
	defer cancel()
	for _, list := range []iter.Seq2[inbox.FailedEvent, error]{c.inbox.DeadLetters(ctx, ""), c.inbox.Waiting(ctx, "")} {
		for f, err := range bounded(p, list) {
			switch {
			case ctx.Err() != nil:
				p.Partial = true
				return
			case err != nil && f.ID == "":
				p.Problems = append(p.Problems, err.Error())
				return
			case f.ID == id:
				p.Letters = append(p.Letters, c.letterRow(f, err))
			}
		}
	}
}

package console

import (
	"fmt"
	"net/http"
	"time"

	"github.com/redo-go/redo/inbox"
)

// A lettersPage lists the letters of the inbox.
type lettersPage struct {
	window[letterRow]
	Waiting  bool // waiting events instead of dead letters
	NextLink string
}

// A letterRow is a letter on a page. Its payload is empty unless bodies are shown.
type letterRow struct {
	Source, ID, Failure  string
	ReceivedAt, FailedAt time.Time
	DueAt                time.Time
	Attempts, Size       int
	Unknown              bool
	Body, Problem        string
	FindLink             string
}

func (c *Console) letterRow(f inbox.FailedEvent, err error) letterRow {
	row := letterRow{
		Source: f.Source, ID: f.ID, Failure: f.Failure, ReceivedAt: f.ReceivedAt, FailedAt: f.FailedAt, DueAt: f.DueAt,
		Attempts: f.Attempts, Size: len(f.Payload), Unknown: f.Unknown, FindLink: link("find", "q", f.ID),
	}
	if c.bodies {
		row.Body = string(f.Payload)
	}
	if err != nil {
		row.Problem = err.Error()
	}
	return row
}

func (c *Console) letters(w http.ResponseWriter, r *http.Request) {
	p := lettersPage{Waiting: r.FormValue("state") == "waiting"}
	list, state, title := c.inbox.DeadLetters, "", "Dead letters of the inbox"
	if p.Waiting {
		list, state, title = c.inbox.Waiting, "waiting", "Waiting events of the inbox"
	}
	p.window = read(list(r.Context(), ""), from(r), func(f inbox.FailedEvent, err error) (letterRow, bool, bool) {
		return c.letterRow(f, err), true, err != nil && f.ID == ""
	})
	if p.Next > 0 {
		p.NextLink = link("letters", "state", state, "from", fmt.Sprint(p.Next))
	}
	c.show(w, r, http.StatusOK, "letters", title, "letters", p)
}

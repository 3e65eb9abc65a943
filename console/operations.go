package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
)

// resumeTimeout bounds a resumption. An operation that has not ended by then stays pending.
const resumeTimeout = time.Minute

// An operationsPage lists operations, oldest first.
type operationsPage struct {
	window[operationRow]
	Unknown           bool // only the unknown ones
	NextLink, AllLink string
}

func (c *Console) operations(w http.ResponseWriter, r *http.Request) {
	p := operationsPage{Unknown: r.FormValue("show") == "unknown"}
	p.window = read(c.client.Pending(r.Context()), from(r),
		func(op redo.Operation, err error) (operationRow, bool, bool) {
			row := rowOf(op, err)
			return row, !p.Unknown || row.Unknown, err != nil && op.Name == ""
		})
	show, title := "", "Pending operations"
	if p.Unknown {
		show, title = "unknown", "Unknown operations"
	}
	if p.Next > 0 {
		p.NextLink = link("operations", "show", show, "from", fmt.Sprint(p.Next))
	}
	p.AllLink = link("operations", "show", show)
	c.show(w, r, http.StatusOK, "operations", title, "operations", p)
}

// An operationPage shows one operation.
type operationPage struct {
	operationRow
	Pending    bool
	Known      string // the state and the effect, as the page shows them
	ForgetLink string
	FindLink   string
}

func (c *Console) operation(w http.ResponseWriter, r *http.Request) {
	p, ok := c.known(w, r)
	if !ok {
		return
	}
	c.show(w, r, http.StatusOK, "operation", p.Name, "operations", p)
}

// known returns the operation that the request names. It shows a failure if there is none.
func (c *Console) known(w http.ResponseWriter, r *http.Request) (operationPage, bool) {
	name := r.FormValue("name")
	op, err := c.client.Find(r.Context(), name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		c.fail(w, r, http.StatusNotFound, failure{Text: "There is no operation with the name " + name + "."})
		return operationPage{}, false
	case err != nil && op.Name == "":
		c.fail(w, r, http.StatusBadGateway, failure{Text: err.Error()})
		return operationPage{}, false
	}
	return operationPage{
		operationRow: rowOf(op, err), Pending: op.State == store.StatePending,
		Known:      fmt.Sprintf("%v now, its effect is %v", op.State, op.Effect),
		ForgetLink: link("forget", "name", name), FindLink: link("find", "q", op.Key),
	}, true
}

// target returns the operation that a form is about. It shows a failure if the form was made for an earlier operation
// of the same name, which had another key.
func (c *Console) target(w http.ResponseWriter, r *http.Request) (operationPage, bool) {
	p, ok := c.known(w, r)
	if ok && r.PostFormValue("key") != p.Key {
		c.fail(w, r, http.StatusConflict, failure{
			Text: "Nothing was changed: another operation has this name now.", Back: p.Link,
		})
		return p, false
	}
	return p, ok
}

func (c *Console) resume(w http.ResponseWriter, r *http.Request) {
	p, ok := c.target(w, r)
	if !ok {
		return
	}
	// The request goes on if the browser disconnects, or the operation would be left unknown again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), resumeTimeout)
	defer cancel()
	resp, err := c.client.Resume(ctx, p.Operation)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // the operation is settled when its body was read
		err = resp.Body.Close()
	}
	c.report(r, Act{Action: "resume", Operation: p.Name, Key: p.Key, Err: err})
	if err != nil {
		f := failure{Text: err.Error(), Back: p.Link}
		var e *redo.Error
		if errors.As(err, &e) {
			f.Code, f.Hint = string(e.Code), e.Code.Hint()
			if e.Code.Transient() && !redo.SafeToRetry(err) { // its final response is recorded
				f.Hint = settleHint
			}
		}
		c.fail(w, r, http.StatusBadGateway, f)
		return
	}
	redirect(w, link("operation", "name", p.Name, "done", "resume"))
}

func (c *Console) settle(w http.ResponseWriter, r *http.Request) {
	p, ok := c.target(w, r)
	if !ok {
		return
	}
	f := redo.Finding{Evidence: strings.TrimSpace(r.PostFormValue("evidence")), By: author(r)}
	switch r.PostFormValue("effect") {
	case "applied":
		f.Effect = redo.Applied
	case "not applied":
		f.Effect = redo.NotApplied
	}
	if f.Effect == redo.EffectUnknown || f.Evidence == "" {
		c.fail(w, r, http.StatusUnprocessableEntity, failure{
			Text: "Nothing was recorded: say whether the operation was applied, and how you found out.", Back: p.Link,
		})
		return
	}
	err := c.client.Settle(r.Context(), p.Name, f)
	c.report(r, Act{
		Action: "settle", Operation: p.Name, Key: p.Key, Effect: f.Effect, Evidence: f.Evidence, Err: err,
	})
	if err != nil {
		c.fail(w, r, http.StatusConflict, failure{Text: err.Error(), Back: p.Link})
		return
	}
	redirect(w, link("operation", "name", p.Name, "done", "settle"))
}

func (c *Console) confirmForget(w http.ResponseWriter, r *http.Request) {
	if p, ok := c.known(w, r); ok {
		c.show(w, r, http.StatusOK, "forget", "Forget "+p.Name, "operations", p)
	}
}

func (c *Console) forget(w http.ResponseWriter, r *http.Request) {
	p, ok := c.target(w, r)
	if !ok {
		return
	}
	if r.PostFormValue("known") != p.Known {
		c.fail(w, r, http.StatusConflict, failure{
			Text: "Nothing was changed: the operation is " + p.Known + ".", Back: p.Link,
		})
		return
	}
	err := c.client.Forget(r.Context(), p.Name)
	c.report(r, Act{Action: "forget", Operation: p.Name, Key: p.Key, Err: err})
	if err != nil {
		c.fail(w, r, http.StatusConflict, failure{Text: err.Error(), Back: p.Link})
		return
	}
	redirect(w, link("operations", "done", "forget"))
}

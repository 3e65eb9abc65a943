package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// request is the client's record of a pending operation's request. It is JSON, made for an operator to read.
type request struct {
	Version int         `json:"v"`
	Key     string      `json:"key"`
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Host    string      `json:"host"`
	Header  http.Header `json:"header"`
	Body    []byte      `json:"body"`
	Whole   bool        `json:"whole"`
}

// requestVersion is the version of request's format.
const requestVersion = 1

func (o *ops) show() *cobra.Command {
	var body bool
	cmd := &cobra.Command{
		Use:   "show [flags] STORE NAME|KEY",
		Short: "Show one operation, by its name, or by its key while it is pending",
		Example: "  redo ops show payments.redo refund:ch_9ab:1000\n  redo ops show payments.redo " +
			"refund:ch_9ab:1000 --body",
		Args: usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			return o.with(c.Context(), args[0], nil, func(st recordStore, client *redo.Client) error {
				op, err := o.find(c.Context(), st, args[1])
				if err != nil {
					return failed(err)
				}
				switch known, err := client.Find(c.Context(), op.Name); {
				case err == nil:
					op.learn(known)
				case op.Problem == "":
					op.Problem = err.Error()
				}
				if o.asJSON {
					return writeJSON(o.out, op)
				}
				writeOperation(o.out, op, body)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "show the request's query and body too")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON, without the body")
	cmd.MarkFlagsMutuallyExclusive("body", "json")
	return cmd
}

// find returns the operation with the name, or the pending operation with the key.
func (o *ops) find(ctx context.Context, st recordStore, nameOrKey string) (listed, error) {
	rec, err := st.Find(ctx, store.ID{Scope: o.scope, Key: nameOrKey})
	if err == nil {
		return operationOf(rec), nil
	}
	switch {
	case errors.Is(err, store.ErrDamaged):
		return listed{}, fmt.Errorf("%w; see redo ops drop --help", err)
	case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrInvalid):
		return listed{}, err
	}
	for rec, err := range st.Pending(ctx, o.scope) {
		switch {
		case err != nil && rec.ID.Key == "":
			return listed{}, err
		case err != nil:
			continue // its key is unreadable
		}
		if op := operationOf(rec); op.Key == nameOrKey {
			return op, nil
		}
	}
	return listed{}, fmt.Errorf("there is no operation %q in the scope %q, and no pending one with that key: %w",
		nameOrKey, o.scope, store.ErrNotFound)
}

// unchanged returns an error if the record of the operation has changed since it was read.
func (o *ops) unchanged(ctx context.Context, st recordStore, op listed) error {
	now, err := o.find(ctx, st, op.Name)
	if err == nil && (now.fence != op.fence || now.State != op.State) {
		err = fmt.Errorf("nothing was changed: since the question %s has become another operation, or was continued: "+
			"it is %s, key %s, begun %v ago", op.Name, now.State, now.Key, seconds(now.Age))
	}
	return err
}

func operationOf(rec store.Record) listed {
	l := listed{
		Name: rec.ID.Key, State: rec.State.String(), CreatedAt: rec.CreatedAt.UTC(), Age: rec.Age().Seconds(),
		fence: rec.Fence,
	}
	var r request
	switch err := json.Unmarshal(rec.Meta, &r); {
	case err != nil:
		l.Problem = "its request can't be read: it may be sealed"
	case r.Version != requestVersion:
		l.Problem = fmt.Sprintf("its request has version %d, this program reads %d", r.Version, requestVersion)
	default:
		l.Key, l.Method, l.URL, l.request = r.Key, r.Method, wire.ShownURL(r.URL), &r
		if l.Header = maskedHeader(r.Header); !strings.Contains(r.URL, "://"+r.Host+"/") {
			l.Host = r.Host
		}
		if size := len(r.Body); r.Whole {
			l.BodySize = &size
		}
	}
	return l
}

// writeOperation writes an operation as text for a person.
func writeOperation(w io.Writer, op listed, body bool) {
	d := detail{w, 10}
	line := d.line
	line("name", op.Name)
	line("key", op.Key)
	line("state", op.State)
	line("begun", fmt.Sprintf("%s, %v ago", op.CreatedAt.Format(time.RFC3339), seconds(op.Age)))
	line("effect", op.Effect)
	final := op.Code
	if op.Status != 0 {
		final = strings.TrimSpace(fmt.Sprintf("%s (status %d)", final, op.Status))
	}
	line("final", final)
	if f := op.Finding; f != nil {
		line("finding", fmt.Sprintf("%s, by %s: %s", f.Effect, f.By, f.Evidence))
	}
	line("problem", op.Problem)
	r := op.request
	if r == nil {
		return
	}
	address := op.URL
	if body {
		address = r.URL
	}
	line("request", strings.TrimSpace(op.Method+" "+address))
	line("host", op.Host)
	d.header(op.Header)
	switch {
	case op.State != store.StatePending.String():
	case op.rests():
		line("resumable", "no: its response is final, see redo ops settle --help")
	case op.Resumable:
		line("resumable", "yes")
	default:
		line("resumable", "no: run the same code again")
	}
	switch {
	case !r.Whole:
	case !body:
		line("body", fmt.Sprintf("%d bytes, shown by --body", len(r.Body)))
	default:
		d.body(r.Body)
	}
}

// masked replaces a secret in the output, also in a URL.
const masked = wire.Masked

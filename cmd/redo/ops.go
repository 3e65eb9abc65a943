package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// ops holds the flags that all commands on operations share.
type ops struct {
	terminal
	place
	scope  string
	asJSON bool
}

// scopeHelp is the help of the flag --scope.
const scopeHelp = "the client's `scope`, as WithScope set it; a gateway's is gateway"

func newOps(t terminal) *cobra.Command {
	o := &ops{terminal: t}
	cmd := &cobra.Command{
		Use:   "ops",
		Short: "Look after the operations that a client has left pending",
		Long: `ops works on the store in which a client keeps its operations.

` + storeHelp + `

A pending operation was begun and has no final response. show prints its effect, as far as it is known.
The client's own code continues it when it runs again, and so does resume. Credentials are never shown.
Bodies are shown with --body only.`,
		Args: usageArgs(subcommands),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.PersistentFlags().StringVar(&o.scope, "scope", "redo", scopeHelp)
	o.place.flags(cmd.PersistentFlags())
	cmd.AddCommand(o.list(), o.show(), o.resume(), o.settle(), purge(o.terminal, "ops", &o.place), o.forget(),
		o.drop(), o.verify())
	return cmd
}

// with opens the store and a client, and runs f.
func (o *ops) with(
	ctx context.Context, name string, opts []redo.Option, f func(recordStore, *redo.Client) error,
) error {
	return o.withStore(ctx, name, func(st recordStore) error {
		client, err := redo.New(append([]redo.Option{redo.WithStore(st), redo.WithScope(o.scope)}, opts...)...)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }() // it returns nil
		return f(st, client)
	})
}

// listed is the JSON form of an operation in the output of list and show. A damaged operation has only its
// name, its state and its problem. An unreadable one has what could be read.
type listed struct {
	Name      string      `json:"name"`
	Key       string      `json:"key,omitempty"`
	State     string      `json:"state"`
	Method    string      `json:"method,omitempty"`
	URL       string      `json:"url,omitempty"`
	Host      string      `json:"host,omitempty"`      // in show, like the two below
	Header    http.Header `json:"header,omitempty"`    // with its credentials masked
	BodySize  *int        `json:"body_size,omitempty"` // nil if the body is not stored
	CreatedAt time.Time   `json:"created_at,omitzero"`
	Age       float64     `json:"age_seconds,omitzero"`
	Resumable bool        `json:"resumable"`
	Effect    string      `json:"effect,omitempty"`
	Code      string      `json:"code,omitempty"`   // the failure that settled it, or of its final response
	Status    int         `json:"status,omitempty"` // of the recorded response
	Finding   *finding    `json:"finding,omitempty"`
	Problem   string      `json:"problem,omitempty"`
	request   *request
	fence     uint64 // of the record
}

// finding is a result that a person or a probe recorded for an operation.
type finding struct {
	Effect   string `json:"effect"`
	Evidence string `json:"evidence"`
	By       string `json:"by"`
}

// learn copies the operation's outcome, as the client reads it, into l.
func (l *listed) learn(op redo.Operation) {
	l.Resumable, l.Effect, l.Code, l.Status = op.Resumable, op.Effect.String(), string(op.Code), op.StatusCode
	if f := op.Finding; f != nil {
		l.Finding = &finding{Effect: f.Effect.String(), Evidence: f.Evidence, By: f.By}
	}
}

// rests reports whether the operation has a final response that leaves its effect unknown. Such an operation is
// never sent again.
func (l listed) rests() bool { return l.State == store.StatePending.String() && l.Code != "" }

func (o *ops) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [flags] STORE",
		Short: "List the pending operations, oldest first",
		Long: `list shows the operations that were begun and have no final response, oldest first. A record that
can't be read is listed by its name, with the state "damaged" or, if it is sealed or of a later release,
"unreadable". The exit code is 1 if there is one, and 0 otherwise. See drop for a damaged one.`,
		Example: "  redo ops list payments.redo\n  redo ops list payments.redo --json",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return o.with(c.Context(), args[0], nil, func(_ recordStore, client *redo.Client) error {
				all, ended := pending(c.Context(), client)
				if err := o.writeList(all, ended == nil); err != nil {
					return err
				}
				if ended != nil {
					return failed(ended)
				}
				return failedRecords(all)
			})
		},
	}
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// writeList writes the operations. If whole is true, the list has every operation.
func (o *ops) writeList(all []listed, whole bool) error {
	switch {
	case o.asJSON:
		return writeJSON(o.out, all)
	case len(all) == 0 && whole:
		fmt.Fprintf(o.out, "nothing is pending in the scope %q\n", o.scope)
		return nil
	case len(all) == 0:
		return nil
	}
	var list table
	list.row("NAME", "AGE", "KEY", "REQUEST")
	for _, op := range all {
		age, text := seconds(op.Age).String(), op.Method+" "+op.URL
		switch {
		case unread(op.State):
			if text = op.State + ": " + op.Problem; op.CreatedAt.IsZero() {
				age = "-"
			}
		case op.rests():
			text += " (final response " + op.Code + ": it is not sent again; see redo ops settle --help)"
		case !op.Resumable:
			text += " (run the same code again: the request is not stored)"
		}
		list.row(op.Name, age, op.Key, text)
	}
	return list.write(o.out)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// These are the states of an unreadable record. All other states are those of store.State.
const (
	stateDamaged    = "damaged"
	stateUnreadable = "unreadable" // for another reason, such as a later release's format, or because it is sealed
)

// unread reports whether a state is that of an unreadable record. Only the record's name is known then.
func unread(state string) bool { return state == stateDamaged || state == stateUnreadable }

// failedRecords returns an error if the list has unreadable records, and nil otherwise.
func failedRecords(all []listed) error {
	n := 0
	for _, op := range all {
		if unread(op.State) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return failed(fmt.Errorf("%d of %d records can't be read; see redo ops drop --help", n, len(all)))
}

// pending lists the pending operations, including unreadable ones. It returns an error if the list is incomplete.
func pending(ctx context.Context, client *redo.Client) ([]listed, error) {
	all := []listed{}
	for op, err := range client.Pending(ctx) {
		if err != nil && op.Name == "" {
			return all, err
		}
		l := listed{
			Name: op.Name, Key: op.Key, State: "pending", Method: op.Method, URL: wire.ShownURL(op.URL),
			CreatedAt: op.CreatedAt.UTC(), Age: op.Age.Seconds(),
		}
		l.learn(op)
		if err != nil {
			l.Problem = err.Error()
		}
		switch {
		case errors.Is(err, store.ErrDamaged):
			l = listed{Name: op.Name, State: stateDamaged, Problem: l.Problem}
		case err != nil:
			l.State = stateUnreadable
		}
		all = append(all, l)
	}
	return all, nil
}

func (o *ops) forget() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget [flags] STORE NAME",
		Short: "Forget an operation, so that it can be run anew",
		Long: `forget removes an operation in any state. Its next call is a new operation with a new key, so
an effect that was made is then made twice. Check the effect first. settle keeps the
evidence; forget keeps nothing.`,
		Example: "  redo ops forget payments.redo refund:ch_9ab:1000",
		Args:    usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			return o.with(c.Context(), args[0], nil, func(st recordStore, client *redo.Client) error {
				op, err := o.find(c.Context(), st, args[1])
				if err != nil {
					return failed(err)
				}
				fmt.Fprintf(o.err, "%s is %s, key %s, begun %v ago.\nIf its effect was made, running it again "+
					"makes it twice.\n",
					op.Name, op.State, op.Key, seconds(op.Age))
				if !yes && !newAsker(o.terminal).yes(c.Context(), "Forget it?") {
					return failed(errors.New("nothing was forgotten"))
				}
				if err := o.unchanged(c.Context(), st, op); err != nil {
					return failed(err)
				}
				if err := client.Forget(c.Context(), op.Name); err != nil {
					return failed(err)
				}
				fmt.Fprintf(o.out, "%s is forgotten\n", op.Name)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

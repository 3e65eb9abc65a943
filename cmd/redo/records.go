package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// records holds the flags that all commands on records share.
type records struct {
	terminal
	place
	asJSON bool
}

func newRecords(t terminal) *cobra.Command {
	r := &records{terminal: t}
	cmd := &cobra.Command{
		Use:   "records",
		Short: "Look after the records that a server keeps",
		Long: `records works on the store in which a server's middleware or an inbox keeps its records.

` + storeHelp + `

A record belongs to one Idempotency-Key in one scope. A pending record has no outcome: its handler runs,
or has ended without one. Bodies are shown with --body only, and credentials never.`,
		Args: usageArgs(subcommands),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	r.place.flags(cmd.PersistentFlags())
	cmd.AddCommand(r.list(), r.show(), r.forget(), r.drop(), purge(t, "records", &r.place))
	return cmd
}

// A record is the JSON form of a record.
type record struct {
	Scope     string      `json:"scope"`
	Key       string      `json:"key"`
	State     string      `json:"state"`
	Fence     uint64      `json:"fence,omitempty"`
	Owner     string      `json:"owner,omitempty"`
	CreatedAt time.Time   `json:"created_at,omitzero"`
	ExpiresAt time.Time   `json:"expires_at,omitzero"`
	Age       float64     `json:"age_seconds,omitzero"`
	LeaseLeft float64     `json:"lease_left_seconds,omitzero"` // of a pending record
	Status    int         `json:"status,omitempty"`            // of the recorded response, like the two below
	Header    http.Header `json:"header,omitempty"`            // with its credentials masked
	BodySize  *int        `json:"body_size,omitempty"`         // nil if the body is not stored
	Problem   string      `json:"problem,omitempty"`
	body      []byte
}

// recordOf returns the form of a record that was read with err.
func recordOf(rec store.Record, err error) record {
	r := record{Scope: rec.ID.Scope, Key: rec.ID.Key}
	switch {
	case errors.Is(err, store.ErrDamaged):
		r.State, r.Problem = stateDamaged, err.Error()
		return r
	case err != nil:
		r.State, r.Problem = stateUnreadable, err.Error()
		return r
	}
	r.State, r.Fence, r.Owner = rec.State.String(), rec.Fence, rec.Owner
	r.CreatedAt, r.ExpiresAt, r.Age = rec.CreatedAt.UTC(), rec.ExpiresAt, rec.Age().Seconds()
	switch {
	case rec.State == store.StatePending:
		r.LeaseLeft = rec.LeaseLeft().Seconds()
		return r
	case rec.OutcomeUnknown():
		r.State = "unknown"
		return r
	}
	// A record of the middleware holds a response. Those of an inbox and of a user's own code hold other bytes.
	if resp, err := wire.DecodeResponse(rec.Result); err == nil || errors.Is(err, wire.ErrNotStored) {
		r.Status, r.Header, r.body = resp.Status, maskedHeader(resp.Header), resp.Body
		if size := len(r.body); r.body != nil {
			r.BodySize = &size
		}
	}
	return r
}

func (r *records) list() *cobra.Command {
	var scope string
	cmd := &cobra.Command{
		Use:   "list [flags] STORE",
		Short: "List the pending records, oldest first",
		Long: `list shows the pending records, oldest first. A record that can't be read is listed by its scope and its
key. The exit code is 1 if there is one, and 0 otherwise.`,
		Example: "  redo records list orders.redo\n  redo records list orders.redo --scope '12:POST /orders' --json",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return r.withStore(c.Context(), args[0], func(st recordStore) error {
				all, ended := []record{}, error(nil)
				unreadable := 0
				for rec, err := range st.Pending(c.Context(), scope) {
					if err != nil && rec.ID == (store.ID{}) {
						ended = err
						break
					}
					one := recordOf(rec, err)
					if unread(one.State) {
						unreadable++
					}
					all = append(all, one)
				}
				if err := r.writeList(all, ended == nil); err != nil {
					return err
				}
				switch {
				case ended != nil:
					return failed(ended)
				case unreadable > 0:
					return failed(fmt.Errorf("%d of %d records can't be read; see redo records drop --help",
						unreadable, len(all)))
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "", "list only the records of this `scope`")
	cmd.Flags().BoolVar(&r.asJSON, "json", false, "print JSON")
	return cmd
}

// writeList writes the records. If whole is true, the list has every record.
func (r *records) writeList(all []record, whole bool) error {
	switch {
	case r.asJSON:
		return writeJSON(r.out, all)
	case len(all) == 0 && whole:
		fmt.Fprintln(r.out, "nothing is pending")
		return nil
	case len(all) == 0:
		return nil
	}
	var list table
	list.row("SCOPE", "KEY", "AGE", "LEASE LEFT", "OWNER")
	for _, one := range all {
		age, lease, owner := seconds(one.Age).String(), "expired", one.Owner
		if one.LeaseLeft > 0 {
			lease = seconds(one.LeaseLeft).String()
		}
		if unread(one.State) {
			age, lease, owner = "-", "-", one.State+": "+one.Problem
		}
		list.row(orDash(one.Scope), one.Key, age, lease, owner)
	}
	return list.write(r.out)
}

func (r *records) show() *cobra.Command {
	var body bool
	cmd := &cobra.Command{
		Use:   "show [flags] STORE SCOPE KEY",
		Short: "Show one record, in any state",
		Long: `show prints a record. SCOPE is printed by list for pending records. The middleware makes the scope of
the route and of the principal, each after its length: '12:POST /orders9:account-1'. An empty scope is "".
In the state unknown the effect of the request is not known, and no request with its key runs the handler.`,
		Example: `  redo records show orders.redo '12:POST /orders' order-1
  redo records show orders.redo '12:POST /orders' order-1 --body`,
		Args: usageArgs(cobra.ExactArgs(3)),
		RunE: func(c *cobra.Command, args []string) error {
			return r.withStore(c.Context(), args[0], func(st recordStore) error {
				one, err := findRecord(c.Context(), st, args[1], args[2])
				if err != nil {
					return err
				}
				if r.asJSON {
					return writeJSON(r.out, one)
				}
				writeRecord(r.out, one, body)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "show the response's body too")
	cmd.Flags().BoolVar(&r.asJSON, "json", false, "print JSON, without the body")
	cmd.MarkFlagsMutuallyExclusive("body", "json")
	return cmd
}

// findRecord returns the record of a scope and a key. A record that can't be read is an error.
func findRecord(ctx context.Context, st recordStore, scope, key string) (record, error) {
	rec, err := st.Find(ctx, store.ID{Scope: scope, Key: key})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return record{}, failed(fmt.Errorf("there is no record of the key %q in the scope %q", key, scope))
	case errors.Is(err, store.ErrDamaged):
		return record{}, failed(fmt.Errorf("%w; see redo records drop --help", err))
	case err != nil:
		return record{}, failed(err)
	}
	return recordOf(rec, nil), nil
}

// writeRecord writes a record as text for a person.
func writeRecord(w io.Writer, r record, body bool) {
	d := detail{w, 8}
	line := d.line
	line("scope", r.Scope)
	line("key", r.Key)
	line("state", r.State)
	line("created", fmt.Sprintf("%s, %v ago", r.CreatedAt.Format(time.RFC3339), seconds(r.Age)))
	if r.ExpiresAt.IsZero() {
		line("expires", "never")
	} else {
		line("expires", r.ExpiresAt.UTC().Format(time.RFC3339))
	}
	line("fence", strconv.FormatUint(r.Fence, 10))
	line("owner", r.Owner)
	if r.State == store.StatePending.String() {
		line("lease", seconds(r.LeaseLeft).String()+" left")
	}
	if r.Status == 0 {
		return
	}
	line("status", strconv.Itoa(r.Status))
	d.header(r.Header)
	switch {
	case r.body == nil:
		line("body", "not stored")
	case !body:
		line("body", fmt.Sprintf("%d bytes, shown by --body", len(r.body)))
	default:
		d.body(r.body)
	}
}

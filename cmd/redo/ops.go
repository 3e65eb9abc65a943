package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store/boltstore"
)

// ops are the flags that all commands on operations share.
type ops struct {
	terminal
	scope  string
	asJSON bool
}

func newOps(t terminal) *cobra.Command {
	o := &ops{terminal: t}
	cmd := &cobra.Command{
		Use:   "ops",
		Short: "Look after the operations that a client has left pending",
		Long: `ops works on the file in which a client keeps its operations (boltstore). A file is used by one process
at a time: stop the client's first.

What is pending was begun and has no final answer: whether it took effect is not known. Running the
client's own code again continues it, and so does resume. Bodies and credentials are never shown,
save for bodies with --body.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.PersistentFlags().StringVar(&o.scope, "scope", "redo", "the client's `scope`, as WithScope set it")
	cmd.AddCommand(o.list(), o.show(), o.resume(), o.purge(), o.forget())
	return cmd
}

// with opens the file and runs f. A file that is not there is an error: the store would make an empty one.
func (o *ops) with(name string, opts []redo.Option, f func(*boltstore.Store, *redo.Client) error) (err error) {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return failed(fmt.Errorf("there is no file %q", name))
	}
	st, err := boltstore.Open(name)
	if err != nil {
		return failed(err)
	}
	defer func() {
		if closing := st.Close(); err == nil && closing != nil {
			err = failed(closing)
		}
	}()
	client, err := redo.New(append([]redo.Option{redo.WithStore(st), redo.WithScope(o.scope)}, opts...)...)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // it returns nil
	return f(st, client)
}

// A listed operation, as list and show write it in JSON.
type listed struct {
	Name      string    `json:"name"`
	Key       string    `json:"key,omitempty"`
	State     string    `json:"state"`
	Method    string    `json:"method,omitempty"`
	URL       string    `json:"url,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	Age       float64   `json:"age_seconds"`
	Resumable bool      `json:"resumable"`
	Problem   string    `json:"problem,omitempty"`
	request   *request
}

func (o *ops) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [flags] FILE",
		Short:   "List what is pending, oldest first",
		Example: "  redo ops list payments.redo\n  redo ops list payments.redo --json",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return o.with(args[0], nil, func(_ *boltstore.Store, client *redo.Client) error {
				all, err := pending(c.Context(), client)
				if err != nil {
					return failed(err)
				}
				if o.asJSON {
					return writeJSON(o.out, all)
				}
				if len(all) == 0 {
					fmt.Fprintln(o.out, "nothing is pending")
					return nil
				}
				table := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "NAME\tAGE\tKEY\tREQUEST")
				for _, op := range all {
					what := op.Method + " " + op.URL
					switch {
					case op.Problem != "":
						what = op.Problem
					case !op.Resumable:
						what += " (run the same code again: the request is not stored)"
					}
					fmt.Fprintf(table, "%s\t%v\t%s\t%s\n", op.Name, seconds(op.Age), op.Key, what)
				}
				return table.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// pending lists what is pending, with what can't be read among it.
func pending(ctx context.Context, client *redo.Client) ([]listed, error) {
	all := []listed{}
	for op, err := range client.Pending(ctx) {
		if err != nil && op.Name == "" {
			return nil, err
		}
		l := listed{
			Name: op.Name, Key: op.Key, State: "pending", Method: op.Method, URL: withoutQuery(op.URL),
			CreatedAt: op.CreatedAt.UTC(), Age: op.Age.Seconds(), Resumable: op.Resumable,
		}
		if err != nil {
			l.Problem = err.Error()
		}
		all = append(all, l)
	}
	return all, nil
}

func (o *ops) purge() *cobra.Command {
	return &cobra.Command{
		Use:     "purge [flags] FILE",
		Short:   "Delete what has expired",
		Long:    "purge deletes the records of every scope that have expired: to the client they are gone already.",
		Example: "  redo ops purge payments.redo",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return o.with(args[0], nil, func(st *boltstore.Store, _ *redo.Client) error {
				const batch = 1000
				for total := 0; ; {
					n, err := st.Purge(c.Context(), batch)
					total += n
					if err != nil {
						return failed(fmt.Errorf("%d records were deleted: %w", total, err))
					}
					if n < batch {
						fmt.Fprintf(o.out, "%d deleted\n", total)
						return nil
					}
				}
			})
		},
	}
}

func (o *ops) forget() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget [flags] FILE NAME",
		Short: "Forget an operation, so that it can be run anew",
		Long: `forget removes an operation whatever its state. Its next call is a new operation with a new key, so
that an effect that was made is then made twice: find out first what became of it.`,
		Example: "  redo ops forget payments.redo refund:ch_9ab:1000",
		Args:    usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			return o.with(args[0], nil, func(st *boltstore.Store, client *redo.Client) error {
				op, err := o.find(c.Context(), st, args[1])
				if err != nil {
					return failed(err)
				}
				fmt.Fprintf(o.err, "%s is %s, key %s, begun %v ago.\nIf its effect was made, running it again makes it twice.\n",
					op.Name, op.State, op.Key, seconds(op.Age))
				if !yes && !newAsker(o.terminal).yes(c.Context(), "Forget it?") {
					return failed(errors.New("nothing was forgotten"))
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

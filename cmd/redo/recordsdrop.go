package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/store"
)

// secondEffect is the warning before a record is removed.
const secondEffect = "If it had an effect, the next request with its key has a second one."

func (r *records) forget() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget [flags] STORE SCOPE KEY",
		Short: "Forget a record, so that its key is new",
		Long: `forget removes a record in any state. The next request with its key runs the handler. If the first request
had an effect, this request has a second one. Find out first.

A pending record whose lease is left belongs to a running handler. That handler loses its lease.`,
		Example: "  redo records forget orders.redo '12:POST /orders' order-1",
		Args:    usageArgs(cobra.ExactArgs(3)),
		RunE: func(c *cobra.Command, args []string) error {
			return r.withStore(c.Context(), args[0], func(st recordStore) error {
				one, err := findRecord(c.Context(), st, args[1], args[2])
				if err != nil {
					return err
				}
				fmt.Fprintf(r.err, "%s is %s, created %v ago.\n%s\n", one.Key, one.State, seconds(one.Age),
					secondEffect)
				if !yes && !newAsker(r.terminal).yes(c.Context(), "Forget it?") {
					return failed(errors.New("nothing was forgotten"))
				}
				lease := store.Lease{ID: store.ID{Scope: one.Scope, Key: one.Key}, Fence: one.Fence}
				remove := st.Forget
				if one.State == store.StatePending.String() {
					remove = st.Release
				}
				if err := remove(c.Context(), lease); err != nil {
					return failed(err)
				}
				fmt.Fprintf(r.out, "%s is forgotten\n", one.Key)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (r *records) drop() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "drop [flags] STORE SCOPE KEY",
		Short: "Remove a damaged record, so that its key is new",
		Long: `drop removes a damaged record. The next request with its key runs the handler. If the first request had an
effect, this request has a second one. Find out first, and copy the store.

A record that can be read is not dropped: use forget. A record of a later release of redo is not
damaged: use that release.`,
		Example: "  redo records drop orders.redo '12:POST /orders' order-1",
		Args:    usageArgs(cobra.ExactArgs(3)),
		RunE: func(c *cobra.Command, args []string) error {
			return r.withStore(c.Context(), args[0], func(st recordStore) error {
				id := store.ID{Scope: args[1], Key: args[2]}
				_, err := st.Find(c.Context(), id)
				if err == nil {
					return failed(fmt.Errorf("%v is not damaged: forget removes it", id))
				}
				if !errors.Is(err, store.ErrDamaged) {
					return failed(err)
				}
				fmt.Fprintf(r.err, "%v\n%s\n", err, secondEffect)
				if !yes && !newAsker(r.terminal).yes(c.Context(), "Drop it?") {
					return failed(errors.New("nothing was dropped"))
				}
				if err := st.Drop(c.Context(), id); err != nil {
					return failed(err)
				}
				fmt.Fprintf(r.out, "%s is dropped\n", id.Key)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

func (o *ops) drop() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "drop [flags] STORE NAME",
		Short: "Remove a damaged record, so that its operation can be run anew",
		Long: `drop removes the record of an operation if it is damaged. Its key and its request can't be read any
more, so that the operation can't be resumed, and its next call is a new operation with a new key:
an effect that was made is then made twice. Check the effect first. Copy the file before.

A record that can be read is not dropped: use forget. A record of a later release of redo is not
damaged: use that release.`,
		Example: "  redo ops drop payments.redo refund:ch_9ab:1000",
		Args:    usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			return o.with(c.Context(), args[0], nil, func(st recordStore, client *redo.Client) error {
				id := store.ID{Scope: o.scope, Key: args[1]}
				_, err := st.Find(c.Context(), id)
				switch {
				case err == nil:
					return failed(fmt.Errorf("%s is not damaged: forget removes it", id.Key))
				case errors.Is(err, store.ErrNotFound) || errors.Is(err, boltstore.ErrCorrupt):
					// The list also finds damage that leaves no record under the name.
					err = o.damage(c, client, id.Key, err)
				}
				if !errors.Is(err, store.ErrDamaged) {
					return failed(err)
				}
				fmt.Fprintf(o.err, "%s: %v\nIf its effect was made, running it again makes it twice.\n", id.Key, err)
				if !yes && !newAsker(o.terminal).yes(c.Context(), "Drop it?") {
					return failed(errors.New("nothing was dropped"))
				}
				if err := st.Drop(c.Context(), id); err != nil {
					return failed(err)
				}
				fmt.Fprintf(o.out, "%s is dropped\n", id.Key)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// damage returns the list's error for a damaged record. If the list has none, damage returns found.
func (o *ops) damage(c *cobra.Command, client *redo.Client, name string, found error) error {
	if errors.Is(found, store.ErrDamaged) {
		return found
	}
	for op, err := range client.Pending(c.Context()) {
		if op.Name == name && errors.Is(err, store.ErrDamaged) {
			return err
		}
	}
	if errors.Is(found, store.ErrNotFound) {
		return fmt.Errorf("there is no operation %q in the scope %q: %w", name, o.scope, store.ErrNotFound)
	}
	return found
}

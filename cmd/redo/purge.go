package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// purge is the command of a group that deletes expired records.
func purge(t terminal, group string, p *place) *cobra.Command {
	return &cobra.Command{
		Use:     "purge [flags] STORE",
		Short:   "Delete the expired records",
		Long:    "purge deletes the expired records of every scope. Clients and servers no longer see them.",
		Example: "  redo " + group + " purge payments.redo",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withStore(c.Context(), args[0], func(st recordStore) error {
				const batch = 1000
				for total := 0; ; {
					n, err := st.Purge(c.Context(), batch)
					total += n
					if err != nil {
						return failed(fmt.Errorf("%d records were deleted: %w", total, err))
					}
					if n < batch {
						fmt.Fprintf(t.out, "%d deleted\n", total)
						return nil
					}
				}
			})
		},
	}
}

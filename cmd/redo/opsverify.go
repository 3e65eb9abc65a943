package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/store/boltstore"
)

func (o *ops) verify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [flags] FILE",
		Short: "Check the whole file for damage",
		Long: `verify reads a whole boltstore file. It runs bbolt's check of the pages, reads every record of every scope, and
compares the records with their indexes, which shows that records are missing. It changes nothing. The exit
code is 1 if there is damage. Run it after an error of the disk and after the restore of a backup.

A damaged record is named: see drop. Pages that are damaged are not repaired: restore a backup.`,
		Example: "  redo ops verify payments.redo",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := noURL(args[0], "the pages that verify checks", "a boltstore file"); err != nil {
				return err
			}
			if err := o.check(boltFile); err != nil {
				return err
			}
			return withFile(args[0], func(st *boltstore.Store) error {
				if err := st.Verify(c.Context()); err != nil {
					return failed(err)
				}
				fmt.Fprintf(o.out, "%s is sound\n", args[0])
				return nil
			})
		},
	}
}

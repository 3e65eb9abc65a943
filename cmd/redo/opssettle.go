package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
)

// settling holds the flags of ops settle.
type settling struct {
	*ops
	applied, notApplied, yes bool
	evidence, by             string
}

func (o *ops) settle() *cobra.Command {
	s := &settling{ops: o}
	cmd := &cobra.Command{
		Use:   "settle [flags] STORE NAME",
		Short: "Record the result of a pending operation",
		Long: `settle records the result of a pending operation, which you found by reading the resource. Evidence and
author are kept with the operation, and show prints them.

After --applied the operation is complete: calling it again sends nothing. The client returns the error
CONFLICT.idempotency.result_not_stored, because it has no response. After --not-applied the next call is
a new operation with a new key: an effect that was made is then made twice.

A finding that the record contradicts is refused, and changes nothing.`,
		Example: `  redo ops settle payments.redo refund:ch_9ab:1000 --applied --evidence "GET /refunds: rf_1" --by ana
  redo ops settle payments.redo refund:ch_9ab:1000 --not-applied --evidence "no such refund" --by ana`,
		Args: usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			if s.evidence == "" || s.by == "" {
				return errors.New("--evidence and --by must not be empty")
			}
			return o.with(c.Context(), args[0], nil, func(st recordStore, client *redo.Client) error {
				return s.run(c, st, client, args[1])
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&s.applied, "applied", false, "the operation took effect")
	f.BoolVar(&s.notApplied, "not-applied", false, "the operation did not take effect")
	f.StringVar(&s.evidence, "evidence", "", "how you found out, as a `text`")
	f.StringVar(&s.by, "by", "", "your `name`")
	f.BoolVar(&s.yes, "yes", false, "do not ask")
	cmd.MarkFlagsOneRequired("applied", "not-applied")
	cmd.MarkFlagsMutuallyExclusive("applied", "not-applied")
	cmd.MarkFlagsRequiredTogether("evidence", "by")
	return cmd
}

// run settles one operation.
func (s *settling) run(c *cobra.Command, st recordStore, client *redo.Client, nameOrKey string) error {
	op, err := s.find(c.Context(), st, nameOrKey)
	if err != nil {
		return failed(err)
	}
	f := redo.Finding{Effect: redo.NotApplied, Evidence: s.evidence, By: s.by}
	warning := "If its effect was made, running it again makes it twice."
	if s.applied {
		f.Effect, warning = redo.Applied, "It is not sent again."
	}
	pending := op.State == store.StatePending.String()
	if pending {
		fmt.Fprintf(s.err, "%s is pending, key %s, begun %v ago.\n%s\n", op.Name, op.Key, seconds(op.Age), warning)
		if !s.yes && !newAsker(s.terminal).yes(c.Context(), fmt.Sprintf("Record it as %v?", f.Effect)) {
			return failed(errors.New("nothing was recorded"))
		}
		if err := s.unchanged(c.Context(), st, op); err != nil {
			return failed(err)
		}
	}
	if err := client.Settle(c.Context(), op.Name, f); err != nil {
		return failed(err)
	}
	if !pending {
		fmt.Fprintf(s.out, "%s was settled before as %v: nothing was changed\n", op.Name, f.Effect)
		return nil
	}
	fmt.Fprintf(s.out, "%s is settled as %v\n", op.Name, f.Effect)
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/outbox"
)

func (e *events) drop() *cobra.Command {
	var yes bool
	var destination string
	cmd := &cobra.Command{
		Use:   "drop [flags] QUEUE ID",
		Short: "Delete a dead letter",
		Long: fmt.Sprintf(`drop deletes the dead letter with the id, one for each %s.
%s
The events that it holds back in its line go on.`, e.destination, e.dropped),
		Example: fmt.Sprintf("  redo %s drop orders.redo refund-re_1", e.group),
		Args:    usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			sel := outbox.Selection{State: outbox.StateDead, ID: args[1], Destination: destination}
			return e.with(c.Context(), args[0], func(q queue) error {
				letters, err := e.letters(c.Context(), q, sel)
				if err != nil {
					return err
				}
				if !yes && !newAsker(e.terminal).yes(c.Context(), "Drop it? It can't be undone.") {
					return errors.New("nothing was dropped")
				}
				for _, l := range letters {
					if err := q.Drop(c.Context(), l.ID, l.Destination); err != nil {
						return err
					}
					fmt.Fprintf(e.out, "%s is dropped for %s\n", l.ID, orDash(e.shown(l.Destination)))
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&destination, e.destination, "", fmt.Sprintf("only the dead letter for this `%s`",
		e.destination))
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// letters returns the dead letters that the selection matches, and announces them. It includes letters whose
// payload is unreadable. It returns an error if there are none.
func (e *events) letters(ctx context.Context, q queue, sel outbox.Selection) (found []outbox.Event, err error) {
	for entry, err := range q.Events(ctx, sel) {
		switch {
		case err != nil && entry.State == 0:
			return nil, err
		case !sel.Matches(entry): // an unreadable entry may be a different event
			continue
		}
		fmt.Fprintf(e.err, "%s for %s, dead for %v after %d attempts: %s\n", entry.Event.ID,
			orDash(e.shown(entry.Event.Destination)), since(entry.DeadAt), entry.Attempts,
			orDash(string(entry.Failure().Code)))
		found = append(found, entry.Event)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w with the id %q%s", outbox.ErrNoLetter, sel.ID, e.hashed(sel.ID))
	}
	return found, nil
}

func (e *events) enable() *cobra.Command {
	return &cobra.Command{
		Use:   "enable [flags] QUEUE DESTINATION",
		Short: "Deliver to a disabled destination again",
		Long: `enable makes the events of a disabled destination due again. A relay disables a destination that
responds with 410 or has failed for days.`,
		Example: fmt.Sprintf("  redo %s enable orders.redo https://closed.example/hooks", e.group),
		Args:    usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			return e.with(c.Context(), args[0], func(q queue) error {
				all, err := q.Disabled(c.Context())
				if err != nil {
					return err
				}
				named := func(d outbox.DisabledDestination) bool { return d.Destination == args[1] }
				if !slices.ContainsFunc(all, named) {
					return fmt.Errorf("the destination %q is not disabled; see redo %s disabled --body",
						e.shown(args[1]), e.group)
				}
				if err := q.Enable(c.Context(), args[1]); err != nil {
					return err
				}
				fmt.Fprintf(e.out, "%s is enabled\n", e.shown(args[1]))
				return nil
			})
		},
	}
}

// disabledDestination is the JSON form of a destination in the output of disabled.
type disabledDestination struct {
	Destination string    `json:"destination"`
	Since       time.Time `json:"since"`
	Code        string    `json:"code,omitempty"`
	Status      int       `json:"status,omitempty"`
	Reason      string    `json:"reason,omitempty"`
}

func (e *events) disabled() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "disabled [flags] QUEUE",
		Short:   "List the disabled destinations",
		Example: fmt.Sprintf("  redo %s disabled orders.redo", e.group),
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return e.with(c.Context(), args[0], func(q queue) error {
				found, err := q.Disabled(c.Context())
				if err != nil {
					return err
				}
				all := []disabledDestination{}
				for _, d := range found {
					all = append(all, disabledDestination{
						e.shown(d.Destination), d.Since.UTC(), string(d.Why.Code), d.Why.Status, d.Why.Reason,
					})
				}
				return e.writeDisabled(all)
			})
		},
	}
	cmd.Flags().BoolVar(&e.asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&e.body, "body", false, "show credentials and queries of URLs too, as enable needs them")
	return cmd
}

func (e *events) writeDisabled(all []disabledDestination) error {
	if e.asJSON {
		return writeJSON(e.out, all)
	}
	if len(all) == 0 {
		fmt.Fprintln(e.out, "no destination is disabled")
		return nil
	}
	var list table
	list.row("DESTINATION", "SINCE", "WHY")
	for _, d := range all {
		f := listedFailure{Code: d.Code, Status: d.Status, Reason: d.Reason}
		list.row(orDash(d.Destination), since(d.Since).String()+" ago", f.text())
	}
	return list.write(e.out)
}

func (e *events) purge() *cobra.Command {
	var age time.Duration
	cmd := &cobra.Command{
		Use:   "purge [flags] QUEUE",
		Short: "Delete events that were sent",
		Long: `purge deletes the events that were sent and were enqueued longer ago than --older-than. Their ids may be
enqueued again afterwards. Events that wait and dead letters stay.`,
		Example: fmt.Sprintf("  redo %s purge orders.redo --older-than 168h", e.group),
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if age < 0 {
				return fmt.Errorf("--older-than %v: it must not be negative", age)
			}
			return e.with(c.Context(), args[0], func(q queue) error {
				const batch = 1000
				for total := 0; ; {
					n, err := q.Purge(c.Context(), age, batch)
					total += n
					if err != nil {
						return fmt.Errorf("%d events were deleted: %w", total, err)
					}
					if n < batch {
						fmt.Fprintf(e.out, "%d deleted\n", total)
						return nil
					}
				}
			})
		},
	}
	cmd.Flags().DurationVar(&age, "older-than", 24*time.Hour,
		"how long ago they must have been enqueued, as a `duration`")
	return cmd
}

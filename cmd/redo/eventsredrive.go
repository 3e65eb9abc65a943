package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/outbox"
)

// redriving holds the flags of redrive.
type redriving struct {
	selecting
	all, dryRun, yes bool
	rate             string
}

func (e *events) redrive() *cobra.Command {
	r := &redriving{selecting: selecting{events: e}}
	cmd := &cobra.Command{
		Use:   "redrive [flags] QUEUE [ID...]",
		Short: "Make dead letters wait for delivery again",
		Long: fmt.Sprintf(`redrive makes dead letters wait again, each under its own id and at its own place in its
line. Their attempts are counted from zero, and their history stays. Name the dead letters, select them
by %[1]s, type and instant, or use --all. redrive counts them and needs a confirmation before it changes
anything.

An event may have had its effect before it became a dead letter. Its consumer may have forgotten the
id.`, e.destination),
		Example: fmt.Sprintf(`  redo %[1]s redrive orders.redo refund-re_1
  redo %[1]s redrive orders.redo --type refund.created --since 72h --dry-run
  redo %[1]s redrive orders.redo --all --rate 100/s`, e.group),
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			sel, err := r.selection(time.Now())
			if err != nil {
				return err
			}
			rate, err := parseRate(r.rate)
			if err != nil {
				return err
			}
			named, selected := len(args) > 1, sel != outbox.Selection{}
			if r.all && (named || selected) || !r.all && !named && !selected {
				return errors.New("name the dead letters to redrive, select them, or say --all alone")
			}
			sel.State = outbox.StateDead
			return e.with(c.Context(), args[0], func(q queue) error {
				return r.run(c.Context(), q, sel, args[1:], rate)
			})
		},
	}
	r.flags(cmd.Flags())
	f := cmd.Flags()
	f.BoolVar(&r.all, "all", false, "redrive all dead letters")
	f.BoolVar(&r.dryRun, "dry-run", false, "count the events that would be redriven, and change nothing")
	f.StringVar(&r.rate, "rate", "", "redrive at most `N/s`, such as 100/s (default: no limit)")
	f.BoolVar(&r.yes, "yes", false, "do not ask")
	return cmd
}

// parseRate returns the number of events per second. It returns zero if text is empty.
func parseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, ok := strings.CutSuffix(text, "/s")
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(n > 0 && n <= 1e9) {
		return 0, fmt.Errorf("--rate %q: it must be a positive number of events in a second, such as 100/s", text)
	}
	return n, nil
}

// run redrives the dead letters that match the selection and the IDs.
func (r *redriving) run(ctx context.Context, q queue, sel outbox.Selection, ids []string, rate float64) error {
	selections := []outbox.Selection{sel}
	for i, id := range ids {
		if i == 0 {
			selections = nil
		}
		sel.ID = id
		selections = append(selections, sel)
	}
	var limit []outbox.RedriveOption
	if rate > 0 {
		limit = append(limit, outbox.PerSecond(rate))
	}
	matched, unreadable := 0, 0
	for _, sel := range selections {
		found, err := outbox.RedriveAll(ctx, q, sel, append(limit, outbox.DryRun())...)
		switch {
		case err != nil:
			return err
		case found.Matched == 0 && sel.ID != "":
			return fmt.Errorf("%w with the id %q that can be read%s", outbox.ErrNoLetter, sel.ID, r.hashed(sel.ID))
		}
		matched, unreadable = matched+found.Matched, max(unreadable, found.Unreadable)
	}
	if r.dryRun || matched == 0 {
		fmt.Fprintf(r.out, "dead letters selected: %d\n", matched)
		return unreadableLetters(unreadable)
	}
	if !r.yes && !newAsker(r.terminal).yes(ctx, fmt.Sprintf("Redrive %d?", matched)) {
		return errors.New("nothing was redriven")
	}
	done := 0
	defer func() { fmt.Fprintf(r.out, "%d of %d redriven\n", done, matched) }()
	for _, sel := range selections {
		n, err := outbox.RedriveAll(ctx, q, sel, limit...)
		done, unreadable = done+n.Redriven, max(unreadable, n.Unreadable)
		if err != nil {
			return err
		}
	}
	return unreadableLetters(unreadable)
}

// unreadableLetters returns an error if there are letters that can't be read.
func unreadableLetters(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d dead letters can't be read, whether they are selected or not", n)
}

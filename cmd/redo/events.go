package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// queue is the interface of a queue of events.
type queue interface {
	outbox.Queue
	outbox.Backlog
}

// events holds the flags that all commands on a queue share. It also holds the names that this kind of queue uses.
type events struct {
	terminal
	group       string // the parent command
	short       string
	destination string // the noun for an event's destination
	dropped     string // the consequence of a drop
	bucket      string // the default queue in a file
	table       string // the default queue in Postgres
	queue       string
	schema      string
	asJSON      bool
	body        bool
}

func newEvents(t terminal) *cobra.Command {
	e := &events{
		terminal: t, group: "events", short: "Look after the events of an outbox",
		destination: "destination", dropped: "It is never delivered, and its id may be enqueued again.",
		bucket: "redo-outbox", table: "redo_outbox",
	}
	cmd := e.command(`events works on the queue of a relay: in a file (boltoutbox), or in Postgres (pgoutbox). QUEUE
is the name of the file or a URL that begins with postgres://. A file is used by one process at a time:
stop the service first.

A dead letter is an event that a relay has given up. It waits for redrive or drop. Payloads, the first
bytes of responses, and credentials and queries of URLs are shown with --body only.`)
	cmd.AddCommand(e.list(), e.show(), e.redrive(), e.drop(), e.enable(), e.disabled(), e.purge())
	return cmd
}

func newInbox(t terminal) *cobra.Command {
	e := &events{
		terminal: t, group: "inbox", short: "Look after the events that an inbox has accepted",
		destination: "source", dropped: "It is handled anew if the source delivers it again: see Acceptor.Drop of " +
			"package inbox.",
		bucket: "redo-inbox", table: "redo_inbox",
	}
	cmd := e.command(`inbox works on the queue of an inbox that accepts events and handles them later: in a file
(boltoutbox), or in Postgres (pgoutbox). QUEUE is the name of the file or a URL that begins with
postgres://. A file is used by one process at a time: stop the service first.

A dead letter is an event that the handler could not handle. It waits for redrive or drop. The service
handles the redriven events. Payloads are shown with --body only. An id that the queue can't keep is listed
by its hash, and show prints it in the header Redo-Inbox-Id.

An inbox that handles events in the request has no queue. Redrive its dead letters with its methods.`)
	cmd.AddCommand(e.list(), e.show(), e.redrive(), e.drop())
	return cmd
}

// command returns the parent command.
func (e *events) command(long string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   e.group,
		Short: e.short,
		Long:  long,
		Args:  usageArgs(subcommands),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.PersistentFlags().StringVar(&e.queue, "queue", "", fmt.Sprintf(
		"the `name` of the queue: a bucket of the file (default %s), or a table of Postgres (default %s)",
		e.bucket, e.table))
	cmd.PersistentFlags().StringVar(&e.schema, "schema", "", "the `schema` of the table in Postgres (default public)")
	return cmd
}

// with opens the queue and runs f. An error of f means that the command failed.
func (e *events) with(ctx context.Context, name string, f func(queue) error) error {
	run := func(q queue) error {
		if err := f(q); err != nil {
			return failed(err)
		}
		return nil
	}
	if isDatabase(name) {
		return e.withTable(ctx, name, run)
	}
	if err := noURL(name, "events", "a boltstore file, or in Postgres"); err != nil {
		return err
	}
	return withFile(name, func(st *boltstore.Store) error { return e.inFile(ctx, name, st, run) })
}

// inFile opens a queue in a file. A missing queue is an error, because boltoutbox would create it.
func (e *events) inFile(ctx context.Context, name string, st *boltstore.Store, f func(queue) error) error {
	bucket := e.queue
	if bucket == "" {
		bucket = e.bucket
	}
	exists, err := hasBucket(ctx, st, bucket)
	if err == nil && !exists {
		err = fmt.Errorf("the file %q has no queue %q, see --queue", name, bucket)
	}
	if err != nil {
		return failed(err)
	}
	q, err := boltoutbox.New(ctx, st, boltoutbox.WithBucket(bucket))
	if err != nil {
		return failed(err)
	}
	return f(q)
}

// selecting holds the flags that select events.
type selecting struct {
	*events
	outbox.Selection
	state, since, until string
}

func (s *selecting) flags(f *pflag.FlagSet) {
	f.StringVar(&s.Destination, s.destination, "", fmt.Sprintf("only events with this `%s`", s.destination))
	f.StringVar(&s.Type, "type", "", "only events of this `type`")
	const instant = "an RFC 3339 instant, or a duration such as 24h before now"
	f.StringVar(&s.since, "since", "", "only events that were enqueued at this `instant` or later: "+instant)
	f.StringVar(&s.until, "until", "", "only events that were enqueued before this `instant`: "+instant)
}

// selection returns the selection that the flags describe.
func (s *selecting) selection(now time.Time) (sel outbox.Selection, err error) {
	sel = s.Selection
	if strings.Contains(sel.Destination, "://") && strings.Contains(sel.Destination, masked) {
		return sel, fmt.Errorf("--%s %q: it is masked; list --body shows the whole URL", s.destination, sel.Destination)
	}
	switch s.state {
	case "":
	case "waiting":
		sel.State = outbox.StateWaiting
	case "dead":
		sel.State = outbox.StateDead
	default:
		return sel, fmt.Errorf("--state %q: it must be waiting or dead", s.state)
	}
	if sel.Since, err = parseInstant("--since", s.since, now); err != nil {
		return sel, err
	}
	if sel.Until, err = parseInstant("--until", s.until, now); err != nil {
		return sel, err
	}
	if !sel.Since.IsZero() && !sel.Until.IsZero() && !sel.Since.Before(sel.Until) {
		return sel, fmt.Errorf("--since %q and --until %q select nothing: --since must be earlier", s.since, s.until)
	}
	return sel, nil
}

// parseInstant parses an instant. It returns the zero time if text is empty.
func parseInstant(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf(
			"%s %q: it must be a duration such as 24h, or an instant such as 2026-01-02T15:04:05Z", flag, text)
	}
	return at, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// A found is where an ID occurs in a store.
type found struct {
	Operations []listed      `json:"operations,omitempty"`
	Records    []record      `json:"records,omitempty"`
	Events     []queuedEvent `json:"events,omitempty"`
	Letters    []letter      `json:"letters,omitempty"`
}

type queuedEvent struct {
	Queue string `json:"queue"`
	listedEvent
}

// A letter is an event that a handler could not handle in the request that delivered it.
type letter struct {
	Source     string    `json:"source"`
	ID         string    `json:"id"`
	State      string    `json:"state"`
	ReceivedAt time.Time `json:"received_at,omitzero"`
	Attempts   int       `json:"attempts"`
	Failure    string    `json:"failure,omitempty"`
	Problem    string    `json:"problem,omitempty"`
}

func newFind(t terminal) *cobra.Command {
	o := &ops{terminal: t}
	cmd := &cobra.Command{
		Use:   "find [flags] STORE ID",
		Short: "Find an operation, a record, an event or a letter by its ID",
		Long: `find shows where an ID occurs: as an operation's name or key, as the key of a pending record in any scope, as
the ID of an event that waits or is dead, and as the ID of an inbox's letter. An operation's key is the
same in all of them. The exit code is 1 if the ID occurs nowhere.

` + storeHelp,
		Example: "  redo find payments.redo refund:ch_9ab:1000\n  redo find payments.redo refund:ch_9ab:1000 --json",
		Args:    usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			return o.with(c.Context(), args[0], nil, func(st recordStore, client *redo.Client) error {
				f, err := o.locate(c.Context(), st, client, args[1])
				if err != nil {
					return failed(err)
				}
				if o.asJSON {
					return writeJSON(o.out, f)
				}
				return o.writeFound(f)
			})
		},
	}
	cmd.Flags().StringVar(&o.scope, "scope", "redo", scopeHelp)
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	o.place.flags(cmd.Flags())
	return cmd
}

// locate returns an error if the ID occurs nowhere, or if a list can't be read.
func (o *ops) locate(ctx context.Context, st recordStore, client *redo.Client, id string) (f found, err error) {
	// An operation's other traces have its key.
	ids := []string{id}
	if f.Operations, err = operationsOf(ctx, st, client, o.scope, id); err != nil {
		return found{}, err
	}
	for _, op := range f.Operations {
		if op.Key != "" && op.Key != id {
			ids = append(ids, op.Key)
		}
	}
	for rec, err := range st.Pending(ctx, "") {
		if err != nil && rec.ID == (store.ID{}) {
			return found{}, err
		}
		if rec.ID.Scope != o.scope && slices.Contains(ids, rec.ID.Key) {
			f.Records = append(f.Records, recordOf(rec, err))
		}
	}
	queues, err := queuesOf(ctx, st, o.schema)
	if err != nil {
		return found{}, err
	}
	for _, q := range queues {
		e := events{terminal: o.terminal}
		for _, id := range inQueue(q.name, ids) {
			for entry, err := range q.Events(ctx, outbox.Selection{ID: id}) {
				if err != nil && entry.State == 0 {
					return found{}, err
				}
				if entry.Event.ID == id {
					f.Events = append(f.Events, queuedEvent{q.name, e.listed(entry, err)})
				}
			}
		}
	}
	if f.Letters, err = lettersOf(ctx, st, ids); err != nil {
		return found{}, err
	}
	if len(f.Operations)+len(f.Records)+len(f.Events)+len(f.Letters) == 0 {
		return found{}, fmt.Errorf("%q is no operation of the scope %q, and no pending record, event or letter", id,
			o.scope)
	}
	return f, nil
}

// inQueue returns the ids under which a queue may keep the events with the ids. A given id may be the inbox's own.
func inQueue(queue string, ids []string) []string {
	kept := slices.Clone(ids)
	if queue == "inbox" {
		for _, id := range ids {
			if hashed := inbox.QueueID(id); hashed != id {
				kept = append(kept, hashed)
			}
		}
	}
	return kept
}

// operationsOf returns the operation with the name, or the pending ones with the key.
func operationsOf(
	ctx context.Context, st recordStore, client *redo.Client, scope, nameOrKey string,
) (all []listed, err error) {
	add := func(rec store.Record) {
		l := operationOf(rec)
		if op, err := client.Find(ctx, l.Name); err == nil {
			l.learn(op)
		}
		all = append(all, l)
	}
	unreadable := func(rec store.Record, err error) {
		one := recordOf(rec, err)
		all = append(all, listed{Name: nameOrKey, State: one.State, Problem: one.Problem})
	}
	switch rec, err := st.Find(ctx, store.ID{Scope: scope, Key: nameOrKey}); {
	case err == nil:
		add(rec)
		return all, nil
	case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrInvalid): // it exists
		unreadable(store.Record{}, err)
		return all, nil
	}
	for rec, err := range st.Pending(ctx, scope) {
		switch {
		case err != nil && rec.ID == (store.ID{}):
			return nil, err
		case err != nil && rec.ID.Key == nameOrKey:
			unreadable(rec, err)
		case err == nil && operationOf(rec).Key == nameOrKey:
			add(rec)
		}
	}
	return all, nil
}

// lettersOf returns the letters of every source with one of the IDs.
func lettersOf(ctx context.Context, st recordStore, ids []string) (all []letter, err error) {
	in, err := inbox.New(st)
	if err != nil {
		return nil, err
	}
	for _, list := range []struct {
		state string
		seq   iter.Seq2[inbox.FailedEvent, error]
	}{{"dead", in.DeadLetters(ctx, "")}, {"waiting", in.Waiting(ctx, "")}} {
		for f, err := range list.seq {
			if err != nil && f.ID == "" {
				return nil, err
			}
			if !slices.Contains(ids, f.ID) {
				continue
			}
			l := letter{
				Source: f.Source, ID: f.ID, State: list.state, ReceivedAt: utc(f.ReceivedAt), Attempts: f.Attempts,
				Failure: f.Failure,
			}
			if err != nil {
				l.Problem = err.Error()
			}
			all = append(all, l)
		}
	}
	return all, nil
}

func (o *ops) writeFound(f found) error {
	var list table
	list.row("WHERE", "ID", "STATE", "AGE", "ABOUT")
	for _, op := range f.Operations {
		about := strings.TrimSpace(op.Method + " " + op.URL + " " + op.Problem)
		if op.Effect != "" {
			about += ", effect " + op.Effect
		}
		list.row("operation", op.Name, op.State, seconds(op.Age), orDash(about))
	}
	for _, r := range f.Records {
		list.row("record "+r.Scope, r.Key, r.State, seconds(r.Age), orDash(r.Problem))
	}
	for _, e := range f.Events {
		last := e.Problem
		if last == "" && len(e.History) > 0 {
			last = e.History[len(e.History)-1].title()
		}
		list.row(e.Queue, e.ID, e.State, since(e.EnqueuedAt), orDash(strings.TrimSpace(e.Destination+" "+last)))
	}
	for _, l := range f.Letters {
		list.row("letter of "+l.Source, l.ID, l.State, since(l.ReceivedAt), orDash(l.Failure+l.Problem))
	}
	return list.write(o.out)
}

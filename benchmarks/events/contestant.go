package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A contestant is a library with its settings.
type contestant struct {
	name string
	open func(ctx context.Context, p place) (queue, error)
}

// A queue is an empty queue of a contestant.
type queue interface {
	// enqueue adds an event in the transaction.
	enqueue(ctx context.Context, tx pgx.Tx, body []byte) error
	// fill adds n events.
	fill(ctx context.Context, n int) error
	// work delivers events until ctx ends.
	work(ctx context.Context, deliver func(body []byte)) error
}

// contestants returns those that take part in a scenario.
func contestants(sc scenario) []contestant {
	all := []contestant{
		{"redo, 1000 workers", openRedo(1000)},
		{"redo, 100 workers", openRedo(100)},
		{"pgoutbox without a relay", openBare},
		{"River, 1000 workers", openRiver(1000)},
		{"River, 100 workers", openRiver(100)},
		{"Watermill-SQL, batch 1000", openWatermill(1000)},
		{"Watermill-SQL, batch 100", openWatermill(100)},
	}
	switch sc.name {
	case "drain":
		return all
	case "backlog":
		return []contestant{all[0], all[1], all[2], all[3]}
	case "enqueue":
		return []contestant{{"no outbox", nil}, all[1], all[4], all[6]}
	}
	return []contestant{all[1], all[4], all[6]}
}

package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type job struct {
	Body []byte `json:"body"`
}

func (job) Kind() string { return "order.made" }

type worker struct {
	river.WorkerDefaults[job]
	deliver func([]byte)
}

func (w *worker) Work(_ context.Context, j *river.Job[job]) error {
	w.deliver(j.Args.Body)
	return nil
}

type riverQueue struct {
	*river.Client[pgx.Tx]
	p       place
	workers int
}

func openRiver(workers int) func(context.Context, place) (queue, error) {
	return func(ctx context.Context, p place) (queue, error) {
		driver := riverpgxv5.New(p.pool)
		m, err := rivermigrate.New(driver, nil)
		if err != nil {
			return nil, err
		}
		if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return nil, err
		}
		// also limits NOTIFY
		c, err := river.NewClient(driver, &river.Config{Logger: quiet, FetchCooldown: time.Millisecond})
		return riverQueue{c, p, workers}, err
	}
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func (q riverQueue) enqueue(ctx context.Context, tx pgx.Tx, body []byte) error {
	_, err := q.InsertTx(ctx, tx, job{body}, nil)
	return err
}

func (q riverQueue) fill(ctx context.Context, n int) error {
	for n > 0 {
		many := make([]river.InsertManyParams, min(n, 1000))
		for i := range many {
			many[i].Args = job{make([]byte, bodySize)}
		}
		if _, err := q.InsertManyFast(ctx, many); err != nil {
			return err
		}
		n -= len(many)
	}
	return nil
}

func (q riverQueue) work(ctx context.Context, deliver func([]byte)) error {
	ws := river.NewWorkers()
	river.AddWorker(ws, &worker{deliver: deliver})
	c, err := river.NewClient(riverpgxv5.New(q.p.pool), &river.Config{
		Logger: quiet, Workers: ws, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: q.workers}},
		FetchCooldown: time.Millisecond,
	})
	if err != nil {
		return err
	}
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return c.Stop(last)
}

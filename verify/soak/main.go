package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/redo-go/redo/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// A soak holds the flags.
type soak struct {
	duration, period, retention time.Duration
	workers                     int
	faults                      float64
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var s soak
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	name := flags.String("store", "bolt",
		"memory, bolt, pebble or sqlite; redis, postgres or mysql, which starts a server; or a `URL`")
	flags.DurationVar(&s.duration, "for", time.Minute, "how long the load runs")
	flags.DurationVar(&s.period, "every", 0, "the time between two samples (default a 60th of -for)")
	flags.DurationVar(&s.retention, "retention", 0, "how long records live (default a tenth of -for, at least 5s)")
	flags.IntVar(&s.workers, "workers", 32, "callers at a time")
	flags.Float64Var(&s.faults, "faults", 0.02, "the share of each of three faults, from 0 to 0.3")
	pending := flags.Int("pending", 0, "resume this `number` of operations of a crashed client, instead of a load")
	size := flags.Int64("upload", 0, "stream an upload of this number of `bytes` through a gateway, instead of a load")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case s.duration < time.Second:
		return fmt.Errorf("-for %v: it must be a second or more", s.duration)
	case s.workers < 1:
		return fmt.Errorf("-workers %d: it must be 1 or more", s.workers)
	case s.faults < 0 || s.faults > 0.3:
		return fmt.Errorf("-faults %v: it must be from 0 to 0.3", s.faults)
	}
	if *size > 0 {
		return upload(ctx, *size, out)
	}
	dir, err := os.MkdirTemp("", "redo-soak-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if *pending > 0 {
		return resume(ctx, *pending, dir, out)
	}
	e, err := openEngine(ctx, *name, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	return s.under(ctx, e, out)
}

// under runs the load on a store, samples it, and judges the samples.
func (s soak) under(ctx context.Context, e engine, out io.Writer) (err error) {
	if s.period == 0 {
		s.period = s.duration / 60
	}
	if s.retention == 0 {
		s.retention = max(s.duration/10, 5*time.Second) // longer than an operation on a busy machine
	}
	l, err := newLoad(e.Store, s.workers, s.faults, s.retention)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	ctx, cancel := context.WithTimeout(ctx, s.duration)
	defer cancel()
	go func() { _ = store.PurgeEvery(ctx, e.Store, time.Second, nil) }() // deletes records that no new one replaces
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx) }()
	fmt.Fprintf(out, head, "time", "operations", "goroutines", "files", "heap", "store")
	tick := time.NewTicker(s.period)
	defer tick.Stop()
	begun := time.Now()
	var samples []sample
	for {
		select {
		case <-tick.C:
			stored, err := e.size(context.WithoutCancel(ctx))
			if err != nil {
				return fmt.Errorf("the size of the store: %w", err)
			}
			one := takeSample(time.Since(begun), l.operations(), stored)
			one.write(out)
			samples = append(samples, one)
			continue
		case err = <-ended:
		}
		break
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d operations had one effect each.\n", l.operations())
	if s.duration < 4*s.retention { // the first half must reach the retention, with time to spare
		fmt.Fprintln(out, "Growth was not judged: the run must last four times the retention.")
		return nil
	}
	if err := flat(samples); err != nil {
		return err
	}
	fmt.Fprintln(out, "Nothing grew.")
	return nil
}

// Fuzz gives each fuzz target a processor time, searches with as many side by side as there are cores, and prints a
// table. A search beside other work goes on until it has had its time.
//
//	go run ./verify/fuzz -for 1h -state DIR                  every target, an hour of a core each
//	go run ./verify/fuzz -for 10m -state DIR ./internal/...  the targets in and below a directory
//	go run ./verify/fuzz -for 10m -keep                      keep the inputs that reach new statements
//
// The directory of -state has the results and the inputs found. A run that was stopped goes on there. A longer -for
// adds to the searches before. With -keep an input becomes part of the corpus in testdata/fuzz if it reaches a
// statement that no other input of the corpus reaches.
//
// An input that fails is written to testdata/fuzz, from where go test reads it. The other targets go on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// run searches with the targets, and prints the result of each and the table of all.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	length := flags.Duration("for", time.Minute, "the processor time that each target gets")
	state := flags.String("state", "", "the directory of results and inputs; by default a temporary one")
	keep := flags.Bool("keep", false, "add the inputs that reach new statements to the corpora in testdata/fuzz")
	side := flags.Int("parallel", runtime.NumCPU(), "the number of targets that are searched side by side")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *length < time.Second {
		return fmt.Errorf("-for %v: a search takes at least a second", *length)
	}
	if *side < 1 {
		return fmt.Errorf("-parallel %d: at least one target is searched at a time", *side)
	}
	targets, err := targetsOf(flags.Args())
	if err != nil {
		return err
	}
	dir := *state
	if dir == "" {
		if dir, err = os.MkdirTemp("", "fuzz"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	rec, err := openRecord(filepath.Join(dir, "results"))
	if err != nil {
		return err
	}
	defer func() { _ = rec.close() }()

	s := &searcher{dir: dir, length: *length}
	lines := log.New(out, "", 0)
	errs := make([]error, len(targets)+1)
	var workers errgroup.Group
	workers.SetLimit(*side)
	for i, t := range targets {
		workers.Go(func() error {
			if err := s.one(ctx, t, rec, *keep, lines); err != nil && ctx.Err() == nil {
				errs[i] = fmt.Errorf("%s: %w", t, err)
			}
			return nil // the other targets go on
		})
	}
	_ = workers.Wait()
	errs[len(targets)] = errors.Join(ctx.Err(), report(out, targets, rec))
	return errors.Join(errs...)
}

// one searches with the target until it has had its time. The time of earlier runs counts. It notes how far each search
// came, and adds to the corpus.
func (s *searcher) one(ctx context.Context, t target, rec *record, keep bool, lines *log.Logger) error {
	var all progress
	for ctx.Err() == nil {
		left := s.length - rec.of(t).time
		if left < time.Second {
			break
		}
		p, err := s.search(ctx, t, left)
		if err != nil {
			return err
		}
		if err := rec.add(t, p); err != nil {
			return err
		}
		all = all.plus(p)
	}
	var (
		kept int
		err  error
	)
	if keep && ctx.Err() == nil {
		kept, err = s.keep(ctx, t)
	}
	lines.Printf("%s: %v, %d executions, %d inputs found, %d kept", t, all.time, all.executions, all.inputs, kept)
	return err
}

// report prints the table of what all runs did.
func report(out io.Writer, targets []target, rec *record) error {
	var all progress
	fmt.Fprint(out, "\n| Target | Minutes | Executions | Inputs found | Corpus |\n|---|---|---|---|---|\n")
	for _, t := range targets {
		p := rec.of(t)
		all = all.plus(p)
		corpus, err := os.ReadDir(t.corpus())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		fmt.Fprintf(out, "| `%s` | %.1f | %d | %d | %d |\n", t, p.time.Minutes(), p.executions, p.inputs, len(corpus))
	}
	_, err := fmt.Fprintf(out, "| all | %.1f | %d | %d | |\n", all.time.Minutes(), all.executions, all.inputs)
	return err
}

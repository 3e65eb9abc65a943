// Mutate measures the tests by mutation. It changes one expression or statement of the code at a time, and runs the
// tests of the package. A mutant that no test notices is a survivor: the tests lack a case, or the change has no
// effect.
//
//	go run ./verify/mutate -n 50 ./taxonomy ./server       50 mutants of each package, by chance
//	go run ./verify/mutate -seed 7 -n 50 ./taxonomy        others
//	go run ./verify/mutate -also . ./internal/journal      tests of the client run too
//	go run ./verify/mutate -mutant 'taxonomy/hint.go wait: d < 0 -> d <= 0' ./taxonomy
//
// The file survivors.txt lists survivors whose change has no effect, each with its reason. They are left out of the
// score. With -state FILE the results are appended to a file, and a run that was stopped goes on there.
//
// The sources stay as they are: go test reads each mutant through an overlay.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed survivors.txt
var survivors string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run tries the mutants of the packages, and prints the table and the survivors.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	n := flags.Int("n", 20, "the number of mutants of each package; 0: all")
	seed := flags.Uint64("seed", 1, "for the choice")
	one := flags.String("mutant", "", "the only mutant, by the name that a report prints")
	also := flags.String("also", "",
		"directories, separated by commas, of packages whose tests run if the package's own notice nothing")
	limit := flags.Duration("timeout", 2*time.Minute, "the time limit of a package's tests")
	state := flags.String("state", "", "the file that keeps the results")
	if err := flags.Parse(args); err != nil {
		return err
	}
	known, err := parseReasons(survivors)
	if err != nil {
		return err
	}
	rec, err := openRecord(*state)
	if err != nil {
		return err
	}
	defer func() { _ = rec.close() }()
	var scores []score
	for _, dir := range flags.Args() {
		mutants, err := mutantsOf(filepath.Clean(dir))
		if err != nil {
			return err
		}
		if *one != "" {
			mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return m.name != *one })
		}
		t := tester{dir: filepath.Clean(dir), limit: *limit}
		if *also != "" {
			t.also = strings.Split(*also, ",")
		}
		if err := t.check(ctx); err != nil {
			return err
		}
		s := score{dir: t.dir, sites: len(mutants)}
		rng := rand.New(rand.NewPCG(*seed, *seed))
		rng.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
		for _, m := range mutants {
			if *n > 0 && s.tried() == *n {
				break
			}
			v, done := rec.seen[m.name]
			if !done {
				if v, err = t.try(ctx, m); err != nil {
					return err
				}
				if err := rec.add(m.name, v); err != nil {
					return err
				}
				fmt.Fprintf(out, "%-9s %s\n", v, m.name)
			}
			s.count(m, v, known)
		}
		scores = append(scores, s)
	}
	report(out, scores)
	return nil
}

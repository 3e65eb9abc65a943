package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the command, and returns its exit status: 1 when it failed or a target was missed under -check, 2 when the
// arguments are wrong.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "measure coarsely: 3 rounds of 20ms")
	check := flags.Bool("check", false, "exit with status 1 when a target is missed")
	only := flags.String("run", "", "measure only the scenarios whose name matches this `regexp`")
	rounds := flags.Int("rounds", 21, "how many rounds")
	slice := flags.Duration("slice", 40*time.Millisecond, "how long a contestant runs in one round")
	records := flags.Int("records", manyRecords,
		"how many records the large tables hold of the scenarios named scale-…")
	dir := flags.String("dir", os.TempDir(), "where files are written, and removed")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if *quick && !given["rounds"] {
		*rounds = 3
	}
	if *quick && !given["slice"] {
		*slice = 20 * time.Millisecond
	}
	wanted, err := choose(scenarios(*records), *only)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("benchmarks: unexpected argument %q", flags.Arg(0))
	case *rounds < 1:
		err = fmt.Errorf("benchmarks: -rounds is %d, it must be at least 1", *rounds)
	case *records < few:
		err = fmt.Errorf("benchmarks: -records is %d, it must be at least %d", *records, few)
	case *slice <= 0:
		err = fmt.Errorf("benchmarks: -slice is %v, it must be positive", *slice)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}

	fmt.Fprintf(stdout, "command  %s\n", strings.TrimSpace("go run ./benchmarks "+strings.Join(args, " ")))
	describe(stdout, *dir)
	fmt.Fprintf(stdout, "rounds   %d, contestants in turn, about %v each; spread is (max−min)/median\n"+
		"         ratio is the median over the rounds of the time divided by that of the contestant with the ratio 1\n"+
		"         half of the rounds is the range from the lower to the upper quartile of the ratio\n\n", *rounds,
		*slice)
	missed, err := pace{rounds: *rounds, slice: *slice, dir: *dir}.playAll(stdout, wanted)
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	return status(err, *check, missed)
}

// status is the exit status of a run whose arguments were right.
func status(err error, check bool, missed int) int {
	if err != nil || check && missed > 0 {
		return 1
	}
	return 0
}

// choose returns the scenarios whose name matches.
func choose(all []scenario, pattern string) ([]scenario, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("benchmarks: -run: %w", err)
	}
	var chosen []scenario
	var names []string
	for _, s := range all {
		names = append(names, s.name)
		if re.MatchString(s.name) && (pattern != "" || !s.slow) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("benchmarks: -run %q matches none of %s", pattern, strings.Join(names, ", "))
	}
	return chosen, nil
}

// playAll measures the scenarios, prints each as soon as it is done and the targets at the end, and returns how many
// of these were missed.
func (p pace) playAll(w io.Writer, wanted []scenario) (missed int, err error) {
	start := time.Now()
	played := map[string]outcome{}
	where, widest := "", 0.0
	defer func() {
		for _, s := range wanted {
			if s.end != nil {
				err = errors.Join(err, s.end())
			}
		}
	}()
	for _, s := range wanted {
		o, err := p.play(s)
		if errors.Is(err, errNoEngine) {
			fmt.Fprintf(w, "%s: not run: %v\n\n", s.name, err)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("benchmarks: %w", err)
		}
		played[s.name] = o
		s.write(w, o)
		if who, spread := s.widest(o); spread >= widest {
			where, widest = s.name+", "+who, spread
		}
	}
	fmt.Fprintf(w, "widest spread %.0f%% (%s), %v in all\n\n", 100*widest, where, time.Since(start).Round(time.Second))
	return report(w, targets(), played), nil
}

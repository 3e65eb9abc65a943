package contest

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

// A Program is a command that measures scenarios.
type Program struct {
	// Path is the argument of "go run" that starts the program.
	Path string
	// Peers are the paths of the modules whose versions are printed.
	Peers []string
	// Flags adds flags to those of every program. Nil means none.
	Flags func(*flag.FlagSet)
	// Scenarios returns all scenarios, in the order of the report. It is called after the flags are parsed. Its error
	// refuses the value of a flag.
	Scenarios func() ([]Scenario, error)
	// Targets are compared with the outcomes.
	Targets []Target
	// Blocks returns the Markdown for a page. Nil means that the program has no flag -docs.
	Blocks func(played map[string]Outcome) []Block
}

// Run is the command, and returns its exit status: 1 when it failed or a target was missed under -check, 2 when the
// arguments are wrong.
func (p Program) Run(args []string, stdout, stderr io.Writer) int {
	s := settings{program: p}
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "measure coarsely: 3 rounds of 20ms")
	check := flags.Bool("check", false, "exit with status 1 when a target is missed")
	only := flags.String("run", "", "measure only the scenarios whose name matches this `regexp`")
	flags.IntVar(&s.rounds, "rounds", 21, "how many rounds")
	flags.DurationVar(&s.slice, "slice", 40*time.Millisecond, "how long a contestant runs in one round")
	flags.StringVar(&s.dir, "dir", os.TempDir(), "where files are written, and removed")
	flags.StringVar(&s.benchstat, "benchstat", "", "write every round to this `file`, for benchstat")
	if p.Blocks != nil {
		flags.StringVar(&s.page, "docs", "", "replace the tables in this Markdown `file`")
	}
	if p.Flags != nil {
		p.Flags(flags)
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if *quick && !given["rounds"] {
		s.rounds = 3
	}
	if *quick && !given["slice"] {
		s.slice = 20 * time.Millisecond
	}
	wanted, err := p.choose(*only)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("benchmarks: unexpected argument %q", flags.Arg(0))
	case s.rounds < 1:
		err = fmt.Errorf("benchmarks: -rounds is %d, it must be at least 1", s.rounds)
	case s.slice <= 0:
		err = fmt.Errorf("benchmarks: -slice is %v, it must be positive", s.slice)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}

	fmt.Fprintf(stdout, "command  %s\n", strings.TrimSpace("go run "+p.Path+" "+strings.Join(args, " ")))
	describe(stdout, s.dir, p.Peers)
	fmt.Fprintf(stdout, "rounds   %d, contestants in turn, about %v each; spread is (max−min)/median\n"+
		"         ratio is the median over the rounds of the time divided by that of the contestant with the ratio 1\n"+
		"         half of the rounds is the range from the lower to the upper quartile of the ratio\n\n", s.rounds,
		s.slice)
	missed, err := s.playAll(stdout, wanted)
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
func (p Program) choose(pattern string) ([]Scenario, error) {
	all, err := p.Scenarios()
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("benchmarks: -run: %w", err)
	}
	var chosen []Scenario
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
		if re.MatchString(s.Name) && (pattern != "" || !s.Slow) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("benchmarks: -run %q matches none of %s", pattern, strings.Join(names, ", "))
	}
	return chosen, nil
}

// settings are a run's.
type settings struct {
	pace
	program   Program
	benchstat string // the file for benchstat; empty for none
	page      string // the Markdown file; empty for none
}

// playAll measures the scenarios, prints each as soon as it is done and the targets at the end, and returns how many
// of these were missed.
func (s settings) playAll(w io.Writer, wanted []Scenario) (missed int, err error) {
	start := time.Now()
	played := map[string]Outcome{}
	where, widest := "", 0.0
	defer func() {
		for _, sc := range wanted {
			if sc.End != nil {
				err = errors.Join(err, sc.End())
			}
		}
	}()
	for _, sc := range wanted {
		o, err := s.play(sc)
		if errors.Is(err, ErrNoEngine) {
			fmt.Fprintf(w, "%s: not run: %v\n\n", sc.Name, err)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("benchmarks: %w", err)
		}
		played[sc.Name] = o
		sc.write(w, o)
		if who, spread := sc.widest(o); spread >= widest {
			where, widest = sc.Name+", "+who, spread
		}
	}
	fmt.Fprintf(w, "widest spread %.0f%% (%s), %v in all\n\n", 100*widest, where, time.Since(start).Round(time.Second))
	if err := s.publish(wanted, played); err != nil {
		return 0, fmt.Errorf("benchmarks: %w", err)
	}
	return report(w, s.program.Targets, played), nil
}

// publish writes the files that the flags name.
func (s settings) publish(wanted []Scenario, played map[string]Outcome) error {
	var failures []error
	if s.benchstat != "" {
		failures = append(failures, os.WriteFile(s.benchstat, []byte(benchstatText(wanted, played)), 0o644))
	}
	if s.page != "" {
		failures = append(failures, Publish(s.page, s.program.Blocks(played)))
	}
	return errors.Join(failures...)
}

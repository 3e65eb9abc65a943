package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/cmd/redo/internal/form"
	"github.com/redo-go/redo/cmd/redo/internal/openapi"
	"github.com/redo-go/redo/cmd/redo/internal/targetfile"
	"github.com/redo-go/redo/conformance"
)

// check holds the command's flags.
type check struct {
	terminal
	target   targetFlags
	choice   choice
	outputs  outputs
	strict   bool
	baseline string
	seed     uint64
	timeout  time.Duration
	workers  int
	rate     float64
	failFast bool
	list     bool
	explain  string
	init     bool

	openAPI, operation string
}

func newCheck(t terminal) *cobra.Command {
	k := &check{terminal: t}
	cmd := &cobra.Command{
		Use:   "check [flags] TARGET",
		Short: "Try whether a server keeps the rules of the Idempotency-Key",
		Long: `check sends requests to a server and reports the rules of the Idempotency-Key that it breaks, with
the evidence. TARGET is a file that describes the server (YAML or JSON, - is standard input), or for a
first try the URL of one operation, which is sent with POST.

A case that needs more than the description declares is skipped. Without a count of effects, a replay
and a second run look the same, and most rules stay unproved: use --effects. A target file may hold
commands, which check runs. Read a file of another author before you use it. check speaks HTTP/1.1 only.

Exit codes:
  0  no MUST is broken; the last line names the cases that were not tried
  1  a MUST is broken, could not be shown or is blocked, or an expected failure now passes
  2  wrong flags, a wrong description, or no case selected
  3  the target can't be reached, died during the run, or does not do as described
  4  the run did not come to its end

An interrupt ends the run. The report has all results up to then.`,
		Example: `  redo check http://localhost:8080/refunds --body '{"amount":{{number}}}'
  redo check --init > target.yaml
  redo check target.yaml
  redo check target.yaml --run 'replay-*' --skip replay-large --strict
  redo check target.yaml --output report.json --output junit.xml
  redo check --list --run conc
  redo check --explain fault-lost-response`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error { return k.run(c, args) },
	}
	f := cmd.Flags()
	k.choice.flags(f)
	k.target.flags(f)
	k.outputs.flags(f)
	f.BoolVar(&k.strict, "strict", false, "rules of all levels count, not only those that are a MUST")
	f.StringVar(&k.baseline, "baseline", "",
		"`file` of failures that are known: on each line a case and why it is expected")
	f.Uint64Var(&k.seed, "seed", 0, "repeat the choices of the run that reported this seed (default random)")
	f.DurationVar(&k.timeout, "timeout", 0, "end the run after this long, such as 5m (default never)")
	f.IntVar(&k.workers, "concurrency", 8, "how many cases run at a time, where effects are counted by case")
	f.Float64Var(&k.rate, "rate", 0,
		"send at most so many requests a `second` (default no limit; 429 and 503 with Retry-After are waited for)")
	f.BoolVar(&k.failFast, "fail-fast", false, "end the run at the first broken MUST; cases run one at a time")
	f.BoolVar(&k.list, "list", false, "list the cases, and send nothing")
	f.StringVar(&k.explain, "explain", "", "explain the `case`, and send nothing")
	f.BoolVar(&k.init, "init", false, "print a target file to start from, and send nothing")
	f.StringVar(&k.openAPI, "openapi", "",
		"print a target file for an operation of this OpenAPI `file`, and send nothing")
	f.StringVar(&k.operation, "operation", "", "with --openapi: the operation's `name`, or its method and path")
	cmd.MarkFlagsMutuallyExclusive("list", "explain", "init", "openapi")
	cmd.MarkFlagsRequiredTogether("openapi", "operation")
	complete(cmd, "run", caseNames)
	complete(cmd, "skip", caseNames)
	complete(cmd, "explain", caseNames)
	complete(cmd, "format", form.Names)
	complete(cmd, "profile", conformance.ProfileNames)
	return cmd
}

func (k *check) run(c *cobra.Command, args []string) error {
	if k.init {
		_, err := io.WriteString(k.out, targetfile.Example)
		return err
	}
	if k.openAPI != "" {
		return k.printOpenAPI()
	}
	if k.explain != "" {
		return explainCase(k.out, k.explain)
	}
	opts, err := k.choice.options()
	if err != nil {
		return err
	}
	if k.list {
		return listCases(k.out, k.choice, k.outputs.format)
	}
	if len(args) == 0 {
		return errors.New("there is no target: give the URL of an operation or a target file; redo check --init " +
			"prints one")
	}
	if err := k.checkNumbers(); err != nil {
		return err
	}
	target, err := k.target.read(args[0], k.in, c.Flags().Changed)
	if err != nil {
		return err
	}
	known, err := readBaseline(k.baseline)
	if err != nil {
		return err
	}
	opts = append(opts, known...)
	opts = append(opts, conformance.Concurrency(k.workers), conformance.Rate(k.rate))
	if k.failFast {
		opts = append(opts, conformance.FailFast())
	}
	if c.Flags().Changed("seed") {
		opts = append(opts, conformance.Seed(k.seed))
	}
	files, err := k.outputs.open()
	if err != nil {
		return err
	}
	defer files.close()
	return k.try(c.Context(), target, opts, files, again(c.Flags(), args[0]))
}

// checkNumbers checks the flags whose values package conformance would refuse by the names of its options.
func (k *check) checkNumbers() error {
	const fastest = 1e6 // the limit of conformance.Rate
	switch {
	case k.timeout < 0:
		return fmt.Errorf("--timeout is %v, it must not be negative", k.timeout)
	case k.workers < 1:
		return fmt.Errorf("--concurrency is %d, it must be positive", k.workers)
	case !(k.rate >= 0 && k.rate <= fastest): // NaN too
		return fmt.Errorf("--rate is %v, it must be between 0, which sets no limit, and %.0f requests a second", k.rate,
			fastest)
	}
	return nil
}

// printOpenAPI prints a target file for an operation of an OpenAPI document.
func (k *check) printOpenAPI() error {
	document, err := readInput(k.openAPI, k.in)
	if err != nil {
		return fmt.Errorf("--openapi: %w", err)
	}
	target, notes, err := openapi.Target(document, k.operation)
	if err != nil {
		return fmt.Errorf("--openapi %s: %w", k.openAPI, err)
	}
	if k.target.baseURL != "" {
		target.BaseURL = k.target.baseURL
	}
	text, err := targetfile.Format(target)
	if err != nil {
		return failed(err)
	}
	fmt.Fprintf(k.out, "# %s of %s, for redo check. Read it before you use it:\n", k.operation,
		filepath.Base(k.openAPI))
	for _, note := range notes {
		fmt.Fprintf(k.out, "# - %s\n", note)
	}
	_, err = k.out.Write(text)
	return err
}

// try runs the cases. It writes the reports even if the run fails.
func (k *check) try(ctx context.Context, target conformance.Target, opts []conformance.Option, files *files,
	command string) error {
	if k.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, k.timeout, fmt.Errorf("--timeout: %v have passed", k.timeout))
		defer cancel()
	}
	line := newProgress(k.terminal)
	report, runErr := conformance.Run(ctx, target, append(opts, conformance.Progress(line.show))...)
	line.clear()
	o := form.Options{Strict: k.strict, Colors: k.colors, Verbose: k.outputs.verbose,
		Command: command}
	code := report.ExitCode(k.strict)
	var wrong error
	if ran(report) || k.outputs.format != "text" {
		wrong = files.standard(k.out, o, report)
		if wrong == nil && k.outputs.format == "text" {
			runErr = nil // the text output already reports it
		}
	}
	if wrong = errors.Join(wrong, files.write(o, report)); wrong != nil {
		if code == conformance.ExitConforms {
			code = conformance.ExitFault
		}
		runErr = errors.Join(runErr, fmt.Errorf("the report could not be written: %w", wrong))
	}
	return ended(code, runErr)
}

// ended returns an error that ends the program with the given exit code. If err is not nil, the program prints it.
func ended(code int, err error) error {
	if code == conformance.ExitConforms {
		return nil
	}
	return exit{code, err}
}

// ran reports whether the run tried at least one case.
func ran(r conformance.Report) bool {
	return slices.ContainsFunc(r.Results, func(res conformance.Result) bool {
		return res.Verdict != conformance.Harness || len(res.Findings) > 0
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/cmd/redo/internal/clientcheck"
	"github.com/redo-go/redo/cmd/redo/internal/form"
	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/internal/wire"
)

// A clientCheck holds the flags of client-check.
type clientCheck struct {
	terminal
	options clientcheck.Options
	outputs outputs
	strict  bool
	only    []string
	list    bool
}

func newClientCheck(t terminal) *cobra.Command {
	k := &clientCheck{terminal: t}
	cmd := &cobra.Command{
		Use:   "client-check [flags] -- COMMAND [ARG...]",
		Short: "Try whether a client keeps the rules of the Idempotency-Key",
		Long: `client-check runs COMMAND once or twice for each case, against a server that loses, delays and refuses
responses. It judges keys, waits, effects and exit statuses. COMMAND can be written in any language.

One run of COMMAND makes one call: POST with a JSON body. It exits with 0 if the call succeeded, and
with another status if not. Its environment has:
  REDO_URL        the URL to call
  REDO_BASE_URL   the origin of REDO_URL, for SDKs that add their own path
  REDO_OPERATION  the operation's name; a command that is killed runs again with the same name
  REDO_DIR        a directory of the operation's own, which outlives the command

COMMAND is run without a shell. A case whose fault the client does not retry is skipped.

Exit codes:
  0  conforms
  1  a MUST is broken
  2  wrong flags, or no case selected
  3  the command can't be started, or does not keep the contract above
  4  the run did not come to its end`,
		Example: `  redo client-check -- ./refund
  redo client-check --output report.json --output junit.xml -- ./refund
  redo client-check --run client-killed --run 'client-redirect-*' -- ./refund
  redo client-check --list`,
		Args: usageArgs(cobra.ArbitraryArgs),
		RunE: func(c *cobra.Command, args []string) error { return k.run(c.Context(), args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the command's own flags are not ours
	f.StringSliceVar(&k.only, "run", nil, "run only these `cases`: slugs, or globs such as 'client-redirect-*'")
	f.StringVar(&k.options.KeyHeader, "key-header", "Idempotency-Key", "the `name` of the header that carries the key")
	f.DurationVar(&k.options.Limit, "timeout", clientcheck.DefaultLimit, "kill a run of the command after this long")
	f.DurationVar(&k.options.ClientTimeout, "client-timeout", 0,
		"the client's own timeout of one attempt; without it client-timeout is skipped")
	f.IntVar(&k.options.Workers, "concurrency", clientcheck.DefaultWorkers, "how many cases run at a time")
	f.BoolVar(&k.strict, "strict", false, "rules of all levels count, not only those that are a MUST")
	f.BoolVar(&k.list, "list", false, "list the cases, and run nothing")
	k.outputs.flags(f)
	complete(cmd, "format", form.Names)
	return cmd
}

func (k *clientCheck) run(ctx context.Context, args []string) error {
	chosen, err := matchClientCases(k.only)
	if err != nil {
		return err
	}
	if k.list {
		return listClientCases(k.terminal, chosen)
	}
	if err := k.check(args); err != nil {
		return err
	}
	files, err := k.outputs.open()
	if err != nil {
		return err
	}
	defer files.close()
	line := newProgress(k.terminal)
	o := k.options
	o.Command, o.Progress = args, line.show
	for _, c := range chosen {
		o.Only = append(o.Only, c.Slug)
	}
	report, runErr := clientcheck.Run(ctx, o)
	line.clear()
	how := form.Options{Strict: k.strict, Colors: k.colors, Verbose: k.outputs.verbose}
	wrong := errors.Join(files.standard(k.out, how, report), files.write(how, report))
	code := report.ExitCode(k.strict)
	if wrong != nil {
		code = max(code, conformance.ExitFault)
		runErr = fmt.Errorf("the report could not be written: %w", wrong)
	}
	return ended(code, runErr)
}

// check returns an error for a value that no run can have.
func (k *clientCheck) check(args []string) error {
	const usage = "; usage: redo client-check [flags] -- COMMAND [ARG...]"
	o := k.options
	switch {
	case len(args) == 0:
		return errors.New("no command is given" + usage)
	case args[0] == "":
		return errors.New("the command is empty" + usage)
	case o.Workers <= 0:
		return fmt.Errorf("--concurrency is %d, it must be positive", o.Workers)
	case o.Limit <= 0:
		return fmt.Errorf("--timeout is %v, it must be positive", o.Limit)
	case o.ClientTimeout < 0:
		return fmt.Errorf("--client-timeout is %v, it must not be negative", o.ClientTimeout)
	}
	if err := wire.CheckKeyHeader(o.KeyHeader); err != nil {
		return fmt.Errorf("--key-header: %w", err)
	}
	return nil
}

// matchClientCases returns the cases that the patterns select. No pattern selects all of them.
func matchClientCases(patterns []string) ([]conformance.Case, error) {
	all := clientcheck.Cases()
	if len(patterns) == 0 {
		return all, nil
	}
	selected := map[string]bool{}
	for _, p := range patterns {
		found := false
		for _, c := range all {
			matched, err := path.Match(p, c.Slug)
			if err != nil {
				return nil, fmt.Errorf("--run %q: the pattern is malformed", p)
			}
			if matched {
				found, selected[c.Slug] = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("--run %q: there is no such case; redo client-check --list names them all", p)
		}
	}
	return slices.DeleteFunc(all, func(c conformance.Case) bool { return !selected[c.Slug] }), nil
}

func listClientCases(t terminal, cases []conformance.Case) error {
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	for _, c := range cases {
		refs := make([]string, len(c.Sources))
		for i, s := range c.Sources {
			refs[i] = strings.TrimSpace(fmt.Sprintf("%s %s", s.Ref, s.Level))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Slug, c.Level, c.Rule, strings.Join(refs, "; "))
	}
	return table.Flush()
}

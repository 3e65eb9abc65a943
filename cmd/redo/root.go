package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redo-go/redo/cmd/redo/internal/nearest"
	"github.com/redo-go/redo/conformance"
)

// These are the exit codes of all commands except check. The exit codes of check are those of its report.
const (
	exitFailed = conformance.ExitFailed // the command failed
	exitUsage  = conformance.ExitConfig // wrong flags, arguments or files
)

// exit is an error that carries the program's exit status.
type exit struct {
	code int
	err  error // nil if the error was already printed
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// failed returns the error of a command that was valid but did not succeed.
func failed(err error) error { return exit{exitFailed, err} }

// run runs a command line and returns its exit status.
func run(ctx context.Context, args []string, t terminal) int {
	out := &printer{w: t.out}
	if t.out != nil {
		t.out = out
	}
	root := newRoot(t)
	refuseUnknown(root)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	// Errors that cobra itself returns are usage errors.
	e := exit{exitUsage, err}
	switch {
	case out.err != nil:
		e = exit{exitFailed, cmp.Or(err, out.err)}
	case err == nil:
		return 0
	}
	errors.As(err, &e)
	if e.err != nil {
		fmt.Fprintf(t.err, "redo: %s\n", strings.TrimPrefix(e.err.Error(), "redo: "))
	}
	return e.code
}

// A printer writes a command's output, and keeps the first error, which cobra and the commands may drop.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.err = cmp.Or(p.err, err)
	return n, err
}

func newRoot(t terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "redo",
		Short: "Check, play and resolve HTTP calls that are safe to repeat",
		Long: `redo checks whether a server keeps the rules of the Idempotency-Key. It plays a server or a network
that loses responses, to check clients. It shows and resolves the operations that a client has left
pending.

Exit codes, unless the help of a command has others:
  0  the command succeeded
  1  the command failed: a store can't be opened, or something is left to do
  2  wrong flags or arguments`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              subcommands,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return emptyFlag(c) },
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(t.in)
	root.SetOut(t.out)
	root.SetErr(t.err)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(
		newCheck(t), newClientCheck(t), newReport(t), newServe(t), newProxy(t), newOps(t), newRecords(t), newEvents(t),
		newInbox(t),
		newConsole(t), newFind(t), newExplain(t), newVersion(t),
	)
	return root
}

// refuseUnknown makes cobra's own commands return an error for an unknown command or shell. They print help for it.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil {
					return err
				}
				return subcommands(found, rest)
			}
		case "completion":
			c.Args = usageArgs(subcommands)
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// mayBeEmpty lists the flags that may be empty, and those that have a clearer error for an empty value.
var mayBeEmpty = []string{"body", "scope", "listen", "address", "author"}

// emptyFlag refuses a flag that is given without a value, as by an unset variable of a shell.
func emptyFlag(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" && !slices.Contains(mayBeEmpty, f.Name) {
			err = fmt.Errorf(`--%s "": it needs a value`, f.Name)
		}
	})
	return err
}

// flagError adds the flag that is nearest to an unknown one, or the form of a duration, to the error of pflag.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration" {
		return fmt.Errorf("%w; write a duration as 168h, 30m or 10s", err)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return fmt.Errorf("%w%s", err, nearest.DidYouMean("--"+unknown.GetSpecifiedName(), names))
}

// subcommands rejects the arguments of a command that has only subcommands. It suggests the nearest subcommand.
func subcommands(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	near := ""
	if names := c.SuggestionsFor(args[0]); len(names) > 0 {
		near = fmt.Sprintf(" (did you mean %s?)", strings.Join(names, " or "))
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), near)
}

// usageArgs adds the command's usage to the message about a wrong number of arguments.
func usageArgs(rule cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := rule(c, args); err != nil {
			return exit{exitUsage, errorWithUse{err, c.UseLine()}}
		}
		return nil
	}
}

type errorWithUse struct {
	err error
	use string
}

func (e errorWithUse) Error() string { return e.err.Error() + "; usage: " + e.use }
func (e errorWithUse) Unwrap() error { return e.err }

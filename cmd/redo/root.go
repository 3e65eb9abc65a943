package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/conformance"
)

// Exit codes of the commands other than check, whose codes are the report's.
const (
	exitFailed = conformance.ExitFailed // what was asked for could not be done
	exitUsage  = conformance.ExitConfig // wrong flags, arguments or files
)

// An exit is an error that says with which status the program ends.
type exit struct {
	code int
	err  error // nil: it was told already
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// failed is the error of a command that was understood and did not succeed.
func failed(err error) error { return exit{exitFailed, err} }

// run runs a command line and returns its exit status.
func run(ctx context.Context, args []string, t terminal) int {
	root := newRoot(t)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	// What cobra itself finds wrong is a wrong command line.
	e := exit{exitUsage, err}
	errors.As(err, &e)
	if e.err != nil {
		fmt.Fprintf(t.err, "redo: %s\n", strings.TrimPrefix(e.err.Error(), "redo: "))
	}
	return e.code
}

func newRoot(t terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "redo",
		Short: "Try, play and look after HTTP calls that are safe to repeat",
		Long: `redo tries whether a server keeps the rules of the Idempotency-Key, plays a server or a network
that loses answers so that clients can be tried, and looks after operations that a client has
left pending.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(t.in)
	root.SetOut(t.out)
	root.SetErr(t.err)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(
		newCheck(t), newReport(t), newServe(t), newProxy(t), newOps(t), newExplain(t), newVersion(t),
	)
	return root
}

// usageArgs makes the message about a wrong number of arguments say how the command is used.
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

// Command redo checks a server's idempotency. It also runs a reference server, or a proxy that loses responses. A
// third group of commands inspects and resolves the operations that a client left pending.
//
//	redo check target.yaml        # is it safe to retry against this server?
//	redo serve                    # a correct server, to test clients against
//	redo ops list payments.redo   # the operations that a crash left pending
//
// The command redo --help lists the commands. The command redo check --help lists the exit codes of check.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redo-go/redo/internal/bidi"
)

func main() {
	// The first interrupt ends the run in good order. Only that one is caught, so a second interrupt kills the
	// program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	os.Exit(run(ctx, os.Args[1:], systemTerminal()))
}

// terminal holds the streams that a command reads from and writes to.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	live     bool // err is an interactive terminal, so progress may be drawn on it
	colors   bool // out is a terminal, and colours are enabled
}

func systemTerminal() terminal {
	plain := os.Getenv("TERM") == "dumb"
	return terminal{
		in: os.Stdin, out: legible(os.Stdout, isTerminal(os.Stdout)), err: legible(os.Stderr, isTerminal(os.Stderr)),
		live:   isTerminal(os.Stderr) && !plain,
		colors: isTerminal(os.Stdout) && !plain && os.Getenv("NO_COLOR") == "", // no-color.org
	}
}

// legible returns a writer that shows names as they are on a terminal. Files and pipes get each byte unchanged.
func legible(w io.Writer, terminal bool) io.Writer {
	if terminal {
		return bidi.Writer{W: w}
	}
	return w
}

// isTerminal reports whether f is a character device. It is also true for the null device, where drawing is
// harmless.
func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// Command redo tries a server's idempotency, plays a server or a network that loses answers, and looks after the
// operations that a client has left pending.
//
//	redo check target.yaml        # is it safe to retry against this server?
//	redo serve                    # a server that is, for clients to be tried against
//	redo ops list payments.redo   # what a crash has left behind
//
// The commands are told by redo --help, and their exit codes by redo check --help.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// The first interrupt ends what runs in good order. It is the only one that is caught: a second one kills.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	os.Exit(run(ctx, os.Args[1:], systemTerminal()))
}

// A terminal is what a command reads from and writes to.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	live     bool // err is a terminal that a person looks at, so progress may be drawn on it
	colors   bool // out is one, and colours are wanted
}

func systemTerminal() terminal {
	plain := os.Getenv("TERM") == "dumb"
	return terminal{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		live:   isTerminal(os.Stderr) && !plain,
		colors: isTerminal(os.Stdout) && !plain && os.Getenv("NO_COLOR") == "", // no-color.org
	}
}

// isTerminal takes every character device for one. That goes for the null device too, where drawing does no harm.
func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// Webhooks shows the whole way of a refund. A client requests it. The producer writes the refund, the record of
// the request and an event for the outbox in one transaction. A relay sends the event as a signed webhook. The
// consumer's inbox enters it into the consumer's ledger. Everything on the way is lost, refused, repeated or
// killed. At the end both ledgers hold each operation once.
//
//	go run ./verify/webhooks
//	go run ./verify/webhooks -kills 100
//	go run ./verify/webhooks -postgres postgres://app@db/test
//
// Without -postgres it needs Go alone: client, producer and consumer keep a bbolt file each. Such a file belongs
// to one process, so the relay runs in the producer's: three processes. With -postgres the producer and the
// consumer have a schema each, dropped at the end, and the relay is a fourth process. Either takes a few seconds
// and uses the loopback interface and a temporary directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/redo-go/redo/internal/stage"
)

func main() {
	var err error
	if stage.IsPart() {
		err = stage.Play(play)
	} else {
		// After one of these signals the program still removes its files and processes. SIGPIPE means that the
		// reader of its output has ended.
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
		defer stop()
		err = tell(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "webhooks:", err)
		os.Exit(1)
	}
}

// tell plays the story, or the campaign, and counts the ledgers.
func tell(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("webhooks", flag.ContinueOnError)
	url := flags.String("postgres", "",
		"the `URL` of a Postgres in which schemas may be made; without it everything is kept in files")
	kills := flags.Uint("kills", 0,
		"instead of the story, how many processes are killed at random moments while refunds are made")
	seed := flags.Uint64("seed", rand.Uint64(), "for the random moments of -kills")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := newSystem(ctx, *url, out)
	if err != nil {
		return err
	}
	defer s.close()
	if *kills == 0 {
		return s.story(ctx)
	}
	fmt.Fprintf(out, "%d processes are killed at random moments (seed %d).\n", *kills, *seed)
	t, err := s.campaign(ctx, int(*kills), rand.New(rand.NewPCG(*seed, *seed)))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "killed: %v; webhooks verified with the old secret: %d, with the new one: %d\n",
		s.killed, t.verified[oldSecret], t.verified[newSecret])
	return t.verdict(out, s.timeline)
}

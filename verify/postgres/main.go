// Postgres shows what a record beside the effect can't promise, and a record inside its transaction can. A refund
// service keeps its ledger and redo's records in one Postgres. It is killed with SIGKILL again and again, wherever it is,
// while clients call it: each operation from two clients at once, retried until it is answered. At the end the ledger is
// counted, for each way to run the service.
//
//	go run ./verify/postgres
//	go run ./verify/postgres -kills 200 -postgres postgres://app@db/test
//
// It wants a Postgres: on this machine, or where -postgres or REDO_TEST_POSTGRES says. It makes a schema of its own and
// drops it at the end.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"

	"github.com/redo-go/redo/internal/stage"
)

// here is where Postgres is looked for when nothing says otherwise.
const here = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if stage.IsPart() {
		err = stage.Play(serve)
	} else {
		err = tell(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(1)
	}
}

// tell runs the campaign in each mode and prints its tally.
func tell(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("postgres", flag.ContinueOnError)
	url := flags.String("postgres", cmp.Or(os.Getenv("REDO_TEST_POSTGRES"), here), "the `URL` of a Postgres in which a schema may be made")
	kills := flags.Int("kills", 25, "how often the service is killed in each mode")
	seed := flags.Uint64("seed", rand.Uint64(), "for the moments of the kills")
	if err := flags.Parse(args); err != nil {
		return err
	}
	db, err := openDatabase(ctx, *url)
	if err != nil {
		return err
	}
	defer db.Close()
	fmt.Fprintf(out, "A refund service is killed %d times in each mode (seed %d). Its ledger, counted afterwards:\n\n", *kills, *seed)
	fmt.Fprintf(out, "%-28s%7s%12s%9s%12s%12s%6s\n", "record and effect", "kills", "operations", "effects", "taken over", "duplicates", "lost")
	for _, m := range modes {
		c := campaign{mode: m, kills: *kills, url: *url, database: db, rand: rand.New(rand.NewPCG(*seed, *seed))}
		t, err := c.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", m.title, err)
		}
		fmt.Fprintf(out, "%-28s%7d%12d%9d%12d%12d%6d\n", m.title, t.kills, t.operations, t.effects, t.takenOver, t.duplicates, t.lost)
		if err := t.judge(m); err != nil {
			return fmt.Errorf("%s: %w", m.title, err)
		}
	}
	fmt.Fprint(out, "\nIn one transaction nothing is ever taken over: what a killed process had begun is undone. In two steps\n"+
		"a process can die after the effect and before its record. The next request takes the key over, and the\n"+
		"policy decides: looking into the ledger finds the effect, running again makes it twice.\n")
	return nil
}

// Postgres compares a record beside the effect with a record inside the effect's transaction. A refund service
// keeps its ledger and redo's records in one Postgres. It is killed with SIGKILL at random moments while clients
// call it. Two clients call each operation concurrently, and retry until it succeeds. At the end the program
// counts the ledger, for each way to run the service.
//
//	go run ./verify/postgres
//	go run ./verify/postgres -kills 200 -postgres postgres://app@db/test
//
// It needs a Postgres: on this machine, or at the URL in -postgres or REDO_TEST_POSTGRES. It makes a schema and
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

// here is the default URL of Postgres.
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
	url := flags.String("postgres", cmp.Or(os.Getenv("REDO_TEST_POSTGRES"), here),
		"the `URL` of a Postgres in which a schema may be made")
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
	fmt.Fprintf(out, "A refund service is killed %d times in each mode (seed %d). Its ledger, counted afterwards:\n\n",
		*kills, *seed)
	fmt.Fprintf(out, "%-28s%7s%12s%9s%12s%12s%6s\n",
		"record and effect", "kills", "operations", "effects", "taken over", "duplicates", "lost")
	for _, m := range modes {
		c := campaign{mode: m, kills: *kills, url: *url, database: db, rand: rand.New(rand.NewPCG(*seed, *seed))}
		t, err := c.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", m.title, err)
		}
		fmt.Fprintf(out, "%-28s%7d%12d%9d%12d%12d%6d\n",
			m.title, t.kills, t.operations, t.effects, t.takenOver, t.duplicates, t.lost)
		if err := t.judge(m); err != nil {
			return fmt.Errorf("%s: %w", m.title, err)
		}
	}
	fmt.Fprint(out,
		"\nIn one transaction nothing is ever taken over: the work of a killed process is undone. In two steps\n"+
			"a process can die after the effect and before its record. The next request takes the key over, and the\n"+
			"policy decides: looking into the ledger finds the effect, running again makes it twice.\n")
	return nil
}

// Crash kills and stops the processes of a whole system at random moments, and counts the effects of its operations.
// Clients call a service through gateways, and past them. The service keeps records in a store, makes an effect, and
// puts an event into its outbox. A relay sends the event to a consumer. All of them are processes. The networks
// between them are lossy. Processes get SIGKILL or SIGSTOP, and so do Redis, Postgres and MariaDB. At the end of a
// round all processes run undisturbed until everything is settled. The program then compares the lines that they have
// written independently of redo.
//
//	go run ./verify/crash -store boltstore -kills 1000 -state crash-bolt
//	go run ./verify/crash -store postgres -kills 1000 -state crash-pg
//
// A campaign that was ended continues if it is started again with the same -state. The stores are boltstore,
// pebblestore, sqlstore (SQLite), redis, postgres and mysql (MariaDB). The engines are private servers, started from
// the installed programs. The program needs a Unix system.
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
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/verify/internal/dbserver"
)

func main() {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections are broken on purpose
	var err error
	if stage.IsPart() {
		err = stage.Play(play)
	} else {
		// The kernel sends SIGHUP to a group with stopped processes whose shell has ended. Engines must end too.
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		err = tell(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

// tell plays rounds until a number of processes were killed.
func tell(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	name := flags.String("store", "boltstore", "the store of services and gateways: "+strings.Join(stores, ", "))
	kills := flags.Int("kills", 100, "the number of kills after which the campaign ends, with those in -state")
	each := flags.Int("round", 100, "the number of kills in a round")
	only := flags.String("mode", "", "transaction, recover, refuse or rerun; by default they take turns")
	seed := flags.Uint64("seed", rand.Uint64(), "for the random decisions of a new campaign")
	dir := flags.String("state", "", "the `directory` of the campaign's state (default: a new one)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p := place{Store: *name}
	if !slices.Contains(stores, *name) {
		return fmt.Errorf("-store %q: it must be one of %s", *name, strings.Join(stores, ", "))
	}
	if *kills < 1 || *each < 1 {
		return fmt.Errorf("-kills %d -round %d: they must be positive", *kills, *each)
	}
	turns := p.modes()
	if *only != "" {
		m, err := modeOf(*only)
		if err != nil {
			return err
		}
		if m.transaction && !p.transactional() {
			return fmt.Errorf("-mode %s: %s has no transactions", *only, *name)
		}
		turns = []mode{m}
	}
	if *dir == "" {
		var err error
		if *dir, err = os.MkdirTemp("", "redo-crash-"); err != nil {
			return err
		}
	}
	s, err := openState(*dir, *name, *seed)
	if err != nil {
		return err
	}
	e, err := startEngine(*name)
	if err != nil {
		return err
	}
	if e != nil {
		defer func() { _ = e.Close() }()
	}
	fmt.Fprintf(out, "%s, seed %d, state in %s: %d kills are done\n", *name, s.Seed, *dir, s.kills())
	for s.kills() < *kills {
		r := round{
			place: p, mode: turns[s.Rounds%uint64(len(turns))], seed: s.Seed + s.Rounds,
			kills: min(*each, *kills-s.kills()), dir: filepath.Join(*dir, fmt.Sprint("round-", s.Rounds)), engine: e,
		}
		if err := os.RemoveAll(r.dir); err != nil { // of a round that was ended early
			return err
		}
		begun := time.Now()
		t, err := r.varied().play(ctx)
		if err != nil {
			return fmt.Errorf("state in %s: %w", *dir, err)
		}
		if err := s.record(r.mode, t); err != nil {
			return err
		}
		fmt.Fprintf(out, "round %d  %-22s kills=%d/%d stops=%d operations=%d effects=%d taken_over=%d gap=%d  %.0f s\n",
			s.Rounds, r.mode.title, s.kills(), *kills, t.Stops, t.Operations, t.Effects, t.TakenOver, t.Gap,
			time.Since(begun).Seconds())
	}
	fmt.Fprintln(out)
	s.table(out)
	return nil
}

// startEngine starts the server of a store. It returns nil for a store in files.
func startEngine(name string) (*dbserver.Server, error) {
	switch name {
	case "redis":
		return dbserver.Redis()
	case "postgres":
		return dbserver.Postgres()
	case "mysql":
		return dbserver.MariaDB()
	}
	return nil, nil
}

// Command events measures pgoutbox beside River and Watermill-SQL, in one run on one Postgres:
//
//	go run ./benchmarks/events -url postgres://…            drain, enqueue, delay and held: some minutes
//	go run ./benchmarks/events -url postgres://… -run drain -rounds 5
//	go run ./benchmarks/events -url postgres://… -run backlog -backlog 10000000
//
// Without -url it takes the connection string of REDO_TEST_POSTGRES. It makes a schema for each contestant and round,
// and drops it. The contestants take turns, and every other round goes backwards. A figure is the median over the
// rounds, with the least and the greatest beside it.
//
//   - drain: events that were enqueued before, to a publisher that does nothing, in events/s.
//   - enqueue: transactions of one INSERT and one event from 16 producers, in transactions/s and as a part of the same
//     transaction without an event.
//   - delay: from the return of a commit to the publisher, at 100 events/s, in milliseconds.
//   - held: the same at 800 events/s while another transaction holds a REPEATABLE READ snapshot.
//   - backlog: a drain as above of the first events of a backlog, as a part of the drain alone.
//
// The module is never released, so the peers that it measures bind no user.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

type settings struct {
	url            string
	events         int
	rounds         int
	span, hold     time.Duration
	backlog        int
	only, scenario *regexp.Regexp
}

func main() {
	var s settings
	var only, scenario string
	flag.StringVar(&s.url, "url", os.Getenv("REDO_TEST_POSTGRES"), "connection string of Postgres")
	flag.IntVar(&s.events, "events", 50_000, "how many events a drain delivers")
	flag.IntVar(&s.rounds, "rounds", 3, "how many rounds")
	flag.DurationVar(&s.span, "span", 5*time.Second, "how long enqueue and delay run in a round")
	flag.DurationVar(&s.hold, "hold", time.Minute, "how long the snapshot is held, in one round")
	flag.IntVar(&s.backlog, "backlog", 1_000_000, "how many events the backlog has")
	flag.StringVar(&scenario, "run", "drain|enqueue|delay|held", "scenarios, a `regexp`")
	flag.StringVar(&only, "only", "", "contestants, a `regexp`")
	flag.Parse()
	err := func() (err error) {
		if s.only, err = regexp.Compile(only); err != nil {
			return err
		}
		if s.scenario, err = regexp.Compile(scenario); err != nil {
			return err
		}
		return run(context.Background(), s)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	db, err := newDatabase(ctx, s.url)
	if err != nil {
		return err
	}
	version, sync, err := db.describe(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("command   go run ./benchmarks/events %s\n", strings.Join(os.Args[1:], " "))
	fmt.Printf("machine   %d processors, %s; %s, synchronous_commit %s\n",
		runtime.NumCPU(), runtime.Version(), version, sync)
	for _, sc := range scenarios {
		if s.scenario.MatchString(sc.name) {
			if err := measure(ctx, s, db, sc); err != nil {
				return fmt.Errorf("%s: %w", sc.name, err)
			}
		}
	}
	return nil
}

// measure runs a scenario with each contestant in turn, round after round, and prints the table.
func measure(ctx context.Context, s settings, db database, sc scenario) error {
	rounds := s.rounds
	if sc.once {
		rounds = 1
	}
	var names []string
	found := map[string]map[string][]float64{}
	for round := range rounds {
		turn := contestants(sc)
		for i := range turn {
			c := turn[i]
			if round%2 == 1 {
				c = turn[len(turn)-1-i]
			}
			if !s.only.MatchString(c.name) {
				continue
			}
			figures, err := db.with(ctx, func(p place) (map[string]float64, error) { return sc.run(ctx, s, p, c) })
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if found[c.name] == nil {
				found[c.name] = map[string][]float64{}
				names = append(names, c.name)
			}
			for name, f := range figures {
				found[c.name][name] = append(found[c.name][name], f)
			}
		}
	}
	fmt.Printf("\n%s\n%-28s", sc.name, "")
	for _, column := range sc.columns {
		fmt.Printf(" %28s", column)
	}
	fmt.Println()
	for _, name := range names {
		fmt.Printf("%-28s", name)
		for _, column := range sc.columns {
			fmt.Printf(" %28s", spread(found[name][column]))
		}
		fmt.Println()
	}
	return nil
}

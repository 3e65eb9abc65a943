package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/redo-go/redo/benchmarks/contest"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// measured are the modules that redo is measured beside, and those through which both reach an engine.
var measured = []string{
	"github.com/hashicorp/go-retryablehttp",
	"github.com/jackc/pgx/v5",
	"github.com/redis/rueidis",
	"go.etcd.io/bbolt",
}

// run is the command, and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	records := manyRecords
	return contest.Program{
		Path:  "./benchmarks",
		Peers: measured,
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&records, "records", manyRecords,
				"how many records the large tables hold of the scenarios named scale-…")
		},
		Scenarios: func() ([]contest.Scenario, error) {
			if records < few {
				return nil, fmt.Errorf("benchmarks: -records is %d, it must be at least %d", records, few)
			}
			return scenarios(records), nil
		},
		Targets: targets(),
	}.Run(args, stdout, stderr)
}

package main

import (
	"io"
	"os"
	"slices"

	"github.com/redo-go/redo/benchmarks/contest"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the command, and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	return contest.Program{
		Path:      "./benchmarks/peers",
		Peers:     modules(),
		Scenarios: func() ([]contest.Scenario, error) { return scenarios(), nil },
		Blocks:    blocks,
	}.Run(args, stdout, stderr)
}

// scenarios returns all of them, in the order of the report.
func scenarios() []contest.Scenario {
	return slices.Concat(clientScenarios(), []contest.Scenario{
		durableScenario(1),
		durableScenario(64),
		middlewareScenario(1, false),
		middlewareScenario(1, true),
		middlewareScenario(64, false),
		middlewareScenario(64, true),
	})
}

// modules returns the measured modules.
func modules() []string {
	found := []string{"github.com/cockroachdb/pebble/v2", "github.com/gofiber/fiber/v3", "modernc.org/sqlite"}
	for _, p := range peers {
		if p.module != "" && !slices.Contains(found, p.module) {
			found = append(found, p.module)
		}
	}
	return found
}

package contest

import (
	"fmt"
	"runtime"
	"strings"
)

// benchstatText returns each round of each contestant as one line of a Go benchmark's output, which benchstat reads:
// https://go.dev/design/14313-benchmark-format. The names are those of go test -bench.
func benchstatText(all []Scenario, played map[string]Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, cpuModel(read("/proc/cpuinfo")))
	for _, s := range all {
		for _, c := range s.Contestants {
			name := fmt.Sprintf("BenchmarkScenario/%s/by=%s-%d", s.Name, c.Name, runtime.GOMAXPROCS(0))
			name = strings.ReplaceAll(name, " ", "_")
			for _, round := range played[s.Name][c.Name] {
				fmt.Fprintf(&b, "%s\t%d\t%.1f ns/op\t%.0f B/op\t%.1f allocs/op\n", name, round.N, round.Ns, round.Bytes,
					round.Allocs)
			}
		}
	}
	return b.String()
}

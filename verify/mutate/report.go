package main

import (
	"fmt"
	"io"
	"strings"
)

// A score counts the mutants of a package.
type score struct {
	dir                       string
	sites, killed, equivalent int
	survivors                 []string
}

// tried returns the number of mutants that compile.
func (s score) tried() int { return s.killed + s.equivalent + len(s.survivors) }

// count adds a verdict. known has the reasons of mutants whose change has no effect.
func (s *score) count(m mutant, v verdict, known map[string]string) {
	switch {
	case v == killed:
		s.killed++
	case v == survived && known[m.name] != "":
		s.equivalent++
	case v == survived:
		s.survivors = append(s.survivors, m.name)
	}
}

// percent returns the share of killed mutants among those that have an effect.
func (s score) percent() float64 {
	if s.killed == 0 {
		return 0
	}
	return 100 * float64(s.killed) / float64(s.killed+len(s.survivors))
}

// report prints the table, as docs/proof.md has it, and the survivors.
func report(out io.Writer, scores []score) {
	all := score{dir: "all"}
	for _, s := range scores {
		all.sites += s.sites
		all.killed += s.killed
		all.equivalent += s.equivalent
		all.survivors = append(all.survivors, s.survivors...)
	}
	fmt.Fprint(out, "\n| Package | Possible mutants | Tried | No effect | Killed | Survivors | Score |\n"+
		"|---|---|---|---|---|---|---|\n")
	for _, s := range append(scores, all) {
		fmt.Fprintf(out, "| `%s` | %d | %d | %d | %d | %d | %.1f %% |\n",
			s.dir, s.sites, s.tried(), s.equivalent, s.killed, len(s.survivors), s.percent())
	}
	for _, name := range all.survivors {
		fmt.Fprintf(out, "\nsurvivor: %s", name)
	}
	fmt.Fprintln(out)
}

// parseReasons reads survivors.txt: on each line a mutant, " | " and the reason.
func parseReasons(text string) (map[string]string, error) {
	reasons := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " | ")
		if at < 0 || strings.TrimSpace(line[at+3:]) == "" {
			return nil, fmt.Errorf("survivors.txt: %q has no reason after \" | \"", line)
		}
		reasons[line[:at]] = strings.TrimSpace(line[at+3:])
	}
	return reasons, nil
}

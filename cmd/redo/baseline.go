package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/redo-go/redo/conformance"
)

// readBaseline reads the expected failures. Each line holds a case and the reason why it is expected to fail. A
// line that starts with # is a comment. An empty name means no baseline.
func readBaseline(name string) ([]conformance.Option, error) {
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--baseline: %w", err)
	}
	var opts []conformance.Option
	seen := map[string]int{}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) { // some editors put the mark first
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		slug := strings.Fields(line)[0]
		reason := strings.TrimSpace(strings.TrimPrefix(line, slug))
		isSlug := func(c conformance.Case) bool { return c.Slug == slug }
		switch {
		case !slices.ContainsFunc(conformance.Cases(), isSlug):
			return nil, noCase(fmt.Sprintf("--baseline: %s:%d:", name, number), slug)
		case reason == "":
			return nil, fmt.Errorf("--baseline: %s:%d: %s has no reason: say why it is expected to fail", name, number,
				slug)
		case seen[slug] != 0:
			return nil, fmt.Errorf("--baseline: %s:%d: %s is there already, in line %d", name, number, slug, seen[slug])
		}
		seen[slug] = number
		opts = append(opts, conformance.ExpectFailure(slug, reason))
	}
	return opts, nil
}

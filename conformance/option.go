package conformance

import (
	"slices"
)

// An Option changes a run. A nil one is none.
type Option interface{ apply(*settings) }

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

type settings struct {
	seed     uint64
	seeded   bool
	only     []string
	except   []string
	expected map[string]string
	workers  int
	progress func(Result)
}

// Seed makes the choices of the run (which request comes when, and in which order) those of an earlier one. Keys and
// payloads are fresh all the same, or the target would know them. Without it the seed is random, and the report has it.
func Seed(seed uint64) Option {
	return optionFunc(func(s *settings) { s.seed, s.seeded = seed, true })
}

// Only selects cases by their slugs or groups ("key", "replay"). The controls, and the cases that they stand on, are
// run too. Several add up. Without it all cases are selected.
func Only(slugs ...string) Option {
	slugs = slices.Clone(slugs)
	return optionFunc(func(s *settings) { s.only = append(s.only, slugs...) })
}

// Except leaves cases out, by their slugs or groups. A case that a selected one stands on is run all the same.
func Except(slugs ...string) Option {
	slugs = slices.Clone(slugs)
	return optionFunc(func(s *settings) { s.except = append(s.except, slugs...) })
}

// ExpectFailure is a baseline: the case is known to break its rule, for the reason given. It is run and reported as ever, but
// counts as an error only when it passes, so that the list does not outlive the defect.
func ExpectFailure(slug, reason string) Option {
	return optionFunc(func(s *settings) { s.expected[slug] = reason })
}

// Concurrency is how many cases run at a time; the default is 8. Where effects are not counted for each case by itself it
// is always 1.
func Concurrency(n int) Option { return optionFunc(func(s *settings) { s.workers = n }) }

// Progress calls f with each result as it comes, one at a time. The order is not that of the report.
func Progress(f func(Result)) Option { return optionFunc(func(s *settings) { s.progress = f }) }

func newSettings(opts []Option) (*settings, error) {
	s := &settings{expected: map[string]string{}, workers: 8}
	for _, o := range opts {
		if o != nil {
			o.apply(s)
		}
	}
	if s.workers < 1 {
		return s, configError("Concurrency: %d is not positive", s.workers)
	}
	return s, nil
}

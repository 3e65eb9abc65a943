package conformance

import (
	"math"
	"slices"
)

// Option changes a run. A nil Option has no effect.
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
	rate     float64
	failFast bool
	progress func(Result)
}

// Seed repeats the choices of an earlier run: which requests it sends, when, and in which order. Keys and payloads
// are fresh nevertheless, because the target would recognise old ones. The default is a random seed, which the
// report holds.
func Seed(seed uint64) Option {
	return optionFunc(func(s *settings) { s.seed, s.seeded = seed, true })
}

// Only selects cases by their slugs or groups ("key", "replay"). The controls, and the prerequisites of the
// selected cases, run too. Several Only options add up. The default is all cases.
func Only(slugs ...string) Option {
	slugs = slices.Clone(slugs)
	return optionFunc(func(s *settings) { s.only = append(s.only, slugs...) })
}

// Except leaves cases out, by their slugs or groups. A prerequisite of a selected case runs nevertheless.
func Except(slugs ...string) Option {
	slugs = slices.Clone(slugs)
	return optionFunc(func(s *settings) { s.except = append(s.except, slugs...) })
}

// ExpectFailure adds a case to the baseline: it is known to break its rule, for the given reason. The case runs
// and is reported as usual. It counts as an error only when it passes, so that the list does not outlive the
// defect.
func ExpectFailure(slug, reason string) Option {
	return optionFunc(func(s *settings) { s.expected[slug] = reason })
}

// Concurrency sets the number of cases that run at a time. The default is 8. It is always 1 if the cases share one
// count of effects.
func Concurrency(n int) Option { return optionFunc(func(s *settings) { s.workers = n }) }

// Rate limits the requests per second that the run sends. Zero, the default, sets no limit. At any rate, the run
// repeats a request that the target refuses because of load (429, or 503 with Retry-After).
func Rate(perSecond float64) Option { return optionFunc(func(s *settings) { s.rate = perSecond }) }

// FailFast stops the run at the first broken MUST that is not expected. Cases then run one after the other, and each
// failure is repeated immediately.
func FailFast() Option { return optionFunc(func(s *settings) { s.failFast = true }) }

// Progress calls f with each result as it arrives. Calls do not overlap. Their order differs from that of the
// report.
func Progress(f func(Result)) Option { return optionFunc(func(s *settings) { s.progress = f }) }

func newSettings(opts []Option) (*settings, error) {
	s := &settings{expected: map[string]string{}, workers: 8}
	for _, o := range opts {
		if o != nil {
			o.apply(s)
		}
	}
	if s.failFast {
		s.workers = 1
	}
	if s.workers < 1 {
		return s, configError("Concurrency: %d is not positive", s.workers)
	}
	if s.rate < 0 || s.rate > 1e6 || math.IsNaN(s.rate) {
		return s, configError("Rate: %v is not between 0 and 1000000 requests a second", s.rate)
	}
	return s, nil
}

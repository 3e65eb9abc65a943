package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkScenario runs the command's bodies one after the other. The names suit benchstat -col /by. A scenario that
// -bench does not name is not prepared, so that profiles show the named ones alone.
func BenchmarkScenario(b *testing.B) {
	for _, s := range scenarios(few) {
		if s.slow {
			continue // the command alone runs them
		}
		b.Run(s.name, func(b *testing.B) {
			if s.ready != nil {
				if err := s.ready(); errors.Is(err, errNoEngine) {
					b.Skip(err)
				} else {
					require.NoError(b, err)
				}
				b.Cleanup(func() { require.NoError(b, s.done()) })
			}
			for _, c := range s.contestants {
				b.Run("by="+c.name, func(b *testing.B) { s.bench(b, c) })
			}
		})
	}
}

// bench runs one contestant.
func (s scenario) bench(b *testing.B, c contestant) {
	r, err := c.open(b.TempDir())
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, r.stop()) })
	require.NoError(b, r.run(1)) // connections and files
	b.ReportAllocs()
	b.ResetTimer()
	require.NoError(b, r.run(b.N))
	b.StopTimer()
	if s.callers > 0 {
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	}
}

package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkScenario runs the command's bodies one after the other. The names suit benchstat -col /by.
func BenchmarkScenario(b *testing.B) {
	for _, s := range scenarios(few) {
		if s.slow {
			continue // the command alone runs them
		}
		if s.ready != nil {
			if err := s.ready(); errors.Is(err, errNoEngine) {
				continue
			} else {
				require.NoError(b, err)
			}
			b.Cleanup(func() { require.NoError(b, s.done()) })
		}
		for _, c := range s.contestants {
			b.Run(s.name+"/by="+c.name, func(b *testing.B) {
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
			})
		}
	}
}

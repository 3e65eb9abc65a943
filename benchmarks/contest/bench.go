package contest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Bench runs the scenarios as benchmarks of go test. The names suit benchstat -col /by. A scenario that -bench does not
// name is not prepared, so that profiles show the named ones alone. The program alone runs the slow ones.
func Bench(b *testing.B, all []Scenario) {
	for _, s := range all {
		if s.Slow {
			continue
		}
		b.Run(s.Name, func(b *testing.B) {
			if s.Ready != nil {
				if err := s.Ready(); errors.Is(err, ErrNoEngine) {
					b.Skip(err)
				} else if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { mustEnd(b, s.Done) })
			}
			for _, c := range s.Contestants {
				b.Run("by="+c.Name, func(b *testing.B) { s.bench(b, c) })
			}
		})
	}
}

// bench runs one contestant.
func (s Scenario) bench(b *testing.B, c Contestant) {
	r, err := c.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { mustEnd(b, r.Close) })
	run := func(n int) {
		if err := r.Run(n); err != nil {
			b.Fatal(err)
		}
	}
	run(1) // connections and files
	b.ReportAllocs()
	b.ResetTimer()
	run(b.N)
	b.StopTimer()
	if s.Callers > 0 {
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	}
}

// Check runs a few operations of each contestant. They check their own results, so that to run them is to test them.
// A scenario whose engine is missing is skipped, unless REDO_TEST_REQUIRE is set.
func Check(t *testing.T, all []Scenario) {
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			if s.Ready != nil {
				err := s.Ready()
				if errors.Is(err, ErrNoEngine) && os.Getenv("REDO_TEST_REQUIRE") == "" {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { mustEnd(t, s.Done); mustEnd(t, s.End) })
			}
			for _, c := range s.Contestants {
				t.Run(c.Name, func(t *testing.T) {
					if err := c.try(t.TempDir()); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// try runs one operation and then three, because a later run goes on where the one before ended.
func (c Contestant) try(dir string) error {
	r, err := c.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(r.filled(1), r.filled(3), r.stop())
}

// CheckNames returns an error if two scenarios, or two contestants of one scenario, have the same name. A name must
// have no slash, which separates names in go test. A reference must be a contestant.
func CheckNames(all []Scenario) error {
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.Name] {
			return fmt.Errorf("two scenarios are named %q", s.Name)
		}
		seen[s.Name] = true
		var names []string
		for _, c := range s.Contestants {
			if slices.Contains(names, c.Name) {
				return fmt.Errorf("%s: two contestants are named %q", s.Name, c.Name)
			}
			if strings.Contains(c.Name, "/") {
				return fmt.Errorf("%s: the name %q has a slash", s.Name, c.Name)
			}
			names = append(names, c.Name)
		}
		if !slices.Contains(names, s.Reference) {
			return fmt.Errorf("%s: the reference %q is no contestant", s.Name, s.Reference)
		}
	}
	return nil
}

func mustEnd(t testing.TB, end func() error) {
	if end == nil {
		return
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

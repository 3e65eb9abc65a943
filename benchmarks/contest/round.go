package contest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// A pace is the thoroughness of a measurement.
type pace struct {
	rounds int
	slice  time.Duration // about how long a contestant runs in one round
	dir    string        // where files go
}

// play measures a scenario. The number of operations is found in a round that does not count, and is the same in all
// that do. Every other round goes backwards, so that a machine that gets slower or faster favours no contestant.
func (p pace) play(s Scenario) (out Outcome, err error) {
	err = s.staged(func() error {
		out, err = p.playReady(s)
		return err
	})
	return out, err
}

func (p pace) playReady(s Scenario) (Outcome, error) {
	counts := make([]int, len(s.Contestants))
	for i, c := range s.Contestants {
		var err error
		if counts[i], err = p.calibrate(c, max(1, s.Callers)); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", s.Name, c.Name, err)
		}
	}
	out := Outcome{}
	for round := range p.rounds {
		for turn := range s.Contestants {
			i := turn
			if round%2 == 1 {
				i = len(s.Contestants) - 1 - turn
			}
			c := s.Contestants[i]
			got, err := p.measure(c, counts[i])
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", s.Name, c.Name, err)
			}
			out[c.Name] = append(out[c.Name], got)
		}
	}
	return out, nil
}

// with opens the contestant in a new directory for as long as f runs.
func (p pace) with(c Contestant, f func(Runner) error) (err error) {
	dir, err := os.MkdirTemp(p.dir, "redo-benchmarks-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := c.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return f(r)
}

// calibrate finds how many operations fill a slice: a multiple of step, at least one step.
func (p pace) calibrate(c Contestant, step int) (n int, err error) {
	err = p.with(c, func(r Runner) error {
		for n = step; ; {
			if err := r.supply(n); err != nil {
				return err
			}
			start := time.Now()
			if err := r.Run(n); err != nil {
				return err
			}
			elapsed := max(time.Since(start), time.Microsecond)
			fill := float64(n) * float64(p.slice) / float64(elapsed)
			if elapsed >= p.slice/4 {
				n = max(step, int(fill)/step*step)
				return nil
			}
			n = max(2*n, min(int(fill/2), 100*n)) / step * step
		}
	})
	return n, err
}

// measure runs n operations after a few that warm up caches, connections and files.
func (p pace) measure(c Contestant, n int) (got Sample, err error) {
	err = p.with(c, func(r Runner) error {
		if err := r.filled(max(1, n/20)); err != nil {
			return err
		}
		if err := r.supply(n); err != nil {
			return err
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		err := r.Run(n)
		elapsed := time.Since(start)
		runtime.ReadMemStats(&after)
		per := float64(n)
		got = Sample{
			N:      n,
			Ns:     float64(elapsed.Nanoseconds()) / per,
			Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / per,
			Allocs: float64(after.Mallocs-before.Mallocs) / per,
		}
		return err
	})
	return got, err
}

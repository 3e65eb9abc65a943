// Package random has what the checkers on random lives share. It draws from a seed, and logs what happened. It kills
// and stops processes, and lets calls fail on the way to their store.
package random

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Life draws what happens, and keeps what happened. All methods may be called concurrently.
type Life struct {
	Seed   uint64
	Faulty int // percent of the calls that fail
	Began  time.Time
	Calm   atomic.Bool // no more faults

	mu        sync.Mutex
	rng       *rand.Rand
	processes int
	events    []string
	violation string
}

// New returns a life that begins now.
func New(seed uint64) *Life {
	return &Life{Seed: seed, Began: time.Now(), rng: rand.New(rand.NewPCG(seed, 0))}
}

// Draw returns a number from 0 to n-1.
func (l *Life) Draw(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

// Chance reports true in so many of a hundred draws, while there are faults.
func (l *Life) Chance(percent int) bool { return l.Draw(100) < percent && !l.Calm.Load() }

// Span returns a time up to most. It has nanoseconds, so that few goroutines wake at one instant.
func (l *Life) Span(most time.Duration) time.Duration { return time.Duration(l.Draw(int(most)) + 1) }

// DrawFault draws what happens to a call.
func (l *Life) DrawFault() Fault {
	if !l.Chance(l.Faulty) {
		return None
	}
	return Fault(1 + l.Draw(int(Faults)-1))
}

// Log adds an event.
func (l *Life) Log(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, fmt.Sprintf("%14v  "+format, append([]any{time.Since(l.Began)}, args...)...))
}

// Violate logs that a rule is broken.
func (l *Life) Violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.Log("VIOLATION: %s", text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.violation == "" {
		l.violation = text
	}
}

// Violation returns the first violation, or "".
func (l *Life) Violation() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.violation
}

// String returns the events in their order.
func (l *Life) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	fmt.Fprintf(&b, "seed %d, %d %% of the calls fail\n", l.Seed, l.Faulty)
	for _, e := range l.events {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

// Seeds returns the first seed of a test, and the number of lives: n times REDO_VERIFY_ROUNDS.
func Seeds(n int) (first, lives int, err error) {
	first, err = number("REDO_VERIFY_SEED", 0)
	rounds, wrong := number("REDO_VERIFY_ROUNDS", 1)
	return first, n * rounds, errors.Join(err, wrong)
}

func number(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return n, err
}

package random

import (
	"sync"
	"time"
)

// A Member is a process of a fleet. Embedding [Process] makes one.
type Member interface {
	// Kill ends the process's work.
	Kill()
	// Stop pauses the process for a time.
	Stop(d time.Duration)
	// SetDown takes the store from the process, or gives it back.
	SetDown(down bool)
	// Killed reports whether the process was killed.
	Killed() bool
}

// A Fleet holds the processes of a life. It replaces those that were killed.
type Fleet[P Member] struct {
	life  *Life
	start func() (P, error)

	mu  sync.Mutex
	all []P
}

// NewFleet starts n processes.
func NewFleet[P Member](l *Life, n int, start func() (P, error)) (*Fleet[P], error) {
	f := &Fleet[P]{life: l, start: start, all: make([]P, n)}
	for i := range f.all {
		if err := f.Restart(i); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// At returns the process that is in place i now.
func (f *Fleet[P]) At(i int) P {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[i]
}

// Any returns one of the processes.
func (f *Fleet[P]) Any() P { return f.At(f.life.Draw(len(f.all))) }

// Restart replaces a process by a new one.
func (f *Fleet[P]) Restart(i int) error {
	p, err := f.start()
	if err == nil {
		f.mu.Lock()
		f.all[i] = p
		f.mu.Unlock()
	}
	return err
}

// Kill kills all processes.
func (f *Fleet[P]) Kill() {
	for i := range f.all {
		f.At(i).Kill()
	}
}

// Weather kills processes, stops them for at most three times every, and takes the store from so many of a hundred. It
// replaces the dead. It ends after over is closed.
func (f *Fleet[P]) Weather(over <-chan struct{}, every time.Duration, down int) {
	for last := false; !last; {
		select {
		case <-over:
			last = true
		case <-time.After(f.life.Span(every)):
		}
		for i := range f.all {
			p := f.At(i)
			if f.life.Chance(8) && !p.Killed() {
				p.Kill()
			}
			if f.life.Chance(5) {
				p.Stop(f.life.Span(3 * every))
			}
			p.SetDown(f.life.Chance(down))
			if p.Killed() {
				_ = f.Restart(i) // the options were accepted before
			}
		}
	}
}

package contest

import (
	"errors"
	"sync"
)

// ErrNoEngine is the reason why a scenario that needs an engine is not run.
var ErrNoEngine = errors.New("no engine")

// A Scenario is one piece of work, and those who do it.
type Scenario struct {
	Name      string // for -run, and in the names of go test -bench
	Title     string
	Reference string // the contestant by whose time the others' are divided
	Callers   int    // goroutines that a contestant uses; zero means one
	// Contestants take turns in this order.
	Contestants []Contestant
	// Ready prepares the shared parts of the contestants, before the first is opened. An error that wraps ErrNoEngine
	// means that the scenario can't run here. Done undoes Ready after the scenario, and End after the last one of the
	// run. All are nil if the contestants share nothing.
	Ready, Done, End func() error
	Slow             bool // run only when -run names it
}

// staged runs f between Ready and Done.
func (s Scenario) staged(f func() error) (err error) {
	if s.Ready != nil {
		if err := s.Ready(); err != nil {
			return err
		}
	}
	if s.Done != nil {
		defer func() { err = errors.Join(err, s.Done()) }()
	}
	return f()
}

// A Contestant is one way to do a scenario's work.
type Contestant struct {
	Name string
	// Open makes the contestant ready. It may keep files in dir, which is its own and is removed afterwards.
	Open func(dir string) (Runner, error)
}

// A Runner is a contestant that is ready.
type Runner struct {
	// Run does the operation n times and checks the result of each. It is not called concurrently.
	Run func(n int) error
	// Refill makes the records that n operations use up, before they are timed. Nil means that there are none.
	Refill func(n int) error
	// Close releases the resources of Open. Nil means that there are none.
	Close func() error
}

// filled supplies the records for n operations, and then runs them.
func (r Runner) filled(n int) error {
	if err := r.supply(n); err != nil {
		return err
	}
	return r.Run(n)
}

func (r Runner) supply(n int) error {
	if r.Refill == nil {
		return nil
	}
	return r.Refill(n)
}

func (r Runner) stop() error {
	if r.Close == nil {
		return nil
	}
	return r.Close()
}

// Serially returns a runner that makes one call of op after the other. The calls are numbered from 0, over all runs.
func Serially(op func(i int) error, closer func() error) Runner {
	next := 0
	return Runner{
		Run: func(n int) error {
			for range n {
				if err := op(next); err != nil {
					return err
				}
				next++
			}
			return nil
		},
		Close: closer,
	}
}

// Concurrently is [Serially] with so many callers at a time. Each has its own share of the calls, so that nothing but
// the operation itself is shared. In one run, calls whose numbers are equal modulo callers have the same caller.
func Concurrently(callers int, op func(i int) error, closer func() error) Runner {
	if callers == 1 {
		return Serially(op, closer)
	}
	next := 0
	return Runner{
		Run: func(n int) error {
			first := next
			next += n
			failures := make([]error, callers)
			var all sync.WaitGroup
			for c := range min(callers, n) {
				all.Go(func() {
					for i := c; i < n && failures[c] == nil; i += callers {
						failures[c] = op(first + i)
					}
				})
			}
			all.Wait()
			for _, err := range failures {
				if err != nil {
					return err
				}
			}
			return nil
		},
		Close: closer,
	}
}

package main

import (
	"errors"
	"slices"
	"sync"
)

// A scenario is one piece of work, and those who do it.
type scenario struct {
	name      string // for -run, and in the names of go test -bench
	title     string
	reference string // the contestant by whose time the others' are divided
	callers   int    // goroutines that a contestant uses; zero means one
	// contestants take turns in this order.
	contestants []contestant
	// ready prepares the shared parts of the contestants, before the first is opened. An error that wraps errNoEngine
	// means that the scenario can't run here. done undoes ready after the scenario, and end after the last one of the
	// run. All are nil if the contestants share nothing.
	ready, done, end func() error
	slow             bool // run only when -run names it
}

// staged runs f between ready and done.
func (s scenario) staged(f func() error) (err error) {
	if s.ready != nil {
		if err := s.ready(); err != nil {
			return err
		}
	}
	if s.done != nil {
		defer func() { err = errors.Join(err, s.done()) }()
	}
	return f()
}

// A contestant is one way to do a scenario's work.
type contestant struct {
	name string
	// open makes the contestant ready. It may keep files in dir, which is its own and is removed afterwards.
	open func(dir string) (runner, error)
}

// A runner is a contestant that is ready.
type runner struct {
	// run does the operation n times and checks the result of each. It is not called concurrently.
	run func(n int) error
	// refill makes the records that n operations use up, before they are timed. Nil means that there are none.
	refill func(n int) error
	// close releases the resources of open. Nil means that there are none.
	close func() error
}

// filled supplies the records for n operations, and then runs them.
func (r runner) filled(n int) error {
	if err := r.supply(n); err != nil {
		return err
	}
	return r.run(n)
}

func (r runner) supply(n int) error {
	if r.refill == nil {
		return nil
	}
	return r.refill(n)
}

func (r runner) stop() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// manyRecords is the default of -records: the number of records in the large tables of the scale scenarios.
const manyRecords = 10_000_000

// manyInMemory is the greatest number of records in an engine that keeps them in memory.
const manyInMemory = 1_000_000

// scenarios returns all of them, in the order of the report.
func scenarios(records int) []scenario {
	return slices.Concat([]scenario{
		memoryScenario(),
		loopbackScenario(),
		largeScenario(),
		retryScenario(),
		retryLoopbackScenario(),
		reserveScenario(),
		durableScenario(1),
		durableScenario(64),
		middlewareScenario(),
		redisScenario(false),
		redisScenario(true),
		postgresScenario(false),
		postgresScenario(true),
		effectScenario(),
	}, redisScales(min(records, manyInMemory)), postgresScales(records))
}

// serially returns a runner that makes one call of op after the other. The calls are numbered from 0, over all runs.
func serially(op func(i int) error, closer func() error) runner {
	next := 0
	return runner{
		run: func(n int) error {
			for range n {
				if err := op(next); err != nil {
					return err
				}
				next++
			}
			return nil
		},
		close: closer,
	}
}

// concurrently is serially with so many callers at a time. Each has its own share of the calls, so that nothing but
// the operation itself is shared.
func concurrently(callers int, op func(i int) error, closer func() error) runner {
	if callers == 1 {
		return serially(op, closer)
	}
	next := 0
	return runner{
		run: func(n int) error {
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
		close: closer,
	}
}

package main

import "sync"

// A scenario is one piece of work, and those who do it.
type scenario struct {
	name      string // for -run, and in the names of go test -bench
	title     string
	reference string // the contestant by whose time the others' are divided
	callers   int    // goroutines that a contestant uses; zero means one
	// contestants take turns in this order.
	contestants []contestant
}

// A contestant is one way to do a scenario's work.
type contestant struct {
	name string
	// open makes the contestant ready. It may keep files in dir, which is its own and is removed afterwards.
	open func(dir string) (runner, error)
}

// A runner is a contestant that is ready.
type runner struct {
	// run does the operation n times and checks what came of each. It is not called concurrently.
	run func(n int) error
	// close releases what open acquired; nil when that is nothing.
	close func() error
}

func (r runner) stop() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// scenarios returns all of them, in the order of the report.
func scenarios() []scenario {
	return []scenario{
		memoryScenario(),
		loopbackScenario(),
		largeScenario(),
		retryScenario(),
		reserveScenario(),
		durableScenario(1),
		durableScenario(64),
		middlewareScenario(),
	}
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

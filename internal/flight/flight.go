// Package flight lets concurrent calls with one name share one call.
//
// The first caller joins a [Flight], makes the call, and leaves with its result. The other callers wait for Done and
// read Result.
package flight

import "sync"

// A Group holds the flights that are under way, by name. Its zero value is empty. It is safe for concurrent use.
type Group[T any] struct {
	mu sync.Mutex
	m  map[string]*Flight[T]
}

// A Flight is one call for which other callers wait.
type Flight[T any] struct {
	Done   chan struct{} // closed when the call has ended
	Result T             // set before Done is closed
}

// Join returns the flight of this name. If first is true, the caller makes the call and must then call Leave.
func (g *Group[T]) Join(name string) (f *Flight[T], first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.m[name]; f != nil {
		return f, false
	}
	if g.m == nil {
		g.m = map[string]*Flight[T]{}
	}
	f = &Flight[T]{Done: make(chan struct{})}
	g.m[name] = f
	return f, true
}

// Leave ends the flight that Join returned with its result, and wakes the callers that wait for it.
func (g *Group[T]) Leave(name string, f *Flight[T], result T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f.Result = result
	delete(g.m, name)
	close(f.Done)
}

// UnderWay reports whether there is a flight of this name.
func (g *Group[T]) UnderWay(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m[name] != nil
}

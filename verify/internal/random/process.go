package random

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/store"
)

// A Process works until it is killed. Its goroutines may run on then, without an effect.
type Process struct {
	Name       string
	Dead, Down atomic.Bool // Down: it does not reach its store

	life    *Life
	resumes atomic.Int64 // when a pause ends, in nanoseconds of the life
}

// Start names a process.
func (p *Process) Start(l *Life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes++
	p.life, p.Name = l, fmt.Sprintf("process %d", l.processes)
}

// Kill ends the process.
func (p *Process) Kill() {
	p.Dead.Store(true)
	p.life.Log("%s is killed", p.Name)
}

// Killed reports whether the process was killed.
func (p *Process) Killed() bool { return p.Dead.Load() }

// Stop pauses the process, as SIGSTOP does, before its next steps and calls. A pause is not shortened.
func (p *Process) Stop(d time.Duration) {
	if d <= p.Paused() {
		return
	}
	p.life.Log("%s is stopped for %v", p.Name, d)
	p.resumes.Store(int64(time.Since(p.life.Began) + d))
}

// Paused returns how long the process is still stopped. It is negative afterwards.
func (p *Process) Paused() time.Duration {
	return time.Duration(p.resumes.Load()) - time.Since(p.life.Began)
}

// WasStopped reports whether the process was stopped, and went on less than d ago.
func (p *Process) WasStopped(d time.Duration) bool { return p.resumes.Load() > 0 && p.Paused() > -d }

// WaitForResume waits while the process is stopped.
func (p *Process) WaitForResume() {
	for left := p.Paused(); left > 0; left = p.Paused() {
		time.Sleep(left)
	}
}

// Travel lets the time of a request or a response pass, sometimes up to most.
func (p *Process) Travel(ctx context.Context, most time.Duration) {
	if p.life.Chance(30) {
		select {
		case <-time.After(p.life.Span(most)):
		case <-ctx.Done():
		}
	}
	p.WaitForResume()
}

// Cut reports whether the process does not reach its store.
func (p *Process) Cut() bool { return p.Dead.Load() || p.Down.Load() && !p.life.Calm.Load() }

// SetDown takes the store from the process, or gives it back.
func (p *Process) SetDown(down bool) {
	if down != p.Down.Swap(down) {
		p.life.Log("%s is without the store: %v", p.Name, down)
	}
}

// Link returns the way from the process to its store.
func (p *Process) Link(st store.Store) Link {
	wait := func(context.Context) { p.WaitForResume() }
	return Link{Store: st, Before: wait, After: wait, Cut: p.Cut, Draw: p.life.DrawFault}
}

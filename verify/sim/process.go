package sim

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errOver is the error of every edge at the end of a world.
var errOver = errors.New("sim: the world is over")

// A process is an operating system's process. Its goroutines stop at its edges, the calls to networks, stores and
// queues, while it is paused, and for ever once it is dead.
type process struct {
	world *world
	name  string
	host  string
	serve serveFunc // nil for a client
	died  chan struct{}

	mu     sync.Mutex
	dead   bool
	paused time.Time // until then
	ends   []func()  // called when it dies, by the operating system and the database
}

func (w *world) newProcess(name, host string) *process {
	return &process{world: w, name: name, host: host, died: make(chan struct{})}
}

// atEnd adds a function that is called when the process dies.
func (p *process) atEnd(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = append(p.ends, f)
}

// kill ends the process like SIGKILL.
func (p *process) kill() {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return
	}
	p.dead = true
	ends := p.ends
	p.mu.Unlock()
	p.world.note(p.name, "is killed")
	close(p.died)
	for _, f := range ends {
		f()
	}
}

// pause stops the process for d like SIGSTOP.
func (p *process) pause(d time.Duration) {
	p.world.note(p.name, "is paused for %v", d)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = time.Now().Add(d)
}

// alive reports whether the process is neither dead nor paused, and how long the pause lasts.
func (p *process) alive() (dead bool, rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead, time.Until(p.paused)
}

// edge passes after a latency, when the process is not paused. It returns errOver at the end of the world, which is
// also the only way out for a dead process. It returns the error of ctx if that ends first.
func (p *process) edge(ctx context.Context, place string) error {
	rng := p.world.draw(p.name + place)
	return p.wait(ctx, between(rng, 50*time.Microsecond, 5*time.Millisecond))
}

// wait is edge with a given latency.
func (p *process) wait(ctx context.Context, latency time.Duration) error {
	done := ctx.Done()
	for latency > 0 {
		t := time.NewTimer(latency)
		select {
		case <-t.C:
		case <-done:
		case <-p.world.over:
		}
		t.Stop()
		dead, rest := p.alive()
		if dead {
			<-p.world.over
		}
		select {
		case <-p.world.over:
			return errOver
		default:
		}
		latency, done = rest, nil // a paused process does not notice the end of ctx
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

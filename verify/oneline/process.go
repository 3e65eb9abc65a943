package oneline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/verify/internal/random"
)

// A process has a relay until it is killed. Its deliveries may run on then, without an effect.
type process struct {
	random.Process
	life     *life
	queue    random.QueueLink
	relay    *outbox.Relay
	cancel   context.CancelFunc
	returned chan struct{} // closed when Run has returned
	over     atomic.Bool   // it has ended in order

	mu      sync.Mutex
	running map[string]int // deliveries by destination
}

func (l *life) start() (*process, error) {
	p := &process{life: l, returned: make(chan struct{}), running: map[string]int{}}
	p.Start(l.Life)
	way := p.Link(nil)
	travel := func(ctx context.Context) { p.Travel(ctx, queueTimeout/4) }
	way.Before, way.After = travel, travel
	p.queue = random.QueueLink{Queue: l.queue, Way: way}
	waits := make([]time.Duration, l.settings.attempts-1)
	for i := range waits {
		waits[i] = time.Duration(i+1) * 500 * time.Millisecond
	}
	opts := []outbox.Option{
		outbox.Retry(waits...), outbox.LeaseTTL(leaseTTL), outbox.QueueTimeout(queueTimeout),
		outbox.AttemptTimeout(attemptTime), outbox.PollInterval(time.Second / 2), outbox.Drain(l.settings.drain),
		outbox.Workers(l.settings.workers), outbox.PerDestination(l.settings.perDestination),
		outbox.Breaker(l.settings.breaker),
		outbox.OnDisabled(func(_ context.Context, d outbox.DisabledDestination) {
			l.Log("%s reports that %s is disabled", p.Name, d.Destination)
			l.destinations[d.Destination].notified.Add(1)
		}),
	}
	if l.settings.holds {
		opts = append(opts, outbox.HoldKeys())
	}
	relay, err := outbox.NewRelay(p.queue, outbox.PublisherFunc(p.publish), opts...)
	if err != nil {
		return nil, err
	}
	p.relay = relay
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.returned)
		_ = relay.Run(ctx)
	}()
	return p, nil
}

// Kill ends the process's work. Nothing that it does later has an effect.
func (p *process) Kill() {
	p.life.deaths.Add(1)
	p.Process.Kill()
	p.cancel()
}

// Killed reports whether a new process must take its place.
func (p *process) Killed() bool { return p.Process.Killed() || p.over.Load() }

// late reports whether the process was stopped within the last lease. So it may not know yet that a lease has ended.
func (p *process) late() bool { return p.WasStopped(leaseTTL) }

// patience is the time in which Run returns, pauses of its process included.
const patience = time.Minute

// end ends the process in order.
func (p *process) end() {
	p.life.Log("%s ends", p.Name)
	p.cancel()
	select {
	case <-p.returned:
	case <-time.After(patience):
		p.life.Violate("Run of %s does not return", p.Name)
	}
	p.over.Store(true)
}

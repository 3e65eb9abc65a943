package oneevent

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/verify/internal/random"
)

const (
	leaseTTL       = 3 * time.Second
	storeTimeout   = time.Second
	handlerTimeout = 4 * time.Second
	source         = "bank"
)

// A process consumes events until it is killed. Its handlers may run on then, without an effect.
type process struct {
	random.Process
	life     *life
	inbox    *inbox.Inbox
	acceptor *inbox.Acceptor // nil if events are handled in their delivery
	cancel   context.CancelFunc
}

func (l *life) start() (*process, error) {
	p := &process{life: l}
	p.Start(l.Life)
	link := p.Link(l.store)
	travel := func(ctx context.Context) { p.Travel(ctx, storeTimeout/4) }
	link.Before, link.After = travel, travel
	in, err := inbox.New(link, inbox.LeaseTTL(leaseTTL), inbox.StoreTimeout(storeTimeout),
		inbox.HandlerTimeout(handlerTimeout), inbox.MaxAttempts(l.attempts), inbox.Backoff(l.rest))
	if err != nil {
		return nil, err
	}
	p.inbox = in
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	if !l.accepts {
		return p, nil
	}
	waits := make([]time.Duration, l.attempts-1)
	for i := range waits {
		waits[i] = l.rest(i + 1)
	}
	opts := []outbox.Option{
		outbox.Retry(waits...), outbox.LeaseTTL(leaseTTL), outbox.QueueTimeout(storeTimeout), outbox.Drain(0),
	}
	if l.holds {
		opts = append(opts, outbox.HoldKeys())
	}
	p.acceptor, err = inbox.Accept(random.QueueLink{Queue: l.queue, Way: link}, in.Receiver(p.handle), opts...)
	if err == nil {
		go func() { _ = p.acceptor.Run(ctx) }()
	}
	return p, err
}

// Kill ends the process's work. Nothing that it does later has an effect.
func (p *process) Kill() {
	p.Process.Kill()
	p.cancel()
}

var errKilled = errors.New("the process is killed")

// die is a step of a handler whose process is killed. It does not return.
func (p *process) die() {
	p.Kill()
	panic(errKilled)
}

// works reports whether the process is neither dead nor stopped.
func (p *process) works() bool {
	return !p.Dead.Load() && p.Paused() < 0
}

// late reports whether the process was stopped within the last lease. So it may not know yet that a lease has ended,
// and a relay may deliver an event that was claimed before.
func (p *process) late() bool { return p.WasStopped(leaseTTL) }

// live waits until a stopped process goes on, and ends the handler of one that was killed.
func (p *process) live() {
	p.WaitForResume()
	if p.Dead.Load() {
		panic(errKilled)
	}
}

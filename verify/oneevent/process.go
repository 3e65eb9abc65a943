package oneevent

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

const (
	leaseTTL       = 3 * time.Second
	storeTimeout   = time.Second
	handlerTimeout = 4 * time.Second
	source         = "bank"
)

// A process consumes events until it is killed. Its handlers may run on then, without an effect.
type process struct {
	life       *life
	name       string
	dead, down atomic.Bool  // down: it does not reach the store and the queue
	resumes    atomic.Int64 // when a pause ends, in nanoseconds of the life
	inbox      *inbox.Inbox
	acceptor   *inbox.Acceptor // nil if events are handled in their delivery
	cancel     context.CancelFunc
}

func (l *life) start(name string) (*process, error) {
	p := &process{life: l, name: name}
	in, err := inbox.New(storeLink{l.store, p}, inbox.LeaseTTL(leaseTTL), inbox.StoreTimeout(storeTimeout),
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
	p.acceptor, err = inbox.Accept(queueLink{l.queue, p}, in.Receiver(p.handle), opts...)
	if err == nil {
		go func() { _ = p.acceptor.Run(ctx) }()
	}
	return p, err
}

// kill ends the process's work. Nothing that it does later has an effect.
func (p *process) kill() {
	p.dead.Store(true)
	p.life.log("%s is killed", p.name)
	p.cancel()
}

var errKilled = errors.New("the process is killed")

// die is a step of a handler whose process is killed. It does not return.
func (p *process) die() {
	p.kill()
	panic(errKilled)
}

// stop pauses the process, as SIGSTOP does, before its next steps and calls. A pause is not shortened.
func (p *process) stop(d time.Duration) {
	if d <= p.paused() {
		return
	}
	p.life.log("%s is stopped for %v", p.name, d)
	p.resumes.Store(int64(time.Since(p.life.began) + d))
}

func (p *process) waitForResume() {
	for left := p.paused(); left > 0; left = p.paused() {
		time.Sleep(left)
	}
}

// paused returns how long the process is still stopped.
func (p *process) paused() time.Duration {
	return time.Duration(p.resumes.Load()) - time.Since(p.life.began)
}

// works reports whether the process is neither dead nor stopped.
func (p *process) works() bool {
	return !p.dead.Load() && p.paused() < 0
}

// late reports whether the process was stopped within the last lease. So it may not know yet that a lease has ended, and
// a relay may deliver an event that was claimed before.
func (p *process) late() bool { return p.resumes.Load() > 0 && p.paused() > -leaseTTL }

// live waits until a stopped process goes on, and ends the handler of one that was killed.
func (p *process) live() {
	p.waitForResume()
	if p.dead.Load() {
		panic(errKilled)
	}
}

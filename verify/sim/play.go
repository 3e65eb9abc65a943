package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/redo-go/redo/inbox"
)

// nameOf returns the operation that an event is about.
func nameOf(ev inbox.Event) string {
	var m message
	_ = json.Unmarshal(ev.Payload, &m) // the oracle knows no operation without a name
	return m.Operation
}

// patience is the longest time from the last fault to the end of every operation. An operation of a gateway may
// rest for an hour between two attempts.
const patience = 6 * time.Hour

// A post is a place for processes: when one dies, another one starts there.
type post struct {
	name  string
	start func(generation int) (*process, error)
	stays bool // it is neither killed nor paused

	mu         sync.Mutex
	generation int
	process    *process
}

// A result describes a world that was played.
type result struct {
	broken                *violation
	text                  string
	operations, sends     int
	effects, acknowledged int
	elapsed               time.Duration // virtual
}

// play runs the world of a seed to its end, or to its first violation. It must be called in a synctest bubble.
func play(ctx context.Context, seed uint64, d defect, logging bool) (res result, err error) {
	w := newWorld(seed, d, logging)
	ctx, cancel := context.WithCancel(ctx)
	w.context = ctx
	defer func() {
		cancel()
		w.end(ctx)
	}()
	posts, err := w.populate()
	if err != nil {
		return result{}, err
	}
	w.weather(posts)
	w.calmDown(posts)
	for deadline := w.now() + patience; w.found() == nil; {
		left := w.oracle.unsettled()
		if st, err := w.queue.Stats(ctx); err == nil && len(left) == 0 && st.Waiting > 0 {
			left = []string{"the outbox"}
		}
		if len(left) == 0 {
			break
		}
		if w.now() > deadline {
			w.violate(settles, "%v", left)
		}
		time.Sleep(3*time.Second + 7)
	}
	if w.found() == nil {
		w.probe(ctx)
	}
	res = result{broken: w.found(), sends: w.oracle.sends, elapsed: w.now()}
	for _, op := range w.oracle.all() {
		res.operations++
		res.effects += op.effects
		if op.acked {
			res.acknowledged++
		}
	}
	if logging {
		res.text = w.history()
	}
	return res, nil
}

// populate starts the processes.
func (w *world) populate() (posts []*post, err error) {
	p := w.plan
	service, consumers, queue := w.newLink("service.db"), w.newLink("consumers.db"), w.newLink("queue")
	ledger := &fencedLedger{seen: map[string]uint64{}}
	add := func(name string, stays bool, start func(int) (*process, error)) {
		posts = append(posts, &post{name: name, start: start, stays: stays})
	}
	for n := range p.servers {
		add("server", p.mode == applying, func(g int) (*process, error) { return w.newServer(n, g, ledger, service) })
	}
	for n := range p.consumers {
		add("consumer", false, func(g int) (*process, error) { return w.newConsumer(n, g, consumers) })
	}
	fronts := w.newLink("gateway.db")
	for n := range p.gateways {
		add("gateway", false, func(g int) (*process, error) { return w.newGateway(n, g, fronts) })
	}
	for n := range p.relays {
		add("relay", false, func(g int) (*process, error) { return w.newRelay(n, g, queue) })
	}
	apps := func(kind, host string, n int) {
		for i := range n {
			a := w.newApp(fmt.Sprintf("%s%d", kind, i), host)
			replicas := 1
			if a.identity == byStore {
				replicas = p.replicas // without a store a process does not know the requests of the others
			}
			for r := range replicas {
				add(kind, false, func(g int) (*process, error) { return a.run(r, g) })
			}
		}
	}
	apps("app", serviceHost, p.apps)
	apps("phone", gatewayHost, p.phones)
	for i, post := range posts {
		time.Sleep(time.Millisecond + time.Duration(i)*13) // no two processes start at the same instant
		if err := w.restart(post); err != nil {
			return nil, err
		}
	}
	return posts, nil
}

// current returns the process of a post.
func (p *post) current() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

// restart starts the next process of a post, unless one is running.
func (w *world) restart(p *post) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil && !p.process.isDead() || w.isOver() {
		return nil
	}
	p.generation++
	if p.process, err = p.start(p.generation); err != nil {
		return fmt.Errorf("sim: %s: %w", p.name, err)
	}
	w.note(p.process.name, "starts")
	return nil
}

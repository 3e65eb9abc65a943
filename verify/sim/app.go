package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
)

const budgetRatio = 0.2

// An identity is the way in which an app finds the keys of its operations again.
type identity uint8

const (
	byStore   identity = iota // names in a store
	byName                    // keys derived from names
	byTheCall                 // keys of the app's own
)

// An app is a client process, over all its restarts.
type app struct {
	*world
	name     string
	host     string
	identity identity
	link     *link
	ops      []*operation
}

// newApp draws an app and its operations.
func (w *world) newApp(name, host string) *app {
	rng := w.draw(name)
	id := identity(rng.IntN(3))
	if w.plan.identity >= 0 {
		id = identity(w.plan.identity)
	}
	a := &app{world: w, name: name, host: host, identity: id, link: w.newLink(name + ".store")}
	for n := range w.plan.ops {
		op := &operation{
			name: fmt.Sprintf("%s.%d", name, n), principal: name, host: host, refused: rng.IntN(10) == 0,
		}
		m := message{op.name, op.principal, 1 + rng.IntN(1000)}
		op.payload, _ = json.Marshal(m) // strings and a number always encode
		if a.identity == byTheCall {
			op.key = fmt.Sprintf("order-%d", n) // the same as another customer's
		}
		w.oracle.add(op)
		a.ops = append(a.ops, op)
	}
	return a
}

// keys makes random keys from the seed, another one each time.
func (w *world) keys(place string) redo.KeyFunc {
	var mu sync.Mutex
	made := map[string]int{}
	return func(name string) (string, error) {
		mu.Lock()
		made[name]++
		n := made[name]
		mu.Unlock()
		var b [16]byte
		rng := w.draw(fmt.Sprint(place, name, n))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return uuid.UUID(b).String(), nil
	}
}

// policy bounds the calls of a client whose server works for at most work.
func (p plan) policy(work time.Duration) redo.RetryPolicy {
	return redo.RetryPolicy{
		MaxAttempts: p.attempts, MaxElapsed: 3*work + 20*time.Second, AttemptTimeout: work + 5*time.Second,
	}
}

// run starts a generation of the app's process, which works through the operations that are not finished.
func (a *app) run(replica, generation int) (*process, error) {
	w := a.world
	p := w.newProcess(fmt.Sprintf("%s%c.%d", a.name, 'a'+rune(replica), generation), "")
	var transport http.RoundTripper = wire{p}
	if wrap := w.defect.transport; wrap != nil {
		transport = wrap(w, transport)
	}
	work := w.plan.work
	if a.host == gatewayHost {
		work = 3*work + 20*time.Second // the gateway's own policy
	}
	opts := []redo.Option{
		redo.WithTransport(transport), redo.WithRetry(w.plan.policy(work)),
		redo.WithBudget(limit.Budget{Ratio: budgetRatio, Reserve: w.plan.reserve}),
	}
	switch a.identity {
	case byStore:
		opts = append(opts, redo.WithStore(w.clientStore(p, a.link)), redo.WithScope(a.name),
			redo.WithKeys(w.keys(p.name)))
	case byName:
		opts = append(opts, redo.WithKeys(redo.DerivedKeys(a.name)))
	}
	if f := w.defect.client; f != nil {
		opts = append(opts, f(w.plan)...)
	}
	client, err := redo.New(opts...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(w.context)
	p.atEnd(func() { _ = client.Close() })
	todo := make(chan *operation, len(a.ops))
	for _, op := range a.ops {
		todo <- op
	}
	close(todo)
	var workers sync.WaitGroup
	for n := range w.plan.together {
		workers.Go(func() {
			if p.wait(ctx, time.Duration(n+1)*time.Millisecond+time.Duration(replica)*29) != nil {
				return
			}
			for op := range todo {
				a.settle(ctx, p, client, op)
			}
		})
	}
	go func() {
		workers.Wait()
		cancel()
	}()
	return p, nil
}

// clientStore returns a process's way to the store of operations.
func (w *world) clientStore(p *process, l *link) backend {
	st := &gate{w.memory, p, l}
	if w.plan.durable {
		st.backend = w.operations
	}
	if wrap := w.defect.records; wrap != nil {
		return wrap(w, p, st)
	}
	return st
}

// settle calls an operation until it comes to its end.
func (a *app) settle(ctx context.Context, p *process, client *redo.Client, op *operation) {
	w := a.world
	for !w.oracle.done(op) {
		if p.edge(ctx, "call"+op.name) != nil {
			return
		}
		c := w.oracle.begins(p, op)
		body, err := a.call(context.WithValue(ctx, stateKey{}, c), client, op)
		if dead, _ := p.alive(); dead || w.isOver() {
			return // the result is lost
		}
		w.note(p.name, "%s returns %v", op.name, err)
		if w.oracle.reported(c, body, err) {
			return
		}
		rng := w.draw(p.name + "pause" + op.name)
		if p.wait(ctx, between(rng, 50*time.Millisecond, 5*time.Second)) != nil {
			return
		}
	}
}

// call calls an operation once. Some callers give up early.
func (a *app) call(ctx context.Context, client *redo.Client, op *operation) ([]byte, error) {
	w := a.world
	rng := w.draw(a.name + "call" + op.name)
	if w.happens(rng, 100) {
		bounded, cancel := context.WithTimeout(ctx, between(rng, 10*time.Millisecond, 20*time.Second))
		defer cancel()
		ctx = bounded
	}
	switch {
	case op.key != "":
		ctx = redo.WithKey(ctx, op.key)
	default:
		ctx = redo.WithOperation(ctx, op.name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+op.host+"/orders",
		bytes.NewReader(op.payload))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(principalHeader, op.principal)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// done reports whether an operation has come to its end.
func (o *oracle) done(op *operation) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return op.finished
}

func (w *world) isOver() bool {
	select {
	case <-w.over:
		return true
	default:
		return false
	}
}

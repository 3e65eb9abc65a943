package onekey

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/verify/internal/link"
)

// A life is all that happens to one key.
type life struct {
	seed   uint64
	store  store.Store
	policy policy
	waits  bool
	parts  bool // a handler ends when its client disconnects
	faulty int  // percent of the store's calls that fail
	began  time.Time
	ledger ledger
	calm   atomic.Bool // no more faults
	marked atomic.Bool // a handler has called Applied, or written a success before it panicked

	mu        sync.Mutex
	rng       *rand.Rand
	processes []*process
	starts    int
	final     *response // the first one that a client got
	events    []string
	violation string
}

// A response is one that a client got.
type response struct {
	status int
	code   string // Error-Code
	body   string
}

func newLife(seed uint64, st store.Store) *life {
	rng := rand.New(rand.NewPCG(seed, 0))
	return &life{
		seed: seed, store: st, rng: rng, began: time.Now(),
		policy: policy(rng.IntN(int(policies))), waits: rng.IntN(2) == 0, parts: rng.IntN(2) == 0,
		faulty: []int{0, 5, 20}[rng.IntN(3)],
	}
}

const (
	clients  = 3
	requests = 5 // of each client, while there are faults
	servers  = 2
)

// play lets the key live, and returns the first violation of a rule, or "".
func (l *life) play() (string, error) {
	l.processes = make([]*process, servers)
	for i := range l.processes {
		if err := l.restart(i); err != nil {
			return "", err
		}
	}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range requests {
				time.Sleep(l.span(2 * leaseTTL))
				l.request()
			}
		})
	}
	over := make(chan struct{})
	var weather sync.WaitGroup
	weather.Go(func() { l.weather(over) })
	all.Wait()
	close(over)
	weather.Wait()
	l.calm.Store(true)
	l.log("the faults are over")
	var last *response
	for range 3 { // the first may find a lease, and the second the outcome of an earlier handler
		time.Sleep(leaseTTL + handlerTimeout + storeTimeout)
		if last = l.request(); last != nil && last.final() {
			break
		}
	}
	l.settle(last)
	for _, p := range l.processes {
		p.kill()
	}
	time.Sleep(time.Minute) // calls of stopped processes end
	return l.violation, nil
}

// restart replaces a process by a new one.
func (l *life) restart(i int) error {
	l.mu.Lock()
	l.starts++
	name := fmt.Sprintf("process %d", l.starts)
	l.mu.Unlock()
	p, err := l.start(name)
	if err == nil {
		l.mu.Lock()
		l.processes[i] = p
		l.mu.Unlock()
	}
	return err
}

// weather kills processes, stops them, replaces the dead, and takes the store from some of them.
func (l *life) weather(over <-chan struct{}) {
	for {
		select {
		case <-over:
		case <-time.After(l.span(leaseTTL)):
		}
		for i := range l.processes {
			p := l.process(i)
			if l.chance(8) && !p.dead.Load() {
				p.kill()
			}
			if l.chance(5) {
				p.stop(l.span(3 * leaseTTL))
			}
			if down := l.chance(20); down != p.down.Swap(down) {
				l.log("%s is without the store: %v", p.name, down)
			}
			if p.dead.Load() {
				_ = l.restart(i) // the options were accepted before
			}
		}
		select {
		case <-over:
			return
		default:
		}
	}
}

func (l *life) process(i int) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.processes[i]
}

// request sends the operation's request to a process. It returns nil if the client got no response.
func (l *life) request() (got *response) {
	p := l.process(l.draw(servers))
	ctx, disconnect := context.WithCancel(context.Background())
	if l.chance(15) {
		defer time.AfterFunc(l.span(leaseTTL), disconnect).Stop()
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/charges", strings.NewReader(`{"amount":1}`))
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if cause := recover(); cause != nil {
				w = nil // the connection breaks off
			}
		}()
		p.handler.ServeHTTP(w, r)
	}()
	gone := ctx.Err() != nil
	disconnect()
	if w == nil || gone || p.dead.Load() {
		l.log("a client of %s gets no response", p.name)
		return nil
	}
	got = &response{w.Code, w.Header().Get("Error-Code"), w.Body.String()}
	l.log("a client of %s gets %d %s %.40q", p.name, got.status, got.code, got.body)
	l.check(*got)
	return got
}

// success reports whether the response names an effect.
func (r response) success() bool { return strings.HasPrefix(r.body, "effect-") }

// refuses reports whether the response is a handler's refusal for good.
func (r response) refuses() bool { return r.body == refusal || r.body == failure }

// final reports whether a repetition gets the same.
func (r response) final() bool {
	return r.success() || r.refuses() || strings.HasSuffix(r.code, "outcome_unknown") || r.notStored()
}

func (r response) notStored() bool { return strings.HasSuffix(r.code, "result_not_stored") }

// check compares a response with the effects and with earlier responses.
func (l *life) check(got response) {
	made := l.ledger.all()
	switch {
	case got.success() && (len(made) == 0 || strings.TrimRight(got.body, ".") != made[0]):
		l.violate("the success %q does not name the effect %v", got.body, made)
	case got.refuses() && len(made) > 0:
		l.violate("the refusal %q came although there is the effect %v", got.body, made)
	case got.notStored() && len(made) == 0:
		l.violate("result_not_stored came although there is no effect")
	}
	if !got.success() && !got.refuses() {
		return
	}
	l.mu.Lock()
	first := l.final
	if first == nil {
		l.final = &got
	}
	l.mu.Unlock()
	if first != nil && *first != got {
		l.violate("a response was %d %q, and a later one is %d %q", first.status, first.body, got.status, got.body)
	}
}

// settle checks the end of the life.
func (l *life) settle(last *response) {
	made := l.ledger.all()
	switch {
	case len(made) > 1:
		l.violate("the operation has the effects %v", made)
	case last == nil || !last.final():
		l.violate("no request gets a final response after the faults: %v", last)
	case l.final != nil && l.final.refuses() && len(made) > 0:
		l.violate("a client was refused for good, and the operation has the effect %v", made)
	case strings.HasSuffix(last.code, "outcome_unknown") && l.policy != refusing && !l.marked.Load():
		l.violate("the outcome is unknown, and a policy should have found it out")
	}
}

func (l *life) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.log("VIOLATION: %s", text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.violation == "" {
		l.violation = text
	}
}

func (l *life) log(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, fmt.Sprintf("%9v  "+format, append([]any{time.Since(l.began)}, args...)...))
}

// String returns the events in their order.
func (l *life) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	fmt.Fprintf(&b, "seed %d, policy %d, waits %v, parts %v, %d %% of the calls fail\n",
		l.seed, l.policy, l.waits, l.parts, l.faulty)
	for _, e := range l.events {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

func (l *life) draw(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

// chance reports true in so many of a hundred draws, while there are faults.
func (l *life) chance(percent int) bool { return l.draw(100) < percent && !l.calm.Load() }

// span returns a time up to most.
func (l *life) span(most time.Duration) time.Duration {
	return time.Duration(l.draw(int(most/time.Millisecond))+1) * time.Millisecond
}

func (l *life) drawFault() link.Fault {
	if !l.chance(l.faulty) {
		return link.None
	}
	return link.Fault(1 + l.draw(int(link.Faults)-1))
}

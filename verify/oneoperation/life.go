package oneoperation

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/verify/internal/link"
)

const (
	processes = 2
	callers   = 3
	calls     = 6 // of each caller, while there are faults
	enough    = 4 // successes, after which no more calls are made
)

// A plant holds the planted defects of a life. The zero plant has none.
type plant struct {
	wrap      func(backend) backend
	transport func(http.RoundTripper) http.RoundTripper
	memory    time.Duration // 0: the retention
	keyless   bool          // the server ignores keys
	denies    bool          // the probe denies every effect
}

// A life is all that happens to one operation.
type life struct {
	seed     uint64
	plant    plant
	store    backend
	auditor  *redo.Client // reads the store without faults
	server   server
	probes   bool
	limits   bool
	resumed  bool          // by ResumeEvery
	crowded  bool          // a person acts while a Resume waits
	faulty   int           // percent of the calls of the store, the requests and the responses that fail
	gated    int           // percent of the requests that the gateway refuses
	refusing int           // percent of the handlers that refuse
	gap      time.Duration // between two calls of a caller, at most
	outage   time.Duration // until then few requests reach the server
	attempts int           // of one call
	began    time.Time
	calm     atomic.Bool  // no more faults
	returned atomic.Int64 // successes
	running  sync.WaitGroup
	dos      chan struct{} // one for each Do under way
	resumes  chan struct{} // one for each Resume and ResumeEvery under way

	auditing sync.Mutex
	settled  map[time.Time]settled // by the creation of the record

	mu        sync.Mutex
	rng       *rand.Rand
	processes [processes]*process
	starts    int
	events    []string
	violation string
}

func newLife(seed uint64, st backend, d plant) (*life, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	l := &life{
		seed: seed, plant: d, store: st, rng: rng, began: time.Now(), dos: make(chan struct{}, callers),
		resumes: make(chan struct{}, callers+processes),
		probes:  rng.IntN(2) == 0, limits: rng.IntN(2) == 0, resumed: rng.IntN(3) == 0, attempts: 1 + rng.IntN(4),
		faulty: []int{1, 5, 20, 40}[rng.IntN(4)], gated: []int{0, 5, 20}[rng.IntN(3)], settled: map[time.Time]settled{},
	}
	l.crowded = rng.IntN(2) == 0
	l.refusing = []int{5, 50}[rng.IntN(2)]
	l.gap = []time.Duration{3 * time.Second, 20 * time.Second, 90 * time.Second}[rng.IntN(3)]
	if rng.IntN(2) == 0 {
		l.outage = time.Duration(rng.IntN(calls * int(l.gap)))
	}
	l.server = server{
		life: l, unmarked: rng.IntN(4) == 0, keyless: d.keyless, memory: retention,
		records: map[string]*record{}, wire: map[*message]bool{}, sent: map[string]time.Time{}, closed: map[string]string{},
	}
	if d.memory > 0 {
		l.server.memory = d.memory
	}
	var err error
	if l.auditor, err = redo.New(redo.WithStore(st)); err != nil {
		return nil, err
	}
	if d.wrap != nil {
		l.store = d.wrap(st)
	}
	return l, nil
}

// play lets the operation live, and returns the first violation of a rule, or "".
func (l *life) play() (string, error) {
	for i := range l.processes {
		if err := l.restart(i); err != nil {
			return "", err
		}
	}
	over := make(chan struct{})
	var all, others sync.WaitGroup
	for range callers {
		all.Go(l.caller)
	}
	others.Go(func() { l.weather(over) })
	others.Go(func() { l.person(over) })
	all.Wait()
	close(over)
	others.Wait()
	l.calm.Store(true)
	l.log("the faults are over")
	for i := range l.processes {
		l.process(i).kill()
	}
	l.running.Wait()
	if err := l.conclude(); err != nil {
		return "", err
	}
	l.running.Wait()
	l.audit()
	return l.violation, nil
}

// caller calls and resumes the operation, and sometimes gives up.
func (l *life) caller() {
	for range calls {
		time.Sleep(l.span(l.gap))
		if l.returned.Load() >= enough {
			return
		}
		resume, under := l.draw(3) == 0, l.dos
		if resume {
			under = l.resumes
		}
		within(under, func() {
			p := l.process(l.draw(processes))
			ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
			if l.chance(20) {
				ctx, cancel = context.WithTimeout(p.ctx, l.span(patience))
			}
			defer cancel()
			_ = p.call(ctx, resume)
		})
	}
}

// conclude makes the last calls, without faults. A person settles what rests unknown.
func (l *life) conclude() error {
	if err := l.restart(0); err != nil {
		return err
	}
	p, ctx := l.process(0), context.Background()
	defer p.kill()
	final := false
	for range 6 {
		err := p.call(ctx, false)
		e, _ := err.(*redo.Error) //nolint:errorlint // Do returns no other
		rests := e == nil || e.Effect == redo.EffectUnknown || e.Code.In(taxonomy.KeyExpired)
		if final = err == nil || !rests && !redo.SafeToRetry(err); final {
			break
		}
		time.Sleep(30 * time.Second)
		if !redo.SafeToRetry(err) {
			l.alone(true, func(effect string) { l.settle(ctx, p.client, effect) })
		}
	}
	if !final {
		l.violate("no call gets a final result after the faults")
	}
	for op, err := range l.auditor.Pending(ctx) {
		l.violate("the operation is pending after the last call: %v, %v", op.Key, err)
	}
	return nil
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
			return
		case <-time.After(l.span(10 * time.Second)):
		}
		for i := range l.processes {
			p := l.process(i)
			switch {
			case p.dead.Load():
				_ = l.restart(i) // the options were accepted before
			case l.chance(8):
				p.kill()
			case l.chance(5):
				p.stop(l.span(pause))
			}
			if down := l.chance(l.faulty / 2); down != p.down.Swap(down) {
				l.log("%s is without the store: %v", p.name, down)
			}
		}
	}
}

func (l *life) process(i int) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.processes[i]
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
	l.events = append(l.events, fmt.Sprintf("%14v  "+format, append([]any{time.Since(l.began)}, args...)...))
}

// String returns the events in their order.
func (l *life) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	fmt.Fprintf(&b, "seed %d, probe %v, limiter %v, ResumeEvery %v, crowded %v, attempts %d, "+
		"faults %d %%, gateway %d %%, refusals %d %%, gap %v, outage %v, unmarked %v\n",
		l.seed, l.probes, l.limits, l.resumed, l.crowded, l.attempts,
		l.faulty, l.gated, l.refusing, l.gap, l.outage, l.server.unmarked)
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

// span returns a time up to most. It has nanoseconds, so that few goroutines wake at one instant.
func (l *life) span(most time.Duration) time.Duration { return time.Duration(l.draw(int(most)) + 1) }

func (l *life) drawFault() link.Fault {
	if !l.chance(l.faulty) {
		return link.None
	}
	return link.Fault(1 + l.draw(int(link.Faults)-1))
}

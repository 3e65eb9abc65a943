package oneoperation

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/verify/internal/random"
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
	*random.Life
	plant    plant
	store    backend
	auditor  *redo.Client // reads the store without faults
	server   server
	probes   bool
	limits   bool
	resumed  bool          // by ResumeEvery
	crowded  bool          // a person acts while a Resume waits
	gated    int           // percent of the requests that the gateway refuses
	refusing int           // percent of the handlers that refuse
	gap      time.Duration // between two calls of a caller, at most
	outage   time.Duration // until then few requests reach the server
	attempts int           // of one call
	returned atomic.Int64  // successes
	running  sync.WaitGroup
	dos      chan struct{} // one for each Do under way
	resumes  chan struct{} // one for each Resume and ResumeEvery under way

	auditing sync.Mutex
	settled  map[time.Time]settled // by the creation of the record

	processes *random.Fleet[*process]
}

func newLife(seed uint64, st backend, d plant) (*life, error) {
	l := &life{
		Life: random.New(seed), plant: d, store: st, settled: map[time.Time]settled{},
		dos: make(chan struct{}, callers), resumes: make(chan struct{}, callers+processes),
	}
	half := func() bool { return l.Draw(2) == 0 }
	l.probes, l.limits, l.resumed, l.crowded = half(), half(), l.Draw(3) == 0, half()
	l.attempts = 1 + l.Draw(4)
	l.Faulty = []int{1, 5, 20, 40}[l.Draw(4)] // requests and responses fail as often as calls of the store
	l.gated, l.refusing = []int{0, 5, 20}[l.Draw(3)], []int{5, 50}[l.Draw(2)]
	l.gap = []time.Duration{3 * time.Second, 20 * time.Second, 90 * time.Second}[l.Draw(3)]
	if half() {
		l.outage = l.Span(calls * l.gap)
	}
	l.server = server{
		life: l, unmarked: l.Draw(4) == 0, keyless: d.keyless, memory: retention,
		records: map[string]*record{}, wire: map[*message]bool{}, sent: map[string]time.Time{}, bans: map[string]ban{},
	}
	if d.memory > 0 {
		l.server.memory = d.memory
	}
	l.Log("probe %v, limiter %v, ResumeEvery %v, crowded %v, attempts %d, gateway %d %%, refusals %d %%, gap %v, "+
		"outage %v, unmarked %v", l.probes, l.limits, l.resumed, l.crowded, l.attempts, l.gated, l.refusing, l.gap,
		l.outage, l.server.unmarked)
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
	all, err := random.NewFleet(l.Life, processes, l.start)
	if err != nil {
		return "", err
	}
	l.processes = all
	over := make(chan struct{})
	var calling, others sync.WaitGroup
	for range callers {
		calling.Go(l.caller)
	}
	others.Go(func() { l.weather(over) })
	others.Go(func() { l.person(over) })
	calling.Wait()
	close(over)
	others.Wait()
	l.Calm.Store(true)
	l.Log("the faults are over")
	l.processes.Kill()
	l.running.Wait()
	if err := l.conclude(); err != nil {
		return "", err
	}
	l.running.Wait()
	l.audit()
	return l.Violation(), nil
}

// caller calls and resumes the operation, and sometimes gives up.
func (l *life) caller() {
	for range calls {
		time.Sleep(l.Span(l.gap))
		if l.returned.Load() >= enough {
			return
		}
		resume, under := l.Draw(3) == 0, l.dos
		if resume {
			under = l.resumes
		}
		within(under, func() {
			p := l.processes.Any()
			ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
			if l.Chance(20) {
				ctx, cancel = context.WithTimeout(p.ctx, l.Span(patience))
			}
			defer cancel()
			_ = p.call(ctx, resume)
		})
	}
}

// conclude makes the last calls, without faults. A person settles what rests unknown.
func (l *life) conclude() error {
	if err := l.processes.Restart(0); err != nil {
		return err
	}
	p, ctx := l.processes.At(0), context.Background()
	defer p.Kill()
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
		l.Violate("no call gets a final result after the faults")
	}
	for op, err := range l.auditor.Pending(ctx) {
		l.Violate("the operation is pending after the last call: %v, %v", op.Key, err)
	}
	return nil
}

// weather kills processes, stops them, replaces the dead, and takes the store from some of them.
func (l *life) weather(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(l.Span(10 * time.Second)):
		}
		for i := range processes {
			p := l.processes.At(i)
			switch {
			case p.Dead.Load():
				_ = l.processes.Restart(i) // the options were accepted before
			case l.Chance(8):
				p.Kill()
			case !l.crowded && l.Chance(5): // a Resume that is stopped before it sends does not see what a person does
				p.Stop(l.Span(pause))
			}
			p.SetDown(!l.crowded && l.Chance(l.Faulty/2))
		}
	}
}

package oneevent

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/inbox"
)

// A life is all that happens to an event, or to the events of an order.
type life struct {
	seed     uint64
	store    inbox.Store
	queue    inbox.Queue
	accepts  bool // the inbox accepts events and handles them later, from the queue
	holds    bool // an order waits behind a dead letter
	attempts int  // after which an event is dead
	faulty   int  // percent of the calls that fail
	began    time.Time
	calm     atomic.Bool // no more faults
	events   []*event

	mu        sync.Mutex
	rng       *rand.Rand
	processes []*process
	starts    int
	lines     []string
	violation string
}

func newLife(seed uint64, st inbox.Store, q inbox.Queue) *life {
	rng := rand.New(rand.NewPCG(seed, 0))
	l := &life{
		seed: seed, store: st, queue: q, rng: rng, began: time.Now(), accepts: rng.IntN(2) == 0, holds: rng.IntN(2) == 0,
		attempts: []int{2, 3, 10}[rng.IntN(3)], faulty: []int{0, 5, 20}[rng.IntN(3)],
	}
	events := 1
	if l.accepts {
		events += rng.IntN(3)
	}
	for i := range events {
		l.events = append(l.events, &event{
			life: l, id: fmt.Sprintf("event-%d", i+1), sent: i == 0, refused: map[string]bool{},
		})
	}
	return l
}

const (
	consumers  = 2
	deliveries = 10 // of a producer, while there are faults
	operations = 6
)

// rest is how long an event rests after its n-th failure.
func (*life) rest(n int) time.Duration { return time.Duration(min(n, 4)) * 500 * time.Millisecond }

// play lets the events live, and returns the first violation of a rule, or "".
func (l *life) play() (string, error) {
	l.processes = make([]*process, consumers)
	for i := range l.processes {
		if err := l.restart(i); err != nil {
			return "", err
		}
	}
	var all, weather sync.WaitGroup
	all.Go(l.produce)
	all.Go(l.repeat)
	all.Go(l.operate)
	all.Go(l.operate)
	over := make(chan struct{})
	weather.Go(func() { l.weather(over) })
	all.Wait()
	close(over)
	weather.Wait()
	l.calm.Store(true)
	l.log("the faults are over")
	time.Sleep(leaseTTL + handlerTimeout + storeTimeout)
	if l.accepts {
		l.settleAccepted()
	} else {
		l.settle(l.events[0])
	}
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
			if down := l.chance(15); down != p.down.Swap(down) {
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

func (l *life) event(id string) *event {
	for _, e := range l.events {
		if e.id == id {
			return e
		}
	}
	l.violate("there is no event %q", id)
	return l.events[0]
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
	l.lines = append(l.lines, fmt.Sprintf("%9v  "+format, append([]any{time.Since(l.began)}, args...)...))
}

// String returns what has happened, in its order.
func (l *life) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	fmt.Fprintf(&b, "seed %d, accepts %v, holds %v, %d attempts, %d %% of the calls fail\n",
		l.seed, l.accepts, l.holds, l.attempts, l.faulty)
	for _, line := range l.lines {
		fmt.Fprintln(&b, line)
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

func (l *life) drawFault() fault {
	if !l.chance(l.faulty) {
		return none
	}
	return fault(1 + l.draw(int(hangs)))
}

package onerequest

import (
	"context"
	"sync"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/verify/internal/random"
)

// A life is all that happens to a request.
type life struct {
	*random.Life
	store    backend
	upstream *upstream
	auditor  *redo.Client
	wait     time.Duration // of a repetition
	attempts int           // of the client
	refusing int           // percent of the upstream's handlers that refuse

	processes *random.Fleet[*process]

	mu    sync.Mutex
	under int       // the phone's requests that have not ended
	final *response // the first that a repetition must get too
}

const (
	gateways = 2
	senders  = 2 // of the phone
	requests = 5 // of each, while there are faults
)

func newLife(seed uint64, st backend) (*life, error) {
	l := &life{Life: random.New(seed), store: st}
	l.upstream = &upstream{life: l, records: map[string]*random.Reply{}, keys: map[string]bool{}}
	l.wait = []time.Duration{0, 2 * time.Second}[l.Draw(2)]
	l.attempts = 1 + l.Draw(3)
	l.refusing = []int{0, 20}[l.Draw(2)]
	l.Faulty = []int{0, 5, 20}[l.Draw(3)]
	l.Log("repetitions wait %v, %d attempts", l.wait, l.attempts)
	var err error
	l.auditor, err = redo.New(redo.WithStore(st), redo.WithScope("gateway"))
	return l, err
}

// play lets the request live, and returns the first violation of a rule, or "".
func (l *life) play() (string, error) {
	processes, err := random.NewFleet(l.Life, gateways, l.start)
	if err != nil {
		return "", err
	}
	l.processes = processes
	var all, weather sync.WaitGroup
	for range senders {
		all.Go(func() {
			for range requests {
				time.Sleep(l.Span(2 * leaseTTL))
				switch {
				case l.Chance(10):
					l.request(wrong)
				case l.Chance(20):
					l.ask()
				default:
					l.request(right)
				}
			}
		})
	}
	over := make(chan struct{})
	weather.Go(func() { l.processes.Weather(over, leaseTTL, 15) })
	all.Wait()
	close(over)
	weather.Wait()
	l.Calm.Store(true)
	l.Log("the faults are over")
	time.Sleep(3*leaseTTL + 2*delay)
	l.settle()
	l.processes.Kill()
	time.Sleep(2 * time.Minute) // calls of stopped processes end
	return l.Violation(), nil
}

// settle brings the request to its end, when the faults are over.
func (l *life) settle() {
	if l.Draw(2) == 0 {
		l.repeat()
	}
	for range 20 {
		if l.pending() == 0 {
			return
		}
		time.Sleep(time.Minute)
	}
	l.Violate("an operation is pending in the end")
}

// repeat repeats the request until the phone gets its response.
func (l *life) repeat() {
	for i := range 10 {
		got := l.request([]string{right, wrong}[i%2]) // one of them gets payload_mismatch
		if got != nil && (got.success() || got.refused()) {
			return
		}
		time.Sleep(2 * leaseTTL)
	}
	l.Violate("the phone gets no response after the faults")
}

func (l *life) pending() (n int) {
	for op, err := range l.auditor.Pending(context.Background()) {
		if err != nil {
			l.Violate("the pending operations can't be listed: %v", err)
			return 0
		}
		l.Log("pending: %+v", op)
		n++
	}
	return n
}

package oneevent

import (
	"fmt"
	"sync"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/verify/internal/random"
)

// A life is all that happens to an event, or to the events of an order.
type life struct {
	*random.Life
	store    inbox.Store
	queue    inbox.Queue
	accepts  bool // the inbox accepts events and handles them later, from the queue
	holds    bool // an order waits behind a dead letter
	attempts int  // after which an event is dead
	events   []*event

	processes *random.Fleet[*process]
}

func newLife(seed uint64, st inbox.Store, q inbox.Queue) *life {
	l := &life{Life: random.New(seed), store: st, queue: q}
	l.accepts, l.holds, l.attempts = l.Draw(2) == 0, l.Draw(2) == 0, []int{2, 3, 10}[l.Draw(3)]
	l.Faulty = []int{0, 5, 20}[l.Draw(3)]
	l.Log("accepts %v, holds %v, %d attempts", l.accepts, l.holds, l.attempts)
	events := 1
	if l.accepts {
		events += l.Draw(3)
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
	processes, err := random.NewFleet(l.Life, consumers, l.start)
	if err != nil {
		return "", err
	}
	l.processes = processes
	var all, weather sync.WaitGroup
	all.Go(l.produce)
	all.Go(l.repeat)
	all.Go(l.operate)
	all.Go(l.operate)
	over := make(chan struct{})
	weather.Go(func() { l.processes.Weather(over, leaseTTL, 15) })
	all.Wait()
	close(over)
	weather.Wait()
	l.Calm.Store(true)
	l.Log("the faults are over")
	time.Sleep(leaseTTL + handlerTimeout + storeTimeout)
	if l.accepts {
		l.settleAccepted()
	} else {
		l.settle(l.events[0])
	}
	l.processes.Kill()
	time.Sleep(time.Minute) // calls of stopped processes end
	return l.Violation(), nil
}

func (l *life) event(id string) *event {
	for _, e := range l.events {
		if e.id == id {
			return e
		}
	}
	l.Violate("there is no event %q", id)
	return l.events[0]
}

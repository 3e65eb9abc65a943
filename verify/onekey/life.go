package onekey

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/verify/internal/random"
)

// A life is all that happens to one key.
type life struct {
	*random.Life
	store  store.Store
	policy policy
	waits  bool
	parts  bool // a handler ends when its client disconnects
	ledger ledger
	marked atomic.Bool // a handler has called Applied, or written a success before it panicked

	processes *random.Fleet[*process]

	mu    sync.Mutex
	final *response // the first one that a client got
}

// A response is one that a client got.
type response struct {
	status int
	code   string // Error-Code
	body   string
}

func newLife(seed uint64, st store.Store) *life {
	l := &life{Life: random.New(seed), store: st}
	l.policy, l.waits, l.parts = policy(l.Draw(int(policies))), l.Draw(2) == 0, l.Draw(2) == 0
	l.Faulty = []int{0, 5, 20}[l.Draw(3)]
	l.Log("policy %d, waits %v, parts %v", l.policy, l.waits, l.parts)
	return l
}

const (
	clients  = 3
	requests = 5 // of each client, while there are faults
	servers  = 2
)

// play lets the key live, and returns the first violation of a rule, or "".
func (l *life) play() (string, error) {
	processes, err := random.NewFleet(l.Life, servers, l.start)
	if err != nil {
		return "", err
	}
	l.processes = processes
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range requests {
				time.Sleep(l.Span(2 * leaseTTL))
				l.request()
			}
		})
	}
	over := make(chan struct{})
	var weather sync.WaitGroup
	weather.Go(func() { l.processes.Weather(over, leaseTTL, 20) })
	all.Wait()
	close(over)
	weather.Wait()
	l.Calm.Store(true)
	l.Log("the faults are over")
	var last *response
	for range 3 { // the first may find a lease, and the second the outcome of an earlier handler
		time.Sleep(leaseTTL + handlerTimeout + storeTimeout)
		if last = l.request(); last != nil && last.final() {
			break
		}
	}
	l.settle(last)
	l.processes.Kill()
	time.Sleep(time.Minute) // calls of stopped processes end
	return l.Violation(), nil
}

// request sends the operation's request to a process. It returns nil if the client got no response.
func (l *life) request() (got *response) {
	p := l.processes.Any()
	ctx, disconnect := context.WithCancel(context.Background())
	if l.Chance(15) {
		defer time.AfterFunc(l.Span(leaseTTL), disconnect).Stop()
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
	if w == nil || gone || p.Dead.Load() {
		l.Log("a client of %s gets no response", p.Name)
		return nil
	}
	got = &response{w.Code, w.Header().Get("Error-Code"), w.Body.String()}
	l.Log("a client of %s gets %d %s %.40q", p.Name, got.status, got.code, got.body)
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
		l.Violate("the success %q does not name the effect %v", got.body, made)
	case got.refuses() && len(made) > 0:
		l.Violate("the refusal %q came although there is the effect %v", got.body, made)
	case got.notStored() && len(made) == 0:
		l.Violate("result_not_stored came although there is no effect")
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
		l.Violate("a response was %d %q, and a later one is %d %q", first.status, first.body, got.status, got.body)
	}
}

// settle checks the end of the life.
func (l *life) settle(last *response) {
	made := l.ledger.all()
	switch {
	case len(made) > 1:
		l.Violate("the operation has the effects %v", made)
	case last == nil || !last.final():
		l.Violate("no request gets a final response after the faults: %v", last)
	case l.final != nil && l.final.refuses() && len(made) > 0:
		l.Violate("a client was refused for good, and the operation has the effect %v", made)
	case strings.HasSuffix(last.code, "outcome_unknown") && l.policy != refusing && !l.marked.Load():
		l.Violate("the outcome is unknown, and a policy should have found it out")
	}
}

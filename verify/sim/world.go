package sim

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/chance"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store/memstore"
)

// A world is one run of a seed. It lives in one synctest bubble.
type world struct {
	seed    uint64
	plan    plan
	defect  defect
	start   time.Time
	over    chan struct{} // closed at the end: nothing is blocked any more
	context context.Context

	service, consumers, operations *database // of the servers, of the consumers, and of clients and gateways
	memory                         *memstore.Store
	queue                          *memoutbox.Queue
	oracle                         *oracle
	net                            *network

	mu      sync.Mutex
	closers []func(context.Context)
	calm    bool
	jump    time.Duration // of the service's clock
	logging bool
	log     []entry
	broken  *violation
}

// An entry is one line of the event log.
type entry struct {
	at    time.Duration
	actor string
	what  string
}

// A violation is a rule that a world broke.
type violation struct {
	rule   rule
	at     time.Duration
	detail string
}

func newWorld(seed uint64, d defect, logging bool) *world {
	w := &world{seed: seed, defect: d, start: time.Now(), over: make(chan struct{}), logging: logging}
	p := newPlan(w.draw("plan"), seed)
	if d.plan != nil {
		d.plan(&p)
	}
	w.plan = p.settled()
	bits := func() uint64 { return w.draw("fence").Uint64() }
	w.service = newDatabase(w.clock, bits)
	w.consumers = newDatabase(time.Now, bits)
	w.operations = newDatabase(time.Now, bits)
	w.memory = memstore.New()
	w.queue = memoutbox.New()
	w.oracle = newOracle(w)
	w.net = &network{world: w, hosts: map[string][]*process{}}
	w.service.written = w.oracle.effect
	w.service.lost = w.oracle.forgotten
	w.consumers.written = w.oracle.processed
	w.service.logged = w.plan.mode == transactional && w.plan.relays == 0
	w.operations.logged = w.plan.durable
	chance.Replace(func() float64 { return w.draw("jitter").Float64() })
	return w
}

// draw returns the random numbers of a place at this instant. They depend on nothing else but the seed.
func (w *world) draw(place string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(place))
	const odd = 0x9E3779B97F4A7C15
	return rand.New(rand.NewPCG((w.seed+1)*odd^h.Sum64(), uint64(w.now())))
}

// now returns the time since the start.
func (w *world) now() time.Duration { return time.Since(w.start) }

// clock is the clock of the service's database.
func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.jump)
}

// quiet reports whether faults have stopped.
func (w *world) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// atEnd adds a function that is called at the end of the world, to stop a part that runs in the background.
func (w *world) atEnd(f func(context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closers = append(w.closers, f)
}

// end lets every goroutine of the bubble return. ctx has ended.
func (w *world) end(ctx context.Context) {
	close(w.over)
	for _, f := range w.closers {
		f(ctx)
	}
	_ = w.memory.Close()
	time.Sleep(10 * time.Minute) // longer than every timeout of a call
}

// happens draws a fault with a probability in per mille.
func (w *world) happens(rng *rand.Rand, perMille int) bool {
	return rng.IntN(1000) < perMille && !w.quiet()
}

// note adds a line to the event log.
func (w *world) note(actor, format string, args ...any) {
	if !w.logging {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, entry{w.now(), actor, fmt.Sprintf(format, args...)})
}

// violate records a broken rule. The first one counts.
func (w *world) violate(r rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = &violation{r, w.now(), fmt.Sprintf(format, args...)}
	}
}

// found returns the broken rule, nil if there is none.
func (w *world) found() *violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// history returns the event log as text.
func (w *world) history() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Events of one instant have no order.
	slices.SortFunc(w.log, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.actor, b.actor), cmp.Compare(a.what, b.what))
	})
	var b strings.Builder
	for _, e := range w.log {
		fmt.Fprintf(&b, "%14v  %-12s %s\n", e.at, e.actor, e.what)
	}
	return b.String()
}

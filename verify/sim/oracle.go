package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// A rule is a property that every world must keep.
type rule string

const (
	oneEffect    rule = "an operation has at most one effect"
	ackedEffect  rule = "an acknowledged success has its effect"
	notApplied   rule = "NotApplied is never reported for an operation with an effect"
	stableKey    rule = "an operation keeps its key over retries and restarts"
	sameBody     rule = "each attempt sends the operation's own body"
	honoursHint  rule = "no attempt is earlier than Retry-After allows"
	staysRefused rule = "a terminal refusal is not sent again"
	ownResponse  rule = "a caller gets the response to its own operation"
	sameResponse rule = "each replay equals the first response"
	mismatch     rule = "a key with another payload is refused"
	budgetSpent  rule = "retries stay within the budget"
	budgetFills  rule = "calls fill the budget again"
	settles      rule = "no operation and no event is stuck at the end"
	rightEnd     rule = "an operation ends by success, or by the refusal that the service means"
	oneDelivery  rule = "an event is handled at most once"
	inOrder      rule = "the events of an ordering key are handled in their order"
	noOrphan     rule = "an event exists only with the effect that caused it"
)

// An operation is one thing that an app or a phone wants done once.
type operation struct {
	name      string
	principal string
	payload   []byte
	key       string // given by the app; empty: by its name
	host      string
	refused   bool // the service refuses it for good
	failed    bool // a refusal arrived: a later call starts anew, under a new key

	running   []*call
	effects   int
	at        time.Duration     // of the last effect
	lost      bool              // with the database, in a failover
	acked     bool              // a success was reported
	claimed   bool              // NotApplied was reported, and no call was made since
	keys      map[string]string // by host
	sends     map[string]int    // by host
	first     []byte            // the first response
	finished  bool
	delivered int
	place     int // of its event in the queue
}

// An oracle knows the operations and checks every rule as the world goes on.
type oracle struct {
	world *world

	mu         sync.Mutex
	operations map[string]*operation
	events     int
	last       map[string]int // the place of the last event that was handled, by principal
	tallies    map[string]*tally
	sends      int
}

// A tally counts the requests of a process.
type tally struct {
	tokens           float64 // a lower bound of the budget's tokens
	retries, refunds int
	calls            int
	running          int
}

func newOracle(w *world) *oracle {
	return &oracle{world: w, operations: map[string]*operation{}, last: map[string]int{}, tallies: map[string]*tally{}}
}

// A call is one call of an operation, at an app or a phone. The oracle's lock guards it.
type call struct {
	operation *operation
	process   *process
	sends     int
	hold      time.Time // the server asked to wait until then
	terminal  bool      // the server has refused for good
	began     time.Duration
	beside    bool // another process's call of the operation ran at the same time
}

type stateKey struct{}

func stateOf(ctx context.Context) *call {
	c, _ := ctx.Value(stateKey{}).(*call)
	return c
}

// A message is the body of every request here.
type message struct {
	Operation string `json:"operation"`
	Principal string `json:"principal"`
	Amount    int    `json:"amount"`
}

// sent checks a request that leaves a process. It returns a name for it.
func (o *oracle) sent(p *process, req *http.Request, body []byte) string {
	var m message
	_ = json.Unmarshal(body, &m) // a body that is no message names no operation
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sends++
	host, key := req.URL.Host, req.Header.Get("Idempotency-Key")
	op := o.operations[m.Operation]
	c := stateOf(req.Context())
	if c != nil {
		op = c.operation
		o.checkCall(c)
	}
	if op == nil {
		o.world.violate(sameBody, "%s sends %q, which is no operation", p.name, body)
		return "?"
	}
	if !bytes.Equal(body, op.payload) {
		o.world.violate(sameBody, "%s sends %q for %s", p.name, body, op.name)
	}
	renewed := op.failed || op.refused && host != op.host // a gateway's key follows the phone's
	if first, ok := op.keys[host]; ok && first != key && !renewed {
		o.world.violate(stableKey, "%s has the keys %q and %q at %s", op.name, first, key, host)
	}
	op.keys[host] = key
	op.sends[host]++
	name := fmt.Sprintf("%s@%s#%d", op.name, host, op.sends[host])
	o.world.note(p.name, "sends %s", name)
	return name
}

// checkCall checks another attempt of a call.
func (o *oracle) checkCall(c *call) {
	w := o.world
	if now := time.Now(); now.Before(c.hold) {
		w.violate(honoursHint, "%s is sent %v before the time", c.operation.name, c.hold.Sub(now))
	}
	if c.terminal {
		w.violate(staysRefused, "%s is sent again", c.operation.name)
	}
	t := o.tally(c.process)
	if c.sends++; c.sends == 1 {
		t.calls++
		t.tokens = min(float64(w.plan.reserve), t.tokens+budgetRatio)
		return
	}
	t.tokens--
	t.retries++
	most := float64(w.plan.reserve) + budgetRatio*float64(t.calls) + float64(t.refunds+t.running)
	if float64(t.retries) > most {
		w.violate(budgetSpent, "%s made %d retries in %d calls", c.process.name, t.retries, t.calls)
	}
}

func (o *oracle) tally(p *process) *tally {
	t := o.tallies[p.name]
	if t == nil {
		t = &tally{tokens: float64(o.world.plan.reserve)}
		o.tallies[p.name] = t
	}
	return t
}

// received records the demands of a response, such as its Retry-After. A nil reply is an attempt that got no whole
// response.
func (o *oracle) received(req *http.Request, r *reply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := stateOf(req.Context())
	if c == nil {
		return
	}
	if r == nil {
		if c.sends > 1 && req.Context().Err() != nil {
			o.tally(c.process).refunds++
		}
		return
	}
	if c.sends > 1 &&
		(r.status < 400 || r.status == http.StatusUnprocessableEntity || r.status == http.StatusConflict) {
		o.tally(c.process).refunds++
	}
	if after, err := strconv.Atoi(r.header.Get("Retry-After")); err == nil {
		c.hold = time.Now().Add(time.Duration(after) * time.Second)
	}
	if r.status == http.StatusUnprocessableEntity {
		c.terminal, c.operation.failed = true, true
	}
}

// begins notes a call of an operation.
func (o *oracle) begins(p *process, op *operation) *call {
	o.mu.Lock()
	defer o.mu.Unlock()
	op.claimed = false
	o.tally(p).running++
	c := &call{operation: op, process: p, began: o.world.now()}
	op.running = slices.DeleteFunc(op.running, func(other *call) bool { return other.process.isDead() })
	for _, other := range op.running {
		other.beside, c.beside = true, true
	}
	op.running = append(op.running, c)
	return c
}

// reported checks the result of a call. It reports whether the operation has come to its end.
func (o *oracle) reported(c *call, body []byte, err error) (finished bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w, op := o.world, c.operation
	t := o.tally(c.process)
	t.running--
	op.running = slices.DeleteFunc(op.running, func(other *call) bool { return other == c })
	if err == nil {
		o.succeeded(op, body)
		return true
	}
	e, ok := errors.AsType[*redo.Error](err)
	if !ok { // the body of a success broke off
		return false
	}
	if errors.Is(err, redo.ErrBudget) && t.tokens >= float64(2+t.running) {
		w.violate(budgetFills, "%s has %.1f tokens and makes no retry", c.process.name, t.tokens)
	}
	if e.Effect == redo.NotApplied {
		// Beside another call, the report may be older than that call's effect.
		if op.effects > 0 && (!c.beside || op.at < c.began) {
			w.violate(notApplied, "%s: %v", op.name, err)
		}
		op.claimed = !c.beside
	}
	if e.Effect == redo.Applied && op.effects == 0 && !op.lost {
		w.violate(ackedEffect, "%s: %v", op.name, err)
	}
	if redo.SafeToRetry(err) || e.Code.In(taxonomy.Caller) {
		return false
	}
	op.finished = true
	switch {
	case op.refused && e.StatusCode == http.StatusUnprocessableEntity:
	case e.Code.In(taxonomy.ResultNotStored) && op.effects > 0:
	case e.Code.In(taxonomy.OutcomeUnknown) && w.plan.mode == refusing:
	default:
		w.violate(rightEnd, "%s: %v", op.name, err)
	}
	return true
}

// A receipt is the body of a success.
type receipt struct {
	Operation string `json:"operation"`
	Run       string `json:"run"` // of the handler
}

func (o *oracle) succeeded(op *operation, body []byte) {
	w := o.world
	op.finished, op.acked = true, true
	var r receipt
	if err := json.Unmarshal(body, &r); err != nil || r.Operation != op.name {
		w.violate(ownResponse, "%s gets %q", op.name, body)
	}
	if op.effects == 0 && !op.lost {
		w.violate(ackedEffect, "%s has no effect", op.name)
	}
	if op.first == nil {
		op.first = body
	}
	if !bytes.Equal(op.first, body) {
		w.violate(sameResponse, "%s gets %q, and before %q", op.name, body, op.first)
	}
}

// effect counts the committed effect of an operation.
func (o *oracle) effect(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.operations[name]
	o.world.note("EFFECT", "%s", name)
	if op.effects++; op.effects > 1 {
		o.world.violate(oneEffect, "%s has %d", name, op.effects)
	}
	op.at = o.world.now()
	if op.claimed {
		o.world.violate(notApplied, "%s has its effect after the report", name)
	}
	o.events++
	op.place = o.events
}

// forgotten counts an effect that a failover has lost.
func (o *oracle) forgotten(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.operations[name]
	op.effects, op.lost, op.first = op.effects-1, true, nil
}

// processed counts an event that a consumer has handled. The event's id is the operation's name.
func (o *oracle) processed(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.operations[name]
	o.world.note("HANDLED", "%s", name)
	if op.delivered++; op.delivered > 1 {
		o.world.violate(oneDelivery, "%s is handled %d times", name, op.delivered)
	}
	if op.effects == 0 {
		o.world.violate(noOrphan, "%s is handled and has no effect", name)
	}
	if op.place < o.last[op.principal] {
		o.world.violate(inOrder, "%s is handled late", name)
	}
	o.last[op.principal] = op.place
}

// add adds an operation.
func (o *oracle) add(op *operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op.keys, op.sends = map[string]string{}, map[string]int{}
	o.operations[op.name] = op
}

// unsettled returns the names of the operations and events that have not come to their end.
func (o *oracle) unsettled() (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, op := range o.operations {
		switch {
		case !op.finished:
			names = append(names, name)
		case o.world.plan.relays > 0 && op.effects > 0 && op.delivered == 0:
			names = append(names, name+"'s event")
		}
	}
	slices.Sort(names)
	return names
}

// all returns the operations in the order of their names.
func (o *oracle) all() (ops []*operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.operations)) {
		ops = append(ops, o.operations[name])
	}
	return ops
}

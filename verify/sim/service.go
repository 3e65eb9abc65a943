package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/server"
)

const (
	serviceHost  = "service.test"
	gatewayHost  = "gateway.test"
	consumerHost = "consumer.test"
)

// principalHeader names the caller, as authentication in front would.
const principalHeader = "X-Principal"

func principal(r *http.Request) string { return r.Header.Get(principalHeader) }

// A fencedLedger is the service's own table, which refuses owners that are older than the last one that it has seen.
type fencedLedger struct {
	mu   sync.Mutex
	seen map[string]uint64 // by key
}

var errStale = errors.New("sim: the ledger refuses an earlier owner of the key")

// pass lets an owner through, and stops the earlier ones from then on.
func (l *fencedLedger) pass(key string, fence uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fence < l.seen[key] {
		return errStale
	}
	l.seen[key] = fence
	return nil
}

// A service is one server process.
type service struct {
	*process
	ledger *fencedLedger
}

// newServer starts a server process in its place.
func (w *world) newServer(place, generation int, ledger *fencedLedger, link *link) (*process, error) {
	p := w.newProcess(fmt.Sprintf("server%d.%d", place, generation), serviceHost)
	s := &service{p, ledger}
	plan := w.plan
	st := &txGate{gate{w.service, p, link}, w.service}
	opts := []server.Option{
		server.Principal(principal), server.Route("orders"),
		server.LeaseTTL(plan.lease), server.Wait(time.Duration(plan.attempts%2) * 5 * time.Second),
	}
	switch plan.mode {
	case transactional:
		opts = append(opts, server.Transactional[*work]())
	case recovering:
		opts = append(opts, server.TakeOver(server.Recover(s.recover)))
	case refusing:
		opts = append(opts, server.TakeOver(server.Refuse()))
	}
	if !w.defect.keyless {
		opts = append(opts, server.Required())
	}
	var background server.Background
	opts = append(opts, server.RunIn(&background))
	w.atEnd(func(ctx context.Context) { _ = background.Shutdown(ctx) })
	opts = append(opts, w.defect.server...)
	var guard func(http.Handler) http.Handler
	var err error
	if wrap := w.defect.store; wrap != nil && plan.mode != transactional {
		guard, err = server.New(wrap(w, st), opts...)
	} else {
		guard, err = server.New(st, opts...)
	}
	if err != nil {
		return nil, err
	}
	h := http.Handler(http.HandlerFunc(s.order))
	if wrap := w.defect.handler; wrap != nil {
		h = wrap(w, h)
	}
	h = guard(h)
	if wrap := w.defect.outside; wrap != nil {
		h = wrap(w, h)
	}
	p.serve = h.ServeHTTP
	w.net.listen(p, place)
	return p, nil
}

// order is the service's handler. It is sick before its effect only.
func (s *service) order(rw http.ResponseWriter, r *http.Request) {
	w, ctx := s.world, r.Context()
	var m message
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		http.Error(rw, "no message", http.StatusBadRequest)
		return
	}
	place := s.name + "order" + callOf(ctx)
	rng := w.draw(place)
	w.note(s.name, "runs %s", m.Operation)
	if s.wait(ctx, between(rng, time.Millisecond, w.plan.work)) != nil {
		return // the time is over, and nothing is done
	}
	rng = w.draw(place)
	switch {
	case w.oracle.refuses(m.Operation):
		http.Error(rw, "refused", http.StatusUnprocessableEntity)
		return
	case w.happens(rng, w.plan.sick):
		switch rng.IntN(3) {
		case 0:
			panic(http.ErrAbortHandler)
		default:
			http.Error(rw, "sick", []int{500, 502, 503}[rng.IntN(3)])
		}
		return
	}
	if err := s.effect(ctx, m); err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if w.plan.mode == applying {
		_ = server.Applied(ctx) // without the mark, the record of the response closes the gap
	}
	if s.wait(context.WithoutCancel(ctx), between(w.draw(place), time.Millisecond, w.plan.work/4)) != nil {
		return
	}
	answer(rw, m.Operation, fmt.Sprintf("%x", w.draw(place).Uint32()))
}

func answer(rw http.ResponseWriter, operation, run string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(rw).Encode(receipt{operation, run})
}

// effect makes the effect and its event, in one commit.
func (s *service) effect(ctx context.Context, m message) error {
	w := s.world
	announce := func() { w.announce(m, m.Principal) }
	if w.plan.relays == 0 {
		announce = func() {}
	} else if f := w.defect.event; f != nil {
		announce = f(w, m)
	}
	if tx, ok := server.Tx[*work](ctx); ok {
		tx.Insert(m.Operation)
		tx.OnCommit(announce)
		return nil
	}
	if w.plan.mode == recovering {
		if err := s.ledger.pass(m.Principal+server.Key(ctx), server.Fence(ctx)); err != nil {
			return err
		}
	}
	w.service.insert(m.Operation)
	announce()
	return nil
}

// announce puts the event of an operation into the outbox.
func (w *world) announce(m message, orderingKey string) {
	payload, _ := json.Marshal(m) // strings and a number always encode
	err := w.queue.Append(context.Background(), outbox.Event{
		ID: m.Operation, Destination: "http://" + consumerHost + "/events", OrderingKey: orderingKey, Payload: payload,
	})
	w.note("queue", "appends %s: %v", m.Operation, err)
}

// recover reads the effect of a dead owner back. The fence stops that owner, should it be only paused.
func (s *service) recover(ctx context.Context, r *http.Request, key string, _ []byte) (http.Handler, error) {
	var m message
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err == nil {
		err = s.edge(ctx, "recover"+m.Operation)
	}
	if err == nil {
		err = s.ledger.pass(m.Principal+key, server.Fence(ctx))
	}
	if err != nil {
		return nil, err
	}
	if s.world.service.effects(m.Operation) == 0 {
		return nil, nil //nolint:nilnil // nothing was done: the route's handler runs
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { answer(rw, m.Operation, "found") }), nil
}

// refuses reports whether the service means to refuse an operation for good.
func (o *oracle) refuses(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.operations[name]
	return op == nil || op.refused
}

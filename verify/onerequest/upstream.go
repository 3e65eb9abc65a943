package onerequest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/verify/internal/random"
)

const (
	passage  = 100 * time.Millisecond // of most requests and responses, at most
	delay    = 6 * time.Second        // of some, at most
	workTime = 2 * time.Second        // of the upstream's handler, at most
	declined = "the card is declined"
)

// An upstream has at most one effect for a key.
type upstream struct {
	life    *life
	keyless bool // a planted defect: each request has an effect

	mu      sync.Mutex
	records map[string]*random.Reply // by key. nil while a handler works
	keys    map[string]bool
	effects []effect
	ban     string // why there must be no effect any more
	lifted  bool   // the ban ends with the phone's next request
}

// An effect is what the request was for.
type effect struct{ id, payload string }

// RoundTrip implements http.RoundTripper: it is the connection of a process to the upstream.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	p.WaitForResume()
	var payload []byte
	if req.Body != nil {
		payload, _ = io.ReadAll(req.Body)
		_ = req.Body.Close()
	}
	l := p.life
	switch {
	case p.Dead.Load():
		return nil, random.ErrDead
	case req.Context().Err() != nil:
		return nil, req.Context().Err()
	case l.Chance(l.Faulty):
		l.Log("%s: connection refused", p.Name)
		return nil, random.ErrRefused
	}
	key := strings.Trim(req.Header.Get("Idempotency-Key"), `"`)
	l.Log("%s sends %.8s %q", p.Name, key, payload)
	answer := make(chan *random.Reply, 1)
	go func() { answer <- l.upstream.carry(key, string(payload)) }()
	select {
	case rep := <-answer:
		p.WaitForResume()
		if rep == nil {
			return nil, random.ErrReset
		}
		return rep.Response(req), nil
	case <-req.Context().Done():
		p.WaitForResume()
		return nil, req.Context().Err()
	}
}

// carry takes a request to the upstream and its response back, each unless it is lost.
func (u *upstream) carry(key, payload string) *random.Reply {
	l, most := u.life, passage
	if l.Chance(l.Faulty) {
		most = delay
	}
	time.Sleep(l.Span(most))
	if l.Chance(l.Faulty) {
		l.Log("a request is lost")
		return nil
	}
	rep := u.serve(key, payload)
	time.Sleep(l.Span(most))
	if l.Chance(l.Faulty) {
		l.Log("the response %d is lost", rep.Status)
		return nil
	}
	return rep
}

// serve handles a request, which takes time if a handler works.
func (u *upstream) serve(key, payload string) *random.Reply {
	l := u.life
	if l.Chance(8) {
		return &random.Reply{Status: 503, After: l.Draw(3)}
	}
	if l.Chance(5) {
		return &random.Reply{Status: 429, After: 1 + l.Draw(5)}
	}
	u.mu.Lock()
	if u.keys[key] = true; key == "" || len(u.keys) > 1 {
		l.Violate("the upstream gets the keys %v", u.keys)
	}
	rec, known := u.records[key]
	switch {
	case u.keyless:
	case known && rec == nil:
		u.mu.Unlock()
		return &random.Reply{Status: 409, Code: taxonomy.InFlight, After: 1}
	case known:
		u.mu.Unlock()
		again := *rec
		again.Stored, again.Replayed = false, true
		return &again
	}
	u.records[key] = nil
	u.mu.Unlock()
	l.Log("the upstream works")
	time.Sleep(l.Span(workTime))
	return u.finish(key, payload)
}

// finish ends a handler, with or without an effect.
func (u *upstream) finish(key, payload string) *random.Reply {
	l := u.life
	n := l.Draw(100)
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case n < l.refusing:
		u.records[key] = &random.Reply{Status: 422, Stored: true, Body: declined}
	case n < l.refusing+20 && !l.Calm.Load():
		delete(u.records, key) // the key is released, and a repetition runs the handler again
		l.Log("the upstream releases the key")
		return &random.Reply{Status: []int{500, 503}[l.Draw(2)]}
	default:
		e := effect{fmt.Sprintf("effect-%d", len(u.effects)+1), payload}
		u.effects = append(u.effects, e)
		l.Log("EFFECT %v", e)
		if u.ban != "" {
			l.Violate("there is an effect after %s", u.ban)
		}
		if len(u.effects) > 1 {
			l.Violate("the request has the effects %v", u.effects)
		}
		u.records[key] = &random.Reply{Status: 201, Stored: true, Body: e.id}
		if l.Chance(10) {
			return &random.Reply{Status: 500}
		}
	}
	first := *u.records[key]
	l.Log("the upstream remembers %d", first.Status)
	return &first
}

// made returns the effect, or nil.
func (u *upstream) made() *effect {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.effects) == 0 {
		return nil
	}
	return &u.effects[0]
}

// close forbids an effect. If again is true, it is allowed after the phone's next request.
func (u *upstream) close(why string, again bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ban == "" || u.lifted {
		u.ban, u.lifted = why, again
	}
}

// open ends a ban at the phone's next request.
func (u *upstream) open() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lifted {
		u.ban = ""
	}
}

package onerequest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

const (
	passage  = 100 * time.Millisecond // of most requests and responses, at most
	delay    = 6 * time.Second        // of some, at most
	workTime = 2 * time.Second        // of the upstream's handler, at most
	declined = "the card is declined"
)

// Errors of the connection to the upstream.
var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	errDead    = errors.New("the process was killed")
)

// An upstream has at most one effect for a key.
type upstream struct {
	life    *life
	keyless bool // a planted defect: each request has an effect

	mu      sync.Mutex
	records map[string]*reply // by key. nil while a handler works
	keys    map[string]bool
	effects []effect
	ban     string // why there must be no effect any more
	lifted  bool   // the ban ends with the phone's next request
}

// An effect is what the request was for.
type effect struct{ id, payload string }

// A reply is a response on its way to the gateway.
type reply struct {
	status   int
	code     taxonomy.Code // Error-Code
	after    int           // Retry-After, in seconds
	stored   bool          // marked as the outcome for the key
	replayed bool          // marked as its repetition
	body     string
}

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
		return nil, errDead
	case req.Context().Err() != nil:
		return nil, req.Context().Err()
	case l.Chance(l.Faulty):
		l.Log("%s: connection refused", p.Name)
		return nil, errRefused
	}
	key := strings.Trim(req.Header.Get("Idempotency-Key"), `"`)
	l.Log("%s sends %.8s %q", p.Name, key, payload)
	answer := make(chan *reply, 1)
	go func() { answer <- l.upstream.carry(key, string(payload)) }()
	select {
	case rep := <-answer:
		p.WaitForResume()
		if rep == nil {
			return nil, errReset
		}
		return rep.response(req), nil
	case <-req.Context().Done():
		p.WaitForResume()
		return nil, req.Context().Err()
	}
}

// carry takes a request to the upstream and its response back, each unless it is lost.
func (u *upstream) carry(key, payload string) *reply {
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
		l.Log("the response %d is lost", rep.status)
		return nil
	}
	return rep
}

// serve handles a request, which takes time if a handler works.
func (u *upstream) serve(key, payload string) *reply {
	l := u.life
	if l.Chance(8) {
		return &reply{status: 503, after: l.Draw(3)}
	}
	if l.Chance(5) {
		return &reply{status: 429, after: 1 + l.Draw(5)}
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
		return &reply{status: 409, code: taxonomy.InFlight, after: 1}
	case known:
		u.mu.Unlock()
		again := *rec
		again.stored, again.replayed = false, true
		return &again
	}
	u.records[key] = nil
	u.mu.Unlock()
	l.Log("the upstream works")
	time.Sleep(l.Span(workTime))
	return u.finish(key, payload)
}

// finish ends a handler, with or without an effect.
func (u *upstream) finish(key, payload string) *reply {
	l := u.life
	n := l.Draw(100)
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case n < l.refusing:
		u.records[key] = &reply{status: 422, stored: true, body: declined}
	case n < l.refusing+20 && !l.Calm.Load():
		delete(u.records, key) // the key is released, and a repetition runs the handler again
		l.Log("the upstream releases the key")
		return &reply{status: []int{500, 503}[l.Draw(2)]}
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
		u.records[key] = &reply{status: 201, stored: true, body: e.id}
		if l.Chance(10) {
			return &reply{status: 500}
		}
	}
	first := *u.records[key]
	l.Log("the upstream remembers %d", first.status)
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

func (r *reply) response(req *http.Request) *http.Response {
	h := http.Header{"Content-Type": {"text/plain"}}
	if r.stored {
		h.Set("Idempotency-Status", "stored")
	}
	if r.replayed {
		h.Set("Idempotency-Status", "replayed")
	}
	if r.code != "" {
		h.Set("Error-Code", string(r.code))
	}
	if r.after > 0 {
		h.Set("Retry-After", strconv.Itoa(r.after))
	}
	return &http.Response{
		Status: http.StatusText(r.status), StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(r.body)), ContentLength: int64(len(r.body)), Request: req,
	}
}

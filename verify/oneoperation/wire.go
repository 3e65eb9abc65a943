package oneoperation

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/verify/internal/random"
)

const (
	passage = 100 * time.Millisecond // of most requests and responses, at most
	delay   = 8 * time.Second        // of some requests, at most
	echo    = 3 * time.Second        // between a request and its repetition on the way, at most
)

// RoundTrip implements http.RoundTripper.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }()
	}
	switch l := p.life; {
	case p.Dead.Load():
		return nil, random.ErrDead
	case req.Context().Err() != nil:
		return nil, req.Context().Err()
	case l.Chance(l.Faulty):
		l.Log("%s: connection refused", p.Name)
		return nil, random.ErrRefused
	}
	m := &message{
		key: strings.Trim(req.Header.Get("Idempotency-Key"), `"`), sender: p, answer: make(chan *reply, 1),
		resume: req.Context().Value(resumeKey{}) != nil,
	}
	p.life.Log("%s sends %s", p.Name, m.key)
	p.life.server.put(m)
	p.life.running.Go(func() { p.life.server.carry(m) })
	select {
	case rep := <-m.answer:
		if rep == nil {
			return nil, random.ErrReset
		}
		return rep.response(req), nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// carry takes a request to the server and its response back, each unless it is lost.
func (s *server) carry(m *message) {
	l, most := s.life, passage
	if l.Chance(l.Faulty) {
		most = delay
	}
	time.Sleep(l.Span(most))
	var rep *reply
	repeated := l.Chance(l.Faulty)
	switch {
	case l.Chance(l.Faulty), time.Since(l.Began) < l.outage && l.Chance(80):
		l.Log("a request of %s is lost", m.sender.Name)
	case l.Chance(l.gated):
		rep = &reply{status: []int{403, 404}[l.Draw(2)], unserved: true}
	default:
		rep = s.serve(m)
	}
	// A request that is repeated on the way gets no refusal from in front of the record: it would be about one of two.
	if repeated = repeated && rep != nil && !rep.unserved; !repeated {
		s.take(m)
	}
	if rep != nil {
		s.answer(m, *rep)
	}
	if repeated {
		time.Sleep(l.Span(echo))
		l.Log("a request of %s arrives again", m.sender.Name)
		_ = s.serve(m)
		s.take(m)
	}
}

// take takes a request off the wire.
func (s *server) take(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wire, m)
}

func (s *server) answer(m *message, rep reply) {
	l := s.life
	l.running.Go(func() {
		time.Sleep(l.Span(passage))
		if l.Chance(l.Faulty) {
			switch l.Draw(3) {
			case 0:
				l.Log("a response to %s is lost", m.sender.Name)
				return
			case 1:
				l.Log("the connection of %s is reset", m.sender.Name)
				m.answer <- nil
				return
			case 2:
				rep.truncated = true
			}
		}
		l.Log("%s gets %d %q, replayed: %v, truncated: %v", m.sender.Name, rep.status, rep.body, rep.replayed, rep.truncated)
		m.answer <- &rep
	})
}

// response builds the response as a transport returns it.
func (r *reply) response(req *http.Request) *http.Response {
	resp := random.Reply{
		Status: r.status, Code: r.code, After: r.after, Stored: r.stored, Replayed: r.replayed, Body: r.body,
	}.Response(req)
	if r.replayed {
		resp.Header.Set("Idempotent-Replayed", "true")
	}
	if r.truncated {
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(r.body[:len(r.body)/2]), broken{}))
	}
	return resp
}

// broken is the end of a body whose connection breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

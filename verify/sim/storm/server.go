package storm

import (
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A server has one queue and a fixed capacity. In its outage it refuses everything with 503.
type server struct {
	start      time.Time
	service    time.Duration // of one request
	longest    time.Duration // a request that would wait for longer is refused
	from, to   time.Duration // the outage
	mu         sync.Mutex
	free       time.Time // when the queue is empty
	attempts   []int     // by second
	successes  int
	afterward  []int // failed attempts by second, after the outage
	attemptSum int
}

func newServer(perSecond int, from, to, end time.Duration) *server {
	seconds := int(end/time.Second) + 60
	return &server{
		start: time.Now(), service: time.Second / time.Duration(perSecond), longest: time.Second, from: from, to: to,
		attempts: make([]int, seconds), afterward: make([]int, seconds),
	}
}

// RoundTrip implements http.RoundTripper. It takes a millisecond each way.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body) // of a buffer
		_ = req.Body.Close()
	}
	time.Sleep(time.Millisecond)
	status, wait := s.accept()
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-req.Context().Done():
			return nil, req.Context().Err() // the server does the work all the same
		}
	}
	time.Sleep(time.Millisecond)
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader("")), Request: req,
	}, nil
}

func (s *server) accept() (status int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	at := now.Sub(s.start)
	second := min(int(at/time.Second), len(s.attempts)-1)
	s.attempts[second]++
	s.attemptSum++
	if s.from <= at && at < s.to {
		return http.StatusServiceUnavailable, 0
	}
	if s.free.Before(now) {
		s.free = now
	}
	if s.free.Sub(now) > s.longest {
		s.afterward[second]++
		s.free = s.free.Add(s.service / 5) // a refusal is work too
		return http.StatusServiceUnavailable, 0
	}
	s.free = s.free.Add(s.service)
	s.successes++
	return http.StatusCreated, s.free.Sub(now)
}

// peak returns the largest number of attempts in a second from one instant to another.
func (s *server) peak(from, to time.Duration) (most int) {
	for second := int(from / time.Second); second < int(to/time.Second); second++ {
		most = max(most, s.attempts[second])
	}
	return most
}

// recovered returns how long after the outage the last request was refused.
func (s *server) recovered() time.Duration {
	for second := len(s.afterward) - 1; second >= int(s.to/time.Second); second-- {
		if s.afterward[second] > 0 {
			return time.Duration(second+1)*time.Second - s.to
		}
	}
	return 0
}

// ratio returns a to b with two digits.
func ratio(a, b int) float64 { return math.Round(100*float64(a)/float64(b)) / 100 }

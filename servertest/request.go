package servertest

import (
	"bytes"
	"net/http"
	"net/url"
	"time"
)

// Request is one received request.
type Request struct {
	// Number counts the server's requests from 1, in the order of arrival.
	Number int
	// Conn counts the server's connections from 1: two requests with the same Conn shared one.
	Conn int
	// Key is the idempotency key without its quotes. It is empty if there was none. Header holds the key as sent.
	Key    string
	Method string
	Host   string
	Path   string
	Query  url.Values
	Header http.Header
	// Body holds the bytes that were read of the body. It is nil if the fault prevented reading.
	Body []byte
	// Step is the fault of the request's step. It is empty if no script had a step for the request.
	Step string
	At   time.Time
}

func (r *Request) clone() Request {
	c := *r
	c.Query = make(url.Values, len(r.Query))
	for name, values := range r.Query {
		c.Query[name] = append([]string(nil), values...)
	}
	c.Header = r.Header.Clone()
	c.Body = bytes.Clone(r.Body)
	return c
}

// arrive records a request whose header was read.
func (l *Ledger) arrive(r *http.Request, key string, conn int) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	req := &Request{
		Number: len(l.requests) + 1,
		Conn:   conn,
		Key:    key,
		Method: r.Method,
		Host:   r.Host,
		Path:   r.URL.Path,
		Query:  r.URL.Query(),
		Header: r.Header.Clone(),
		At:     time.Now(),
	}
	l.requests = append(l.requests, req)
	return req
}

// met records the step that a request took.
func (l *Ledger) met(r *Request, step string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Step = step
}

// carried records the body that was read.
func (l *Ledger) carried(r *Request, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Body = body
}

func (l *Ledger) sent() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	requests := make([]Request, len(l.requests))
	for i, r := range l.requests {
		requests[i] = r.clone()
	}
	return requests
}

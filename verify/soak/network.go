package main

import (
	"errors"
	"math/rand/v2"
	"net/http"
)

// A lossy transport loses requests and responses, and has the service refuse some requests before they are applied.
type lossy struct {
	next http.RoundTripper
	rate float64 // of each fault
}

var errLost = errors.New("the network lost it")

func (l lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	switch p := rand.Float64(); {
	case p < l.rate:
		return nil, errLost // the request
	case p < 2*l.rate:
		return &http.Response{
			StatusCode: http.StatusServiceUnavailable, Status: "503 Service Unavailable", Proto: "HTTP/1.1",
			ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r,
		}, nil
	}
	resp, err := l.next.RoundTrip(r)
	if err == nil && rand.Float64() < l.rate {
		_ = resp.Body.Close()
		return nil, errLost // the response
	}
	return resp, err
}

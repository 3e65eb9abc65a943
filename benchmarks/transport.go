package main

import (
	"bytes"
	"io"
	"net/http"
)

// memoryURL is never resolved: memoryTransport serves it.
const memoryURL = "http://payments.test/v1/refunds"

var (
	answerBody   = []byte(`{"id":"rf_1138","status":"succeeded"}`)
	answerHeader = http.Header{"Content-Type": contentType} // no contestant writes to a response's header
)

// memoryTransport reads each request to its end and responds immediately.
type memoryTransport struct{}

func (memoryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := drain(req.Body); err != nil {
		return nil, err
	}
	return answer(req, http.StatusCreated, "201 Created"), nil
}

// flakyTransport is memoryTransport that refuses every other request with 503. One caller at a time.
type flakyTransport struct{ refused bool }

func (t *flakyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.refused = !t.refused; !t.refused {
		return memoryTransport{}.RoundTrip(req)
	}
	if err := drain(req.Body); err != nil {
		return nil, err
	}
	return answer(req, http.StatusServiceUnavailable, "503 Service Unavailable"), nil
}

func drain(body io.ReadCloser) error {
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	return body.Close()
}

func answer(req *http.Request, status int, text string) *http.Response {
	return &http.Response{
		Status: text, StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answerHeader, Body: io.NopCloser(bytes.NewReader(answerBody)), ContentLength: int64(len(answerBody)),
		Request: req,
	}
}

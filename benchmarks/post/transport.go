package post

import (
	"bytes"
	"io"
	"net/http"
)

// MemoryURL is never resolved: Memory serves it.
const MemoryURL = "http://payments.test/v1/refunds"

// ResponseBody is the body of every response.
var (
	ResponseBody   = []byte(`{"id":"rf_1138","status":"succeeded"}`)
	responseHeader = http.Header{"Content-Type": ContentType} // no contestant writes to a response's header
)

// Memory reads each request to its end and responds immediately.
type Memory struct{}

// RoundTrip responds with 201.
func (Memory) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := drain(req.Body); err != nil {
		return nil, err
	}
	return respondInMemory(req, http.StatusCreated, "201 Created"), nil
}

// Flaky is Memory that refuses every other request with 503. One caller at a time.
type Flaky struct{ refused bool }

// RoundTrip responds with 503 and 201 in turn.
func (t *Flaky) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.refused = !t.refused; !t.refused {
		return Memory{}.RoundTrip(req)
	}
	if err := drain(req.Body); err != nil {
		return nil, err
	}
	return respondInMemory(req, http.StatusServiceUnavailable, "503 Service Unavailable"), nil
}

func drain(body io.ReadCloser) error {
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	return body.Close()
}

func respondInMemory(req *http.Request, status int, text string) *http.Response {
	return &http.Response{
		Status: text, StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: responseHeader, Body: io.NopCloser(bytes.NewReader(ResponseBody)),
		ContentLength: int64(len(ResponseBody)), Request: req,
	}
}

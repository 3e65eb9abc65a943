package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// Every contestant's request is made in the same way, by http.NewRequest or by go-retryablehttp's wrapper of it.
// The URL is a constant string that is parsed each time. The body is in memory. The values of the headers are
// slices that all requests share. On that convention bare net/http makes 16 allocations for a call. A cached
// *url.URL would save each contestant one and the same.
//
// A contestant without the promise of a new key sends a constant one, which costs nothing. The others make a UUIDv7 for
// each call: redo by default, the peers by hand.
var (
	contentType = []string{"application/json"}
	constantKey = []string{"0193a5c8-7b1e-7c3a-9d42-5f0e8a6b1c27"}
)

const (
	smallBody = 256
	largeBody = 1 << 20
)

func newRequest(ctx context.Context, url string, payload []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	req.Header["Content-Type"] = contentType
	return req, nil
}

// consume reads a response to its end, which gives its connection back.
func consume(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("benchmarks: the response is %s, it must be 201", resp.Status)
	}
	return resp.Body.Close()
}

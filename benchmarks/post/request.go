package post

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ContentType and ConstantKey are the values of headers. All requests share these slices.
//
// Every contestant's request is made in the same way, by http.NewRequest or by go-retryablehttp's wrapper of it.
// The URL is a constant string that is parsed each time. The body is in memory. On that convention bare net/http makes
// 16 allocations for a call. A cached *url.URL would save each contestant one and the same.
//
// A contestant without the promise of a new key sends ConstantKey, which costs nothing. The others make a UUIDv7 for
// each call: redo by default, the peers by hand.
var (
	ContentType = []string{"application/json"}
	ConstantKey = []string{"0193a5c8-7b1e-7c3a-9d42-5f0e8a6b1c27"}
)

// Sizes of a request's body, in bytes.
const (
	SmallBody = 256
	LargeBody = 1 << 20
)

// Deadline bounds a call of each contestant that has a deadline. It is redo's default.
const Deadline = 10 * time.Second

// NewRequest returns a POST of payload. Its body can be rewound.
func NewRequest(ctx context.Context, url string, payload []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	req.Header["Content-Type"] = ContentType
	return req, nil
}

// Consume reads a response to its end, which gives its connection back. It returns err unless that is nil, and an
// error for every status but 201.
func Consume(resp *http.Response, err error) error {
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

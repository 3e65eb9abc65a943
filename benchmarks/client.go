package main

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/redo-go/redo"
)

// Names of the contestants among the clients, as the targets and benchstat use them: without a slash.
const (
	byNetHTTP        = "http.Client"
	byRetryable      = "go-retryablehttp Do"
	byStandardClient = "go-retryablehttp StandardClient"
	byEqualWork      = "the same + new key + deadline"
	byDo             = "redo.Do"
	byTransport      = "redo.Transport"
)

// A client sends one POST and reads its answer.
type client func(url string, payload []byte) error

// clients makes each contestant over a transport. All but http.Client make retries, at once and with their defaults
// otherwise.
var clients = []struct {
	name string
	over func(http.RoundTripper) (client, error)
}{
	{byNetHTTP, func(rt http.RoundTripper) (client, error) {
		return keyed(&http.Client{Transport: rt}), nil
	}},
	{byRetryable, func(rt http.RoundTripper) (client, error) {
		c := newRetryable(rt)
		return func(url string, payload []byte) error {
			req, err := retryablehttp.NewRequest(http.MethodPost, url, payload)
			if err != nil {
				return err
			}
			req.Header["Content-Type"] = contentType
			req.Header["Idempotency-Key"] = constantKey
			return consume(c.Do(req))
		}, nil
	}},
	{byStandardClient, func(rt http.RoundTripper) (client, error) {
		return keyed(newRetryable(rt).StandardClient()), nil
	}},
	// What redo does for every call, done by hand: the like of it for information, no target is set on it.
	{byEqualWork, func(rt http.RoundTripper) (client, error) {
		c := newRetryable(rt).StandardClient()
		return func(url string, payload []byte) error {
			key, err := uuid.NewV7()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			req, err := newRequest(ctx, url, payload)
			if err != nil {
				return err
			}
			req.Header["Idempotency-Key"] = []string{key.String()}
			return consume(c.Do(req))
		}, nil
	}},
	{byDo, func(rt http.RoundTripper) (client, error) {
		c, err := newRedo(rt)
		if err != nil {
			return nil, err
		}
		return func(url string, payload []byte) error {
			req, err := newRequest(context.Background(), url, payload)
			if err != nil {
				return err
			}
			return consume(c.Do(req))
		}, nil
	}},
	{byTransport, func(rt http.RoundTripper) (client, error) {
		c, err := newRedo(rt)
		if err != nil {
			return nil, err
		}
		over := &http.Client{Transport: c.Transport()}
		return func(url string, payload []byte) error {
			req, err := newRequest(context.Background(), url, payload)
			if err != nil {
				return err
			}
			return consume(over.Do(req))
		}, nil
	}},
}

// keyed sends through c, with the constant key.
func keyed(c *http.Client) client {
	return func(url string, payload []byte) error {
		req, err := newRequest(context.Background(), url, payload)
		if err != nil {
			return err
		}
		req.Header["Idempotency-Key"] = constantKey
		return consume(c.Do(req))
	}
}

func newRetryable(rt http.RoundTripper) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: rt}
	c.Logger = nil // the default writes each URL to stderr
	c.RetryWaitMin, c.RetryWaitMax = 0, 0
	return c
}

func newRedo(rt http.RoundTripper, opts ...redo.Option) (*redo.Client, error) {
	opts = append(opts, redo.WithTransport(rt), redo.WithRetry(redo.RetryPolicy{Jitter: redo.NoDelay}))
	return redo.New(opts...)
}

func memoryScenario() scenario {
	return scenario{
		name:        "memory",
		title:       "a 256-byte POST over a transport in memory",
		reference:   byNetHTTP,
		contestants: overMemory(smallBody, byNetHTTP, func() http.RoundTripper { return memoryTransport{} }),
	}
}

func largeScenario() scenario {
	return scenario{
		name:        "large",
		title:       "a POST of 1 MiB, replayable, over a transport in memory that reads it",
		reference:   byNetHTTP,
		contestants: overMemory(largeBody, byNetHTTP, func() http.RoundTripper { return memoryTransport{} }),
	}
}

func retryScenario() scenario {
	return scenario{
		name:        "retry",
		title:       "a 256-byte POST that is answered 503, then 201, in memory, without a delay",
		reference:   byRetryable,
		contestants: overMemory(smallBody, byRetryable, func() http.RoundTripper { return &flakyTransport{} }),
	}
}

// overMemory returns the clients from the one named first on.
func overMemory(size int, first string, transport func() http.RoundTripper) []contestant {
	payload := make([]byte, size)
	var all []contestant
	for _, c := range clients {
		if len(all) == 0 && c.name != first {
			continue
		}
		all = append(all, contestant{c.name, func(string) (runner, error) {
			send, err := c.over(transport())
			if err != nil {
				return runner{}, err
			}
			return serially(func(int) error { return send(memoryURL, payload) }, nil), nil
		}})
	}
	return all
}

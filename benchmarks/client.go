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
	byNetHTTP          = "http.Client"
	byRetryable        = "go-retryablehttp Do"
	byStandardClient   = "go-retryablehttp StandardClient"
	byKeyedNetHTTP     = "http.Client + key + deadline"
	byKeyedRetryable   = "go-retryablehttp Do + key + deadline"
	byKeyedStandard    = "StandardClient + key + deadline"
	byDo               = "redo.Do"
	byTransport        = "redo.Transport"
	byBoundedTransport = "redo.Transport + deadline"
)

// callDeadline bounds a call of each contestant that has a deadline. It is redo's default.
const callDeadline = 10 * time.Second

// A client sends one POST and reads its response.
type client func(url string, payload []byte) error

// A clientKind is one way to send a POST. The fields keys, deadline and retries are its promise. A target on time
// compares only kinds that make a key and keep a deadline.
type clientKind struct {
	name     string
	keys     bool // each call gets a new UUIDv7; otherwise the key is constant
	deadline bool // a call ends after callDeadline
	retries  bool // a 503 is retried without a delay, under the same key, with the body rewound
	over     func(http.RoundTripper) (client, error)
}

// clients holds the kinds in the order of the report.
var clients = []clientKind{
	{byNetHTTP, false, false, false, func(rt http.RoundTripper) (client, error) {
		return constant(&http.Client{Transport: rt}), nil
	}},
	{byRetryable, false, false, true, func(rt http.RoundTripper) (client, error) {
		c := newRetryable(rt)
		return func(url string, payload []byte) error {
			return sendRetryable(context.Background(), c, url, payload, constantKey)
		}, nil
	}},
	{byStandardClient, false, false, true, func(rt http.RoundTripper) (client, error) {
		return constant(newRetryable(rt).StandardClient()), nil
	}},
	{byKeyedNetHTTP, true, true, false, func(rt http.RoundTripper) (client, error) {
		return keyed(&http.Client{Transport: rt}), nil
	}},
	{byKeyedRetryable, true, true, true, func(rt http.RoundTripper) (client, error) {
		c := newRetryable(rt)
		return func(url string, payload []byte) error {
			key, err := uuid.NewV7()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), callDeadline)
			defer cancel()
			return sendRetryable(ctx, c, url, payload, []string{key.String()})
		}, nil
	}},
	{byKeyedStandard, true, true, true, func(rt http.RoundTripper) (client, error) {
		return keyed(newRetryable(rt).StandardClient()), nil
	}},
	{byDo, true, true, true, func(rt http.RoundTripper) (client, error) {
		c, err := newRedo(rt)
		if err != nil {
			return nil, err
		}
		return func(url string, payload []byte) error {
			return send(context.Background(), c.Do, url, payload, nil)
		}, nil
	}},
	{byTransport, true, false, true, func(rt http.RoundTripper) (client, error) {
		c, err := newRedo(rt)
		if err != nil {
			return nil, err
		}
		over := &http.Client{Transport: c.Transport()}
		return func(url string, payload []byte) error {
			return send(context.Background(), over.Do, url, payload, nil)
		}, nil
	}},
	// Under Transport the deadline is the caller's, as it is for the peers.
	{byBoundedTransport, true, true, true, func(rt http.RoundTripper) (client, error) {
		c, err := newRedo(rt)
		if err != nil {
			return nil, err
		}
		over := &http.Client{Transport: c.Transport()}
		return func(url string, payload []byte) error {
			ctx, cancel := context.WithTimeout(context.Background(), callDeadline)
			defer cancel()
			return send(ctx, over.Do, url, payload, nil)
		}, nil
	}},
}

// constant sends through c with the constant key and without a deadline.
func constant(c *http.Client) client {
	return func(url string, payload []byte) error {
		return send(context.Background(), c.Do, url, payload, constantKey)
	}
}

// keyed sends through c as a careful caller of net/http does: with a new key and a deadline for each call. The body can
// be rewound, since http.NewRequest sets GetBody.
func keyed(c *http.Client) client {
	return func(url string, payload []byte) error {
		key, err := uuid.NewV7()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), callDeadline)
		defer cancel()
		return send(ctx, c.Do, url, payload, []string{key.String()})
	}
}

// send makes a request, sends it with do and reads the response. A nil key sets no header.
func send(
	ctx context.Context, do func(*http.Request) (*http.Response, error), url string, payload []byte, key []string,
) error {
	req, err := newRequest(ctx, url, payload)
	if err != nil {
		return err
	}
	if key != nil {
		req.Header["Idempotency-Key"] = key
	}
	return consume(do(req))
}

// sendRetryable is send for go-retryablehttp's own request, which rewinds payload without a copy.
func sendRetryable(ctx context.Context, c *retryablehttp.Client, url string, payload []byte, key []string) error {
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, url, payload)
	if err != nil {
		return err
	}
	req.Header["Content-Type"] = contentType
	req.Header["Idempotency-Key"] = key
	return consume(c.Do(req))
}

func newRetryable(rt http.RoundTripper) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: rt}
	c.Logger = nil // the default writes each URL to stderr
	c.RetryWaitMin, c.RetryWaitMax = 0, 0
	return c
}

// newRedo returns a client that makes keys under Transport too, and retries without a delay.
func newRedo(rt http.RoundTripper, opts ...redo.Option) (*redo.Client, error) {
	opts = append(opts, redo.WithTransport(rt), redo.WithProfile(redo.RedoProfile()),
		redo.WithRetry(redo.RetryPolicy{Jitter: redo.NoDelay}))
	return redo.New(opts...)
}

func anyClient(clientKind) bool        { return true }
func retryingClient(c clientKind) bool { return c.retries }

func memoryScenario() scenario {
	return scenario{
		name:        "memory",
		title:       "a 256-byte POST over a transport in memory",
		reference:   byKeyedStandard,
		contestants: overMemory(smallBody, anyClient, func() http.RoundTripper { return memoryTransport{} }),
	}
}

func largeScenario() scenario {
	return scenario{
		name:        "large",
		title:       "a POST of 1 MiB, replayable, over a transport in memory that reads it",
		reference:   byKeyedNetHTTP,
		contestants: overMemory(largeBody, anyClient, func() http.RoundTripper { return memoryTransport{} }),
	}
}

func retryScenario() scenario {
	return scenario{
		name:        "retry",
		title:       "a 256-byte POST with the responses 503, then 201, in memory, without a delay",
		reference:   byKeyedStandard,
		contestants: overMemory(smallBody, retryingClient, func() http.RoundTripper { return &flakyTransport{} }),
	}
}

// overMemory returns the chosen clients as contestants over a transport of their own.
func overMemory(size int, chosen func(clientKind) bool, transport func() http.RoundTripper) []contestant {
	payload := make([]byte, size)
	var all []contestant
	for _, c := range clients {
		if !chosen(c) {
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

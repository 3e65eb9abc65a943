package main

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/benchmarks/post"
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

// A client sends one POST and reads its response.
type client func(url string, payload []byte) error

// A clientKind is one way to send a POST. The fields keys, deadline and retries are its promise. A target on time
// compares only kinds that make a key and keep a deadline.
type clientKind struct {
	name     string
	keys     bool // each call gets a new UUIDv7; otherwise the key is constant
	deadline bool // a call ends after post.Deadline
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
			return sendRetryable(context.Background(), c, url, payload, post.ConstantKey)
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
			ctx, cancel := context.WithTimeout(context.Background(), post.Deadline)
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
			ctx, cancel := context.WithTimeout(context.Background(), post.Deadline)
			defer cancel()
			return send(ctx, over.Do, url, payload, nil)
		}, nil
	}},
}

// constant sends through c with the constant key and without a deadline.
func constant(c *http.Client) client {
	return func(url string, payload []byte) error {
		return send(context.Background(), c.Do, url, payload, post.ConstantKey)
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
		ctx, cancel := context.WithTimeout(context.Background(), post.Deadline)
		defer cancel()
		return send(ctx, c.Do, url, payload, []string{key.String()})
	}
}

// send makes a request, sends it with do and reads the response. A nil key sets no header.
func send(
	ctx context.Context, do func(*http.Request) (*http.Response, error), url string, payload []byte, key []string,
) error {
	req, err := post.NewRequest(ctx, url, payload)
	if err != nil {
		return err
	}
	if key != nil {
		req.Header["Idempotency-Key"] = key
	}
	return post.Consume(do(req))
}

// sendRetryable is send for go-retryablehttp's own request, which rewinds payload without a copy.
func sendRetryable(ctx context.Context, c *retryablehttp.Client, url string, payload []byte, key []string) error {
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, url, payload)
	if err != nil {
		return err
	}
	req.Header["Content-Type"] = post.ContentType
	req.Header["Idempotency-Key"] = key
	return post.Consume(c.Do(req))
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

func memoryScenario() contest.Scenario {
	return contest.Scenario{
		Name:        "memory",
		Title:       "a 256-byte POST over a transport in memory",
		Reference:   byKeyedStandard,
		Contestants: overMemory(post.SmallBody, anyClient, func() http.RoundTripper { return post.Memory{} }),
	}
}

func largeScenario() contest.Scenario {
	return contest.Scenario{
		Name:        "large",
		Title:       "a POST of 1 MiB, replayable, over a transport in memory that reads it",
		Reference:   byKeyedNetHTTP,
		Contestants: overMemory(post.LargeBody, anyClient, func() http.RoundTripper { return post.Memory{} }),
	}
}

func retryScenario() contest.Scenario {
	return contest.Scenario{
		Name:        "retry",
		Title:       "a 256-byte POST with the responses 503, then 201, in memory, without a delay",
		Reference:   byKeyedStandard,
		Contestants: overMemory(post.SmallBody, retryingClient, func() http.RoundTripper { return &post.Flaky{} }),
	}
}

// overMemory returns the chosen clients as contestants over a transport of their own.
func overMemory(size int, chosen func(clientKind) bool, transport func() http.RoundTripper) []contest.Contestant {
	payload := make([]byte, size)
	var all []contest.Contestant
	for _, c := range clients {
		if !chosen(c) {
			continue
		}
		all = append(all, contest.Contestant{Name: c.name, Open: func(string) (contest.Runner, error) {
			send, err := c.over(transport())
			if err != nil {
				return contest.Runner{}, err
			}
			return contest.Serially(func(int) error { return send(post.MemoryURL, payload) }, nil), nil
		}})
	}
	return all
}

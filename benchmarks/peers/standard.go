package main

import (
	"context"
	"net/http"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/gojek/heimdall/v7"
	"github.com/gojek/heimdall/v7/httpclient"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/redo-go/redo/benchmarks/post"
)

func openStandard(to target) (sender, error) {
	return sending(to, (&http.Client{Transport: to.rt}).Do), nil
}

func newRetryable(to target) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: to.rt}
	c.Logger = nil // the default writes each URL to stderr
	if !to.patient {
		c.RetryWaitMin, c.RetryWaitMax = 0, 0
	}
	return c
}

// openRetryable uses the library's own request, which rewinds the payload without a copy.
func openRetryable(to target) (sender, error) {
	c := newRetryable(to)
	return sender{send: func(ctx context.Context, payload []byte, key []string) error {
		req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, to.url, payload)
		if err != nil {
			return err
		}
		req.Header["Content-Type"] = post.ContentType
		if key != nil {
			req.Header["Idempotency-Key"] = key
		}
		return post.Consume(c.Do(req))
	}}, nil
}

func openRetryableStandard(to target) (sender, error) {
	return sending(to, newRetryable(to).StandardClient().Do), nil
}

// openFailsafe uses the library's policy for HTTP: 2 retries, no delay without Retry-After.
func openFailsafe(to target) (sender, error) {
	retries := failsafehttp.NewRetryPolicyBuilder().Build()
	return sending(to, (&http.Client{Transport: failsafehttp.NewRoundTripper(to.rt, retries)}).Do), nil
}

// openRehttp retries errors and the statuses of gateways. The library has no default: its user states both.
func openRehttp(to target) (sender, error) {
	when := rehttp.RetryAll(rehttp.RetryMaxRetries(retries), rehttp.RetryAny(
		rehttp.RetryStatuses(http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout),
		rehttp.RetryIsErr(func(err error) bool { return err != nil }),
	))
	delay := rehttp.ConstDelay(0)
	if to.patient {
		delay = rehttp.ExpJitterDelay(baseDelay, mostDelay)
	}
	return sending(to, (&http.Client{Transport: rehttp.NewTransport(to.rt, when, delay)}).Do), nil
}

// openHeimdall gives the library a client with the library's own timeout of an attempt, 30 s.
func openHeimdall(to target) (sender, error) {
	retrier := heimdall.NewNoRetrier() // no delay
	if to.patient {
		retrier = heimdall.NewRetrier(heimdall.NewExponentialBackoff(baseDelay, mostDelay, 2, baseDelay))
	}
	c := httpclient.NewClient(httpclient.WithRetryCount(retries), httpclient.WithRetrier(retrier),
		httpclient.WithHTTPClient(&http.Client{Transport: to.rt, Timeout: 30 * time.Second}))
	return sending(to, c.Do), nil
}

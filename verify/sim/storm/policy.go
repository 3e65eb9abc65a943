package storm

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"
	"resty.dev/v3"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
)

// A caller makes one call, with its retries, over a transport. It reports success.
type caller func(ctx context.Context) bool

// A policy is a way to retry.
type policy struct {
	name   string
	source string
	open   func(http.RoundTripper) (caller, error) // for each process
}

const target = "http://service.test/orders"

func request(ctx context.Context) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, target, strings.NewReader("{}"))
	if err != nil {
		panic(err) // the URL is a constant
	}
	return req
}

func good(resp *http.Response, err error) bool {
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body) // of a buffer
	_ = resp.Body.Close()
	return resp.StatusCode < 300
}

// attemptTimeout is that of every policy.
const attemptTimeout = 2 * time.Second

// timed bounds each attempt of a client that has no attempt timeout.
type timed struct{ http.RoundTripper }

func (t timed) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), attemptTimeout)
	defer cancel() // the body is in memory
	return t.RoundTripper.RoundTrip(req.WithContext(ctx))
}

// withRedo is a policy of redo's client.
func withRedo(name, source string, opts ...redo.Option) policy {
	return policy{name, source, func(rt http.RoundTripper) (caller, error) {
		c, err := redo.New(append([]redo.Option{redo.WithTransport(timed{rt})}, opts...)...)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) bool { return good(c.Do(request(ctx))) }, nil
	}}
}

// bare waits the whole step of the schedule.
func bare(n int, _ time.Duration, p redo.RetryPolicy, _ float64) time.Duration {
	return min(p.MaxDelay, p.BaseDelay<<min(n, 20))
}

// policies are the ones that the plots compare.
var policies = []policy{
	withRedo("no jitter", "redo, delay min(2 s, 100 ms·2ⁿ), 5 attempts, no budget",
		redo.WithRetry(redo.RetryPolicy{Jitter: bare}), redo.WithBudget(limit.Budget{Unlimited: true})),
	withRedo("full jitter", "redo, redo.FullJitter, 5 attempts, no budget",
		redo.WithBudget(limit.Budget{Unlimited: true})),
	withRedo("full jitter and budget", "redo's defaults"),
	{"go-retryablehttp", "v0.7.8, NewClient: 4 retries, DefaultBackoff from 1 s to 30 s", openRetryable},
	{"aws-sdk-go-v2", "v1.47.7, retry.NewStandard: 3 attempts, jitter up to 20 s, 500 tokens", openAWS},
	{"failsafe-go", "v0.9.8, failsafehttp.NewRetryPolicyBuilder: 2 retries without a delay", openFailsafe},
	{
		"resty v3", "v3.0.0-rc.4, waits from 100 ms to 2 s; its default is no retry, and here 3 retries of a 5xx",
		openResty,
	},
	{"gRPC", "the example of gRFC A6: 4 attempts, 100 ms·2ⁿ up to 1 s, full jitter, throttling 10 and 0.1", openGRPC},
	{"Envoy", "the documented defaults: 1 retry, full jitter from 25 ms, 3 retries at a time in a cluster", openEnvoy},
}

func openRetryable(rt http.RoundTripper) (caller, error) {
	c := retryablehttp.NewClient()
	c.HTTPClient, c.Logger = &http.Client{Transport: timed{rt}}, nil
	return func(ctx context.Context) bool {
		req, err := retryablehttp.FromRequest(request(ctx))
		if err != nil {
			return false
		}
		return good(c.Do(req))
	}, nil
}

// A failure is an error of an attempt, for the SDK's retryer.
type failure struct{ status int }

func (f *failure) Error() string       { return fmt.Sprintf("status %d", f.status) }
func (f *failure) HTTPStatusCode() int { return f.status }

// openAWS runs the loop of the SDK's retry middleware over its own retryer.
func openAWS(rt http.RoundTripper) (caller, error) {
	s := retry.NewStandard()
	client := &http.Client{Transport: timed{rt}}
	return func(ctx context.Context) bool {
		success, _ := s.GetAttemptToken(ctx) // its error is nil
		release := func(error) error { return nil }
		for n := 1; ; n++ {
			resp, err := client.Do(request(ctx))
			if good(resp, err) {
				_, _ = release(nil), success(nil)
				return true
			}
			if err == nil {
				err = &failure{resp.StatusCode}
			}
			_ = release(err)
			if n == s.MaxAttempts() || !s.IsErrorRetryable(err) {
				return false
			}
			token, no := s.GetRetryToken(ctx, err)
			if no != nil {
				return false
			}
			release = token
			d, no := s.RetryDelay(n, err)
			if no != nil {
				return false
			}
			time.Sleep(d)
		}
	}, nil
}

func openFailsafe(rt http.RoundTripper) (caller, error) {
	retries := failsafehttp.NewRetryPolicyBuilder().Build()
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(timed{rt}, retries)}
	return func(ctx context.Context) bool { return good(client.Do(request(ctx))) }, nil
}

func openResty(rt http.RoundTripper) (caller, error) {
	c := resty.New().SetTransport(timed{rt}).SetRetryCount(3)
	c.AddRetryConditions(func(resp *resty.Response, err error) bool { return err != nil || resp.StatusCode() >= 500 })
	return func(ctx context.Context) bool {
		resp, err := c.R().SetContext(ctx).SetBody("{}").Put(target)
		return err == nil && resp.StatusCode() < 300
	}, nil
}

// openGRPC follows https://github.com/grpc/proposal/blob/master/A6-client-retries.md, its example of a retryPolicy and
// of retryThrottling.
func openGRPC(rt http.RoundTripper) (caller, error) {
	client := &http.Client{Transport: timed{rt}}
	var mu sync.Mutex
	const most, share = 10, 0.1
	tokens := float64(most)
	spend := func(ok bool) (allowed bool) {
		mu.Lock()
		defer mu.Unlock()
		if ok {
			tokens = min(most, tokens+share)
		} else {
			tokens = max(0, tokens-1)
		}
		return tokens > most/2
	}
	return func(ctx context.Context) bool {
		for n := 0; ; n++ {
			ok := good(client.Do(request(ctx)))
			if allowed := spend(ok); ok || n == 3 || !allowed {
				return ok
			}
			time.Sleep(grpcDelay(n))
		}
	}, nil
}

// grpcDelay is random(0, min(initialBackoff·backoffMultiplierⁿ, maxBackoff)).
func grpcDelay(n int) time.Duration {
	most := math.Min(float64(100*time.Millisecond)*math.Pow(2, float64(n)), float64(time.Second))
	return time.Duration(rand.Float64() * most)
}

// openEnvoy follows https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter
// (x-envoy-max-retries and x-envoy-retry-on) and the default of max_retries of a cluster's circuit breakers.
func openEnvoy(rt http.RoundTripper) (caller, error) {
	client := &http.Client{Transport: timed{rt}}
	places := make(chan struct{}, 3)
	return func(ctx context.Context) bool {
		if good(client.Do(request(ctx))) {
			return true
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			return false
		}
		time.Sleep(envoyDelay(0))
		return good(client.Do(request(ctx)))
	}, nil
}

// envoyDelay is random between 0 and (2ⁿ⁺¹-1)·25 ms, and 250 ms at most.
func envoyDelay(n int) time.Duration {
	span := min(time.Duration(1<<(min(n, 20)+1)-1)*25*time.Millisecond, 250*time.Millisecond)
	return time.Duration(rand.Float64() * float64(span))
}

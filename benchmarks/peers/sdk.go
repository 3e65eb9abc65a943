package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stripe/stripe-go/v85"
	"resty.dev/v3"

	"github.com/redo-go/redo/benchmarks/post"
)

// openResty allows retries of a POST, and retries what the library's own conditions name.
func openResty(to target) (sender, error) {
	c := resty.New().SetTransport(to.rt).SetRetryCount(retries).SetRetryAllowNonIdempotent(true).
		AddRetryConditions(resty.RetryConditionStatus5XX, resty.RetryConditionStatusTooManyRequests,
			resty.RetryConditionStatusZero)
	if !to.patient {
		c.SetRetryWaitTime(0).SetRetryMaxWaitTime(0)
	}
	return sender{close: c.Close, send: func(ctx context.Context, payload []byte, key []string) error {
		r := c.R().SetContext(ctx).SetBody(payload).SetContentType(post.ContentType[0])
		if key != nil {
			r.SetHeader("Idempotency-Key", key[0])
		}
		resp, err := r.Post(to.url)
		if err != nil {
			return err
		}
		return post.Consume(resp.RawResponse, nil)
	}}, nil
}

// openAzure uses a pipeline with the defaults. A delay of a nanosecond is the shortest: the library waits for a minute
// when it is set to wait for no time.
func openAzure(to target) (sender, error) {
	options := policy.ClientOptions{Transport: &http.Client{Transport: to.rt}}
	if !to.patient {
		options.Retry.RetryDelay, options.Retry.MaxRetryDelay = time.Nanosecond, time.Nanosecond
	}
	p := runtime.NewPipeline("benchmarks", "v0.0.0", runtime.PipelineOptions{}, &options)
	return sender{send: func(ctx context.Context, payload []byte, key []string) error {
		req, err := runtime.NewRequest(ctx, http.MethodPost, to.url)
		if err != nil {
			return err
		}
		if err := req.SetBody(streaming.NopCloser(bytes.NewReader(payload)), post.ContentType[0]); err != nil {
			return err
		}
		if key != nil {
			req.Raw().Header["Idempotency-Key"] = key
		}
		return post.Consume(p.Do(req))
	}}, nil
}

// openAWS makes a stack of middleware for each call, as the SDK's generated clients do. The stack has the retryer and
// what a call can't do without. It does not sign.
func openAWS(to target) (sender, error) {
	where, err := url.Parse(to.url)
	if err != nil {
		return sender{}, err
	}
	retryer := retry.NewStandard(func(o *retry.StandardOptions) {
		if !to.patient {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}
	})
	client := smithyhttp.NewClientHandlerWithOptions(&http.Client{Transport: to.rt})
	return sender{send: func(ctx context.Context, payload []byte, key []string) error {
		stack := middleware.NewStack("Post", smithyhttp.NewStackRequest)
		err := errors.Join(
			stack.Serialize.Add(serialize(where, payload, key), middleware.After),
			stack.Finalize.Add(retry.NewAttemptMiddleware(retryer, smithyhttp.RequestCloner), middleware.After),
			stack.Deserialize.Add(deserialize, middleware.After),
		)
		if err != nil {
			return err
		}
		_, _, err = middleware.DecorateHandler(client, stack).Handle(ctx, nil)
		return err
	}}, nil
}

func serialize(where *url.URL, payload []byte, key []string) middleware.SerializeMiddleware {
	return middleware.SerializeMiddlewareFunc("OperationSerializer", func(
		ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler,
	) (middleware.SerializeOutput, middleware.Metadata, error) {
		req := in.Request.(*smithyhttp.Request) // the stack's
		req.Method, *req.URL = http.MethodPost, *where
		req.Header["Content-Type"] = post.ContentType
		if key != nil {
			req.Header["Idempotency-Key"] = key
		}
		req, err := req.SetStream(bytes.NewReader(payload))
		if err != nil {
			return middleware.SerializeOutput{}, middleware.Metadata{}, err
		}
		in.Request = req
		return next.HandleSerialize(ctx, in)
	})
}

// deserialize turns a response with another status than 201 into the SDK's error.
var deserialize = middleware.DeserializeMiddlewareFunc("OperationDeserializer", func(
	ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
) (out middleware.DeserializeOutput, meta middleware.Metadata, err error) {
	out, meta, err = next.HandleDeserialize(ctx, in)
	if err != nil {
		return out, meta, err
	}
	resp := out.RawResponse.(*smithyhttp.Response) // the client's
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusCreated {
		err = &smithyhttp.ResponseError{Response: resp, Err: fmt.Errorf("the response is %s", resp.Status)}
	}
	return out, meta, err
})

// openStripe uses the backend below all calls of the library, with its own timeout of an attempt, 80 s.
func openStripe(to target) (sender, error) {
	where, err := url.Parse(to.url)
	if err != nil {
		return sender{}, err
	}
	backend, ok := stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
		URL:           stripe.String(where.Scheme + "://" + where.Host),
		HTTPClient:    &http.Client{Transport: to.rt, Timeout: 80 * time.Second},
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	}).(*stripe.BackendImplementation)
	if !ok {
		return sender{}, errors.New("benchmarks: stripe-go's backend has another type")
	}
	backend.SetNetworkRetriesSleep(to.patient)
	return sender{send: func(ctx context.Context, payload []byte, key []string) error {
		params := &stripe.RawParams{Params: stripe.Params{Context: ctx}}
		if key != nil {
			params.IdempotencyKey = &key[0]
		}
		resp, err := backend.RawRequest(http.MethodPost, where.Path, "sk_test_redo", string(payload), params)
		if err == nil && resp.StatusCode != http.StatusCreated {
			err = fmt.Errorf("the response is %s", resp.Status)
		}
		return err
	}}, nil
}

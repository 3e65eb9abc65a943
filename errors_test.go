package redo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

func TestErrorMessage(t *testing.T) {
	for _, c := range []struct {
		name string
		err  Error
		want string
	}{
		{
			"nothing was sent", Error{Code: taxonomy.InvalidRequest, Effect: NotApplied},
			"redo: VALIDATION.request, nothing was sent, effect not applied",
		},
		{
			"one attempt", Error{Code: taxonomy.NotFound, StatusCode: 404, Attempts: make([]Attempt, 1), Effect: NotApplied},
			"redo: VALIDATION.not_found (status 404) after 1 attempt, effect not applied",
		},
		{
			"all there is, on one line",
			Error{
				Code: taxonomy.Truncated, StatusCode: 200, Operation: `refund:"1"`, Attempts: make([]Attempt, 3),
				Err: errors.Join(ErrAttempts, io.ErrUnexpectedEOF),
			},
			`redo: operation "refund:\"1\"": TRANSIENT.truncated (status 200) after 3 attempts, effect unknown: redo: all attempts are used up; unexpected EOF`,
		},
		{
			"an effect that is known", Error{Code: taxonomy.ResultNotStored, Effect: Applied},
			"redo: CONFLICT.idempotency.result_not_stored, nothing was sent, effect applied",
		},
	} {
		t.Run(c.name, func(t *testing.T) { require.EqualError(t, &c.err, c.want) })
	}
}

func TestErrorMatchesAllThatItHolds(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}
	var err error = &Error{
		Code: taxonomy.Unavailable,
		Attempts: []Attempt{
			{Number: 1, Code: taxonomy.RateLimited, Status: 429},
			{Number: 2, Code: taxonomy.EOF, Err: io.ErrUnexpectedEOF},
			{Number: 3, Code: taxonomy.Unavailable, Err: dial},
		},
		Err: errors.Join(ErrBudget, dial),
	}
	err = fmt.Errorf("refund: %w", err)
	require.ErrorIs(t, err, taxonomy.Unavailable, "its code")
	require.ErrorIs(t, err, taxonomy.Dependency, "its code's family")
	require.ErrorIs(t, err, ErrBudget, "its reason")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the cause of an early attempt")
	op, ok := errors.AsType[*net.OpError](err)
	require.True(t, ok)
	require.Same(t, dial, op)

	require.NotErrorIs(t, err, taxonomy.RateLimited, "an attempt's code is not the call's")
	require.NotErrorIs(t, err, taxonomy.Transient)
	require.NotErrorIs(t, err, ErrAttempts)

	require.Equal(t, []error{taxonomy.NotFound}, (&Error{Code: taxonomy.NotFound, Attempts: make([]Attempt, 2)}).Unwrap(), "no nils")
}

func TestAttemptTimeoutIsATimeout(t *testing.T) {
	var n net.Error
	require.ErrorAs(t, fmt.Errorf("call: %w", ErrAttemptTimeout), &n)
	require.True(t, n.Timeout())
	require.EqualError(t, n, "redo: attempt timed out")
	require.NotErrorIs(t, ErrAttemptTimeout, context.DeadlineExceeded, "it is not the caller's deadline")
}

func TestReasonsAreTold(t *testing.T) {
	reasons := []error{
		ErrClosed, ErrNotReplayable, ErrKeyless, ErrBudget, ErrTooLate, ErrAttempts, ErrAttemptTimeout, ErrBreakerOpen, ErrLimited,
	}
	for i, err := range reasons {
		require.True(t, strings.HasPrefix(err.Error(), "redo: "), err)
		for j, other := range reasons {
			require.Equal(t, i == j, errors.Is(err, other), "%v, %v", err, other)
		}
	}
}

func TestSaid(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		want   bool
	}{
		"a status is inferred from": {http.Header{}, false},
		"a code is stated":          {http.Header{"Error-Code": {"VALIDATION.amount"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := New(WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 400, Header: c.header, Body: http.NoBody, Request: r}, nil
			})))
			require.NoError(t, err)
			e, ok := errors.AsType[*Error](send(t.Context(), t, client))
			require.True(t, ok)
			require.Equal(t, c.want, e.Said())
		})
	}
}

func TestCodeOf(t *testing.T) {
	e := &Error{Code: taxonomy.Unavailable, Err: taxonomy.RateLimited}
	for _, c := range []struct {
		name string
		err  error
		want taxonomy.Code
	}{
		{"no error has none", nil, ""},
		{"a foreign error has none", io.EOF, ""},
		{"an Error has its own", e, taxonomy.Unavailable},
		{"a wrapped Error has its own", fmt.Errorf("refund: %w", e), taxonomy.Unavailable},
		{"a bare code is one", taxonomy.NotFound, taxonomy.NotFound},
		{"a wrapped code is one", fmt.Errorf("refund: %w", taxonomy.NotFound), taxonomy.NotFound},
		{"a joined Error counts before a joined code", errors.Join(taxonomy.NotFound, e), taxonomy.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, CodeOf(c.err)) })
	}
}

func TestSafeToRetry(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"no error needs none", nil, false},
		{"nothing is known of a foreign error", io.EOF, false},
		{"a bare code is not enough", taxonomy.Unavailable, false},
		{"a terminal failure stays one", &Error{Effect: NotApplied, sameKey: true}, false},
		{"an unknown effect under a new key is a second effect", &Error{retry: true}, false},
		{"an unknown effect under the same key is safe", &Error{retry: true, sameKey: true}, true},
		{"what was not applied is safe under any key", &Error{retry: true, Effect: NotApplied}, true},
		{"what was applied is not safe under a new key", &Error{retry: true, Effect: Applied}, false},
		{"however it is wrapped", fmt.Errorf("refund: %w", &Error{retry: true, sameKey: true}), true},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, SafeToRetry(c.err)) })
	}
}

func TestSafeToRetryAfterACall(t *testing.T) {
	refused := roundTrip(func(r *http.Request) (*http.Response, error) {
		_ = r.Body.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}
	})
	down := func() http.RoundTripper { return &scripted{statuses: []int{503}} }
	key := func(ctx context.Context) context.Context { return WithKey(ctx, "k1") }
	name := func(ctx context.Context) context.Context { return WithOperation(ctx, "refund:1") }
	short := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		context.AfterFunc(ctx, cancel)
		return ctx
	}
	both := func(ctx context.Context) context.Context { return short(key(ctx)) }
	for _, c := range []struct {
		name    string
		rt      http.RoundTripper
		ctx     func(context.Context) context.Context
		options []Option
		want    bool
	}{
		{"a key that is gone with the call", down(), nil, nil, false},
		{"a key that is gone with the call, though the operation has a name", down(), name, nil, false},
		{"a key of the caller's", down(), key, nil, true},
		{"a key that the name gives", down(), name, []Option{WithKeys(DerivedKeys("live"))}, true},
		{"a key that no name gives", down(), nil, []Option{WithKeys(RandomKeys)}, false},
		{"nothing was sent", refused, nil, nil, true},
		{"a terminal answer", &scripted{statuses: []int{400}}, key, nil, false},
		{"the caller's time was too short, under the caller's key", &scripted{statuses: []int{hang}}, both, nil, true},
		{"the caller's time was too short, under a key that is gone", &scripted{statuses: []int{hang}}, short, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := New(append(c.options, WithTransport(c.rt))...)
				require.NoError(t, err)
				ctx := t.Context()
				if c.ctx != nil {
					ctx = c.ctx(ctx)
				}
				err = send(ctx, t, client)
				require.Error(t, err)
				require.Equal(t, c.want, SafeToRetry(err), "%v", err)
			})
		})
	}
}

// What errors and their attempts say ends in logs.
func TestErrorsHoldNoSecrets(t *testing.T) {
	const secret = "hunter2"
	target := "https://user:" + secret + "@bank.test/refunds?token=" + secret
	request := func(t *testing.T, rt http.RoundTripper) error {
		client, err := New(WithTransport(rt), WithRetry(RetryPolicy{MaxAttempts: 2, Jitter: NoDelay}))
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(secret))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+secret)
		_, err = client.Do(req)
		return err
	}
	call := func(t *testing.T, url string) error {
		client, err := New(WithTransport(&scripted{statuses: []int{200}}))
		require.NoError(t, err)
		_, err = Call[struct{}](t.Context(), client, http.MethodPost, url, nil)
		return err
	}
	for name, err := range map[string]error{
		"an answer":           request(t, &scripted{statuses: []int{503}}),
		"a broken connection": request(t, &scripted{statuses: []int{broken}}),
		"a location that is no URL": request(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"https://bank.test/%zz?token=" + secret}}, Body: http.NoBody, Request: r}, nil
		})),
		"a location of another scheme": request(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"ftp://bank.test/?token=" + secret}}, Body: http.NoBody, Request: r}, nil
		})),
		"a URL that does not parse": call(t, "https://user:"+secret+"@bank.test/%zz?token="+secret),
		"a URL without a host":      call(t, "https:///?token="+secret),
	} {
		t.Run(name, func(t *testing.T) {
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok)
			require.NotContains(t, e.Error(), secret)
			for _, cause := range e.Unwrap() {
				require.NotContains(t, cause.Error(), secret)
			}
		})
	}
}

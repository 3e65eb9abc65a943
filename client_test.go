package redo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestNewWithoutOptions(t *testing.T) {
	client, err := New()
	require.NoError(t, err)
	require.Nil(t, client.store)
	require.Nil(t, client.limiter)
	require.Nil(t, client.breaker)
	require.Nil(t, client.log)
	require.Equal(t, "redo", client.scope)
	require.Equal(t, 30*24*time.Hour, client.keep)
	require.Equal(t, 64<<10, client.maxBody)
	require.Equal(t, RedoProfile(), client.profile)
	require.Equal(t, Budget{Ratio: 0.2, Reserve: 100}, client.buckets.budget)
	require.Equal(t, 5, client.retry.MaxAttempts)
	require.NotNil(t, client.keys)

	require.NotSame(t, http.DefaultTransport, client.base, "its connections are its own")
	require.Same(t, client.ownBase, client.base)
	require.Equal(t, 64, client.ownBase.MaxIdleConnsPerHost)
	require.True(t, client.traced)
}

func TestATransportOfTheCallersIsUsedAsItIs(t *testing.T) {
	own := &http.Transport{}
	client, err := New(WithTransport(own))
	require.NoError(t, err)
	require.Same(t, own, client.base)
	require.Nil(t, client.ownBase)
	require.True(t, client.traced, "net/http's own reports its connections")

	client, err = New(WithTransport(&scripted{}))
	require.NoError(t, err)
	require.False(t, client.traced, "of another it is not known")
}

func TestTheFirstAttemptsTimeIsToldInMilliseconds(t *testing.T) {
	for _, c := range []struct {
		timeout time.Duration
		want    string
	}{{0, "10000"}, {1500 * ms, "1500"}, {1500 * time.Microsecond, "1"}, {500 * time.Microsecond, "1"}} {
		client, err := New(WithRetry(RetryPolicy{AttemptTimeout: c.timeout}))
		require.NoError(t, err)
		require.Equal(t, c.want, client.firstBudget)
		require.Equal(t, c.want, client.budgetText(client.retry.AttemptTimeout, t.Context()))
	}
}

func TestRequestsThatCannotBeSentAreRefused(t *testing.T) {
	parse := func(s string) *url.URL {
		u, err := url.Parse(s)
		require.NoError(t, err)
		return u
	}
	for _, c := range []struct {
		name string
		req  *http.Request
		code taxonomy.Code
		want string
	}{
		{"no request", nil, taxonomy.InvalidRequest, "redo: the request is nil"},
		{"no URL", &http.Request{}, taxonomy.InvalidRequest, "redo: the request's URL is nil"},
		{"a server's request", &http.Request{URL: parse("http://bank.test/"), RequestURI: "/"}, taxonomy.InvalidRequest, "redo: the request's RequestURI is set: it is a server's request"},
		{"no scheme", &http.Request{URL: parse("//bank.test/")}, taxonomy.BadURL, `redo: the URL's scheme is "", it must be http or https`},
		{"another scheme", &http.Request{URL: parse("ftp://bank.test/")}, taxonomy.BadURL, `redo: the URL's scheme is "ftp", it must be http or https`},
		{"no host", &http.Request{URL: parse("https:///refunds")}, taxonomy.BadURL, "redo: the URL has no host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := &scripted{statuses: []int{200}}
			client, err := New(WithTransport(rt))
			require.NoError(t, err)
			resp, err := client.Do(c.req)
			require.Nil(t, resp)
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok)
			require.EqualError(t, e.Err, c.want)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, NotApplied, e.Effect)
			require.Empty(t, e.Attempts)
			require.False(t, SafeToRetry(err))
			require.Zero(t, rt.sent.Load())
		})
	}
}

type closeSpy struct {
	*strings.Reader
	closed int
}

func (c *closeSpy) Close() error { c.closed++; return nil }

func TestTheBodyOfARefusedRequestIsClosed(t *testing.T) {
	client, err := New(WithTransport(&scripted{statuses: []int{200}}))
	require.NoError(t, err)
	for name, req := range map[string]*http.Request{
		"by its URL":  {Method: "POST", URL: &url.URL{Scheme: "ftp"}},
		"by its name": build(t, WithOperation(t.Context(), ""), "POST"),
		"by its key":  build(t, WithKey(t.Context(), ""), "POST"),
	} {
		t.Run(name, func(t *testing.T) {
			body := &closeSpy{Reader: strings.NewReader("1000")}
			req.Body = body
			_, err := client.Do(req)
			require.Error(t, err)
			require.Equal(t, 1, body.closed)
		})
	}
}

func TestAClosedClientRefusesCalls(t *testing.T) {
	rt := &scripted{statuses: []int{200}}
	client, err := New(WithTransport(rt))
	require.NoError(t, err)
	require.NoError(t, send(t.Context(), t, client))
	require.NoError(t, client.Close())
	require.NoError(t, client.Close(), "twice is no error")

	err = send(t.Context(), t, client)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, err, taxonomy.ClientClosed)
	_, err = client.Transport().RoundTrip(build(t, t.Context(), "GET"))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, client.Forget(t.Context(), "refund:1"), ErrClosed)
	for _, err := range client.Pending(t.Context()) {
		require.ErrorIs(t, err, ErrClosed)
	}
	require.EqualValues(t, 1, rt.sent.Load())
}

func TestStoreErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		code  taxonomy.Code
		again bool
	}{
		{"a store that can't be reached may come back", fmt.Errorf("bolt: %w", store.ErrUnavailable), taxonomy.Unavailable, true},
		{"an answer that was lost may be found", store.ErrUnknown, taxonomy.Unavailable, true},
		{"a claim that breaks a rule stays one", fmt.Errorf("bolt: %w", store.ErrInvalid), taxonomy.InvalidOperation, false},
		{"a context that ended", context.DeadlineExceeded, taxonomy.Unavailable, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := storeError(operation{name: "refund:1"}, c.err)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, "refund:1", e.Operation)
			require.Equal(t, EffectUnknown, e.Effect, "an earlier call may have sent it")
			require.ErrorIs(t, e, c.err)
			require.Equal(t, c.again, SafeToRetry(e))
		})
	}
}

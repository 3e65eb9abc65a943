package redo

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestOptionsRefuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		option Option
		want   string
	}{
		{"a nil option", nil, "redo: New: an option is nil"},
		{"a nil store", WithStore(nil), "redo: WithStore: the store is nil"},
		{"a nil transport", WithTransport(nil), "redo: WithTransport: the transport is nil"},
		{"an empty scope", WithScope(""), "redo: WithScope: the name has 0 bytes, it must have from 1 to 1024"},
		{"a long scope", WithScope(strings.Repeat("s", 1025)), "redo: WithScope: the name has 1025 bytes, it must have from 1 to 1024"},
		{"no outcome retention", WithOutcomeRetention(0), "redo: WithOutcomeRetention: 0s, it must be positive"},
		{"a negative outcome retention", WithOutcomeRetention(-time.Second), "redo: WithOutcomeRetention: -1s, it must be positive"},
		{"a negative body", WithMaxStoredBody(-1), "redo: WithMaxStoredBody: -1, it must be from 0 to 524288 bytes"},
		{"a body that leaves no room for the rest", WithMaxStoredBody(524289), "redo: WithMaxStoredBody: 524289, it must be from 0 to 524288 bytes"},
		{"a bad retry policy", WithRetry(RetryPolicy{MaxAttempts: -3}), "redo: retry policy: MaxAttempts is -3, it must not be negative"},
		{"a bad profile", WithProfile(Profile{Name: "acme"}), `redo: profile "acme": the header is "", it must be a header name`},
		{"a bad budget", WithBudget(Budget{Ratio: -1}), "redo: budget: Ratio is -1, it must be from 0 to 10"},
		{"limiters made by nothing", WithLimiter(PerDestination(nil)), "redo: WithLimiter: PerDestination was given a nil function"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := New(WithScope("before"), c.option, WithScope("after"))
			require.EqualError(t, err, c.want)
			require.Nil(t, client)
		})
	}
}

func TestOptionsTakeTheirLimits(t *testing.T) {
	for name, option := range map[string]Option{
		"the longest scope":     WithScope(strings.Repeat("s", store.MaxScope)),
		"outcomes kept forever": WithOutcomeRetention(store.Forever),
		"no stored bodies":      WithMaxStoredBody(0),
		"the largest body":      WithMaxStoredBody(maxStoredBody),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(option)
			require.NoError(t, err)
		})
	}
}

func TestOptionsAreKept(t *testing.T) {
	st, rt, log := memstore.New(), &scripted{}, slog.New(slog.DiscardHandler)
	limiter, breaker := &reports{}, &heard{}
	client, err := New(
		WithStore(st), WithScope("payments"), WithOutcomeRetention(time.Hour), WithServerReplay(), WithMaxStoredBody(7), WithoutStoredRequests(),
		WithTransport(rt), WithRetry(RetryPolicy{MaxAttempts: 2}), WithProfile(StripeProfile()), WithBudget(Budget{Reserve: 3}),
		WithLimiter(limiter), WithBreaker(breaker), WithLogger(log),
	)
	require.NoError(t, err)
	require.Same(t, st, client.store)
	require.Same(t, rt, client.base)
	require.Same(t, log, client.log)
	require.Same(t, limiter, client.limiter)
	require.Same(t, breaker, client.breaker)
	require.Equal(t, "payments", client.scope)
	require.Equal(t, time.Hour, client.keep)
	require.True(t, client.askServer)
	require.Equal(t, 7, client.maxBody)
	require.True(t, client.noRequests)
	require.Equal(t, 2, client.retry.MaxAttempts)
	require.Equal(t, "stripe", client.profile.Name)
	require.Equal(t, Budget{Ratio: 0.2, Reserve: 3}, client.buckets.budget)
}

func TestALaterOptionWins(t *testing.T) {
	client, err := New(WithScope("a"), WithRetry(RetryPolicy{MaxAttempts: 2, BaseDelay: ms}), WithScope("b"), WithRetry(RetryPolicy{MaxAttempts: 3}))
	require.NoError(t, err)
	require.Equal(t, "b", client.scope)
	require.Equal(t, 3, client.retry.MaxAttempts)
	require.Equal(t, 100*ms, client.retry.BaseDelay, "as a whole: nothing of the earlier policy is left")
}

func TestNilSwitchesOff(t *testing.T) {
	client, err := New(
		WithTransport(&scripted{statuses: []int{200}}),
		WithLimiter(limitAfter{0, new(int)}), WithLimiter(nil), WithBreaker(&heard{}), WithBreaker(nil), WithKeys(nil),
		WithCredentials(func(*http.Request) error { return context.Canceled }), WithCredentials(nil), WithLogger(nil), WithObserver(nil),
	)
	require.NoError(t, err)
	require.NoError(t, send(t.Context(), t, client))
}

func TestSecretHeaders(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "authorization": true, "PROXY-AUTHORIZATION": true, "Cookie": true, "Set-Cookie": true,
		"Www-Authenticate": true, "Proxy-Authenticate": true, "X-Csrf-Token": true, "X-XSRF-Token": true,
		"X-Api-Key": true, "api-key": true, "X-ApiKey": true, "X-Auth-Token": true, "X-Amz-Security-Token": true, "Client-Secret": true,
		"X-Password": true, "Webhook-Signature": true, "X-Amz-Credential": true,

		"": false, "Accept": false, "Content-Type": false, "If-Match": false, "Idempotency-Key": false, "Stripe-Version": false,
		"Stripe-Account": false, "X-Request-Id": false, "Traceparent": false, "Prefer": false,
	} {
		require.Equal(t, want, secretHeader(name), "%q", name)
	}
	for _, name := range alwaysStored {
		require.False(t, secretHeader(name), name)
	}
}

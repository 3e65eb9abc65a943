package redo

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/limit"
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
		{
			"a long scope", WithScope(strings.Repeat("s", 1025)),
			"redo: WithScope: the name has 1025 bytes, it must have from 1 to 1024",
		},
		{"no outcome retention", WithOutcomeRetention(0), "redo: WithOutcomeRetention: 0s, it must be positive"},
		{
			"a negative outcome retention", WithOutcomeRetention(-time.Second),
			"redo: WithOutcomeRetention: -1s, it must be positive",
		},
		{"a negative body", WithMaxStoredBody(-1), "redo: WithMaxStoredBody: -1, it must be from 0 to 524288 bytes"},
		{
			"a body that leaves no room for the rest", WithMaxStoredBody(524289),
			"redo: WithMaxStoredBody: 524289, it must be from 0 to 524288 bytes",
		},
		{
			"a bad retry policy", WithRetry(RetryPolicy{MaxAttempts: -3}),
			"redo: retry policy: MaxAttempts is -3, it must not be negative",
		},
		{"a response of nothing", WithMaxResponse(0), "redo: WithMaxResponse: 0, it must be positive"},
		{"a negative buffer", WithMaxBufferedBody(-1), "redo: WithMaxBufferedBody: -1, it must not be negative"},
		{
			"a bad profile", WithProfile(Profile{Name: "acme", Header: "a b"}),
			`redo: profile "acme": the header is "a b", it must be a header name`,
		},
		{"a bad budget", WithBudget(limit.Budget{Ratio: -1}), "limit: budget: Ratio is -1, it must be from 0 to 10"},
		{
			"limiters made by nothing", WithLimiter(limit.PerDestination(nil)),
			"redo: WithLimiter: limit: PerDestination was given a nil function",
		},
		{"a nil pointer to a store", WithStore((*memstore.Store)(nil)), "redo: WithStore: the store is nil"},
		{
			"a nil pointer to a transport", WithTransport((*http.Transport)(nil)),
			"redo: WithTransport: the transport is nil",
		},
		{"a nil function as a transport", WithTransport(roundTrip(nil)), "redo: WithTransport: the transport is nil"},
		{
			"a nil pointer to a limiter", WithLimiter((*recordingLimiter)(nil)),
			"redo: WithLimiter: limit: the limiter is a nil *redo.recordingLimiter",
		},
		{
			"a nil pointer to a breaker", WithBreaker((*recordingBreaker)(nil)),
			"redo: WithBreaker: the breaker is a nil pointer",
		},
		{
			"a nil pointer to an observer", WithObserver((*nilObserver)(nil)),
			"redo: WithObserver: the observer is a nil pointer",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := New(WithScope("before"), c.option, WithScope("after"))
			require.EqualError(t, err, c.want)
			require.Nil(t, client)
		})
	}
}

type nilObserver struct{ Observer }

func TestOptionsTakeTheirLimits(t *testing.T) {
	for name, option := range map[string]Option{
		"the longest scope":     WithScope(strings.Repeat("s", store.MaxScope)),
		"outcomes kept forever": WithOutcomeRetention(store.Forever),
		"no stored bodies":      WithMaxStoredBody(0),
		"the largest body":      WithMaxStoredBody(maxStoredBody),
		"the smallest response": WithMaxResponse(1),
		"no buffered bodies":    WithMaxBufferedBody(0),
		"the zero profile":      WithProfile(Profile{}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(option)
			require.NoError(t, err)
		})
	}
}

func TestOptionsAreKept(t *testing.T) {
	st, rt, log := memstore.New(), &scripted{}, slog.New(slog.DiscardHandler)
	limiter, breaker := &recordingLimiter{}, &recordingBreaker{}
	client := open(t,
		WithStore(st), WithScope("payments"), WithOutcomeRetention(time.Hour), WithServerReplay(), WithMaxStoredBody(7),
		WithoutStoredRequests(),
		WithMaxResponse(8), WithMaxBufferedBody(9),
		WithTransport(rt), WithRetry(RetryPolicy{MaxAttempts: 2}), WithProfile(Profile{Name: "acme"}),
		WithBudget(limit.Budget{Reserve: 3}),
		WithLimiter(limiter), WithBreaker(breaker), WithLogger(log),
	)
	require.Same(t, st, client.store)
	require.Same(t, rt, client.base)
	require.Same(t, log, client.log)
	require.Same(t, limiter, client.limiter)
	require.Same(t, breaker, client.breaker)
	require.Equal(t, "payments", client.scope)
	require.Equal(t, time.Hour, client.keep)
	require.True(t, client.askServer)
	require.Equal(t, 7, client.maxStored)
	require.Equal(t, 8, client.maxResponse)
	require.Equal(t, 9, client.maxBuffered)
	require.True(t, client.noRequests)
	require.Equal(t, 2, client.retry.MaxAttempts)
	require.Equal(t, "acme", client.profile.Name)
	require.Equal(t, 3, budgetLeft(client.buckets, 10))
}

func TestALaterOptionWins(t *testing.T) {
	client := open(t,
		WithScope("a"), WithRetry(RetryPolicy{MaxAttempts: 2, BaseDelay: ms}),
		WithScope("b"), WithRetry(RetryPolicy{MaxAttempts: 3}),
	)
	require.Equal(t, "b", client.scope)
	require.Equal(t, 3, client.retry.MaxAttempts)
	require.Equal(t, 100*ms, client.retry.BaseDelay, "as a whole: nothing of the earlier policy is left")
}

func TestNilSwitchesOff(t *testing.T) {
	client := open(t,
		WithTransport(&scripted{statuses: []int{200}}),
		WithLimiter(limitAfter{0, new(int)}), WithLimiter(nil), WithBreaker(&recordingBreaker{}), WithBreaker(nil),
		WithKeys(nil),
		WithCredentials(func(*http.Request) error { return context.Canceled }), WithCredentials(nil), WithLogger(nil),
		WithObserver(nil),
		WithClassifier(nil), WithProbe(nil), WithFingerprint(nil),
	)
	require.NoError(t, send(t.Context(), t, client))
}

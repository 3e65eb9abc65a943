package decision_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/decision"
	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

func TestHealth(t *testing.T) {
	const transient, success = taxonomy.ClassTransient, taxonomy.ClassSuccess
	for _, c := range []struct {
		name     string
		verdict  taxonomy.Verdict
		response bool
		want     limit.Health
	}{
		{"a success", taxonomy.Verdict{Class: success}, true, limit.Healthy},
		{"a refusal that is the request's own fault", taxonomy.Verdict{Code: taxonomy.BadRequest}, true, limit.Healthy},
		{"a duplicate", taxonomy.Verdict{Code: taxonomy.Duplicate, Class: success}, true, limit.Healthy},
		{
			"a first request that is still running", taxonomy.Verdict{Code: taxonomy.InFlight, Class: transient}, true,
			limit.Healthy,
		},
		{"an overloaded server", taxonomy.Verdict{Code: taxonomy.Unavailable, Class: transient}, true, limit.Unhealthy},
		{"too many requests", taxonomy.Verdict{Code: taxonomy.RateLimited, Class: transient}, true, limit.Unhealthy},
		{"a broken connection", taxonomy.Verdict{Code: taxonomy.Reset, Class: transient}, false, limit.Unhealthy},
		{
			"an attempt that timed out", taxonomy.Verdict{Code: taxonomy.Timeout, Class: transient}, false,
			limit.Unhealthy,
		},
		{"a cancelled attempt", taxonomy.Verdict{Code: taxonomy.CallerCanceled}, false, limit.Neutral},
		{"the caller's deadline", taxonomy.Verdict{Code: taxonomy.CallerDeadline}, false, limit.Neutral},
		{
			"the caller's deadline while a body is read", taxonomy.Verdict{Code: taxonomy.CallerDeadline}, true,
			limit.Neutral,
		},
		{
			"an attempt that never reached the server", taxonomy.Verdict{Code: taxonomy.UnknownHost}, false,
			limit.Neutral,
		},
		{
			"credentials that could not be made", taxonomy.Verdict{Code: taxonomy.Auth + ".credentials"}, false,
			limit.Neutral,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, decision.Health(c.verdict, c.response, false))
		})
	}
	limited := taxonomy.Verdict{Code: taxonomy.RateLimited, Class: transient}
	require.Equal(t, limit.Neutral, decision.Health(limited, false, true), "the client's own limit")
	require.Equal(t, limit.Healthy, decision.Health(taxonomy.Verdict{Code: taxonomy.BadURL}, true, true), "a redirect")
}

func TestResponse(t *testing.T) {
	const transient = taxonomy.ClassTransient
	quota := http.Header{"Ratelimit": {`"default";r=7;t=30`}}
	for _, c := range []struct {
		name    string
		verdict taxonomy.Verdict
		header  http.Header
		want    limit.Response
	}{
		{"a success", taxonomy.Verdict{Class: taxonomy.ClassSuccess}, nil, limit.Response{}},
		{"a quota", taxonomy.Verdict{}, quota, limit.Response{Quota: true, Remaining: 7, Reset: 30 * time.Second}},
		{"a failure", taxonomy.Verdict{Code: taxonomy.Unavailable, Class: transient}, nil, limit.Response{Failed: true}},
		{"a request that is still running", taxonomy.Verdict{Code: taxonomy.InFlight, Class: transient}, nil,
			limit.Response{}},
		{"too many requests", taxonomy.Verdict{Code: taxonomy.RateLimited, Class: transient},
			http.Header{"Retry-After": {"9"}},
			limit.Response{Failed: true, Limited: true, Quota: true, Reset: 9 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, decision.Response(c.verdict, &http.Response{Header: c.header}, time.Now()))
		})
	}
	require.Equal(t, limit.Response{None: true}, decision.Response(taxonomy.Verdict{}, nil, time.Now()))
}

func TestOwnRefusals(t *testing.T) {
	refused := &exchange.Refused{Code: taxonomy.BadURL, Effect: taxonomy.EffectUnknown, Err: io.EOF}
	for _, c := range []struct {
		name  string
		err   error
		want  taxonomy.Verdict
		local bool
	}{
		{"no error", nil, taxonomy.Verdict{}, false},
		{"the transport's", io.ErrUnexpectedEOF, taxonomy.Verdict{}, false},
		{"an attempt's timeout", exchange.ErrTimeout, taxonomy.Verdict{}, false},
		{
			"the breaker's", errors.Join(limit.ErrBreakerOpen, io.EOF),
			taxonomy.Verdict{Code: taxonomy.Unavailable, Class: taxonomy.ClassTransient, Effect: taxonomy.NotApplied}, true,
		},
		{
			"the limiter's", errors.Join(limit.ErrLimited, context.DeadlineExceeded),
			taxonomy.Verdict{Code: taxonomy.RateLimited, Class: taxonomy.ClassTransient, Effect: taxonomy.NotApplied}, true,
		},
		{
			"a refusal", fmt.Errorf("w: %w", refused),
			taxonomy.Verdict{Code: taxonomy.BadURL, Class: taxonomy.ClassTerminal}, true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, local := decision.Refusal(c.err)
			require.Equal(t, c.local, local)
			if local {
				require.Equal(t, c.want, got)
			}
		})
	}
}

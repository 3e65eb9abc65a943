package taxonomy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPrecedence starts from an answer that holds every kind of evidence. It takes the heaviest away, one after
// the other: each time the next one must decide.
func TestPrecedence(t *testing.T) {
	a := Answer{
		Caller: context.Canceled,
		Err:    io.ErrUnexpectedEOF,
		Sent:   true,
		Status: http.StatusConflict,
		Header: http.Header{
			"Error-Code":     {string(KeyExpired)},
			"Content-Type":   {"application/problem+json"},
			"X-Should-Retry": {"true"},
		},
		Body:        []byte(`{"code":"VALIDATION.not_found","retryable":true}`),
		Directives:  DefaultDirectives,
		StatusCodes: map[int]Code{http.StatusConflict: Internal},
	}
	steps := []struct {
		name string
		take func()
		want Verdict
	}{
		{"the caller's context decides first", func() {},
			Verdict{Code: CallerCanceled}},
		{"then a never-retried code", func() { a.Caller = nil },
			Verdict{Code: KeyExpired, Said: true}},
		{"then a directive, with any code", func() { a.Header.Del("Error-Code") },
			Verdict{Code: NotFound, Class: ClassTransient, Said: true}},
		{"then a known code, with any retryable", func() { a.Header.Del("X-Should-Retry") },
			Verdict{Code: NotFound, Effect: NotApplied, Said: true}},
		{"then retryable", func() { a.Body = []byte(`{"code":"other","retryable":false}`) },
			Verdict{Code: Internal, Said: true}},
		{"then the provider's meaning of the status", func() { a.Body = nil },
			Verdict{Code: Internal, Class: ClassTransient}},
		{"then the status itself", func() { a.StatusCodes = nil },
			Verdict{Code: ConflictState}},
		{"then the kind of the error", func() { a.Status = 0 },
			Verdict{Code: Truncated, Class: ClassTransient}},
		{"and nothing at all is a failed connection", func() { a.Err, a.Sent = nil, false },
			Verdict{Code: Connection, Class: ClassTransient, Effect: NotApplied}},
	}
	for _, s := range steps {
		s.take()
		require.Equal(t, s.want, Classify(a), s.name)
	}
}

func TestDirectives(t *testing.T) {
	header := http.Header{"X-Should-Retry": {"false"}, "Acme-Retry": {"true"}}
	for name, c := range map[string]struct {
		names []string
		want  Class
		said  bool
	}{
		"nil reads none":                            {nil, ClassTransient, false},
		"an empty list reads none":                  {[]string{}, ClassTransient, false},
		"only the named are read":                   {[]string{"Other"}, ClassTransient, false},
		"the first that speaks counts":              {[]string{"Acme-Retry", "X-Should-Retry"}, ClassTransient, true},
		"a silent one is passed over":               {[]string{"Other", "X-Should-Retry"}, ClassTerminal, true},
		"names need not be in canonical form":       {[]string{"x-should-retry"}, ClassTerminal, true},
		"the defaults hold the two in common use":   {DefaultDirectives, ClassTerminal, true},
		"a directive agrees and is still the word ": {[]string{"Acme-Retry"}, ClassTransient, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := Classify(Answer{Status: 503, Header: header, Directives: c.names})
			require.Equal(t, Verdict{Code: Unavailable, Class: c.want, Said: c.said}, v)
		})
	}
	require.Equal(t, []string{"Stripe-Should-Retry", "X-Should-Retry"}, DefaultDirectives)
}

func TestNoDirectiveMakesANeverRetriedCodeRetryable(t *testing.T) {
	for _, code := range []Code{PayloadMismatch, KeyExpired, ResultNotStored, PayloadMismatch + ".body"} {
		for _, status := range []int{400, 409, 422, 429, 500, 503} {
			v := Classify(Answer{
				Status: status, Directives: DefaultDirectives,
				Header: http.Header{
					"Error-Code": {string(code)}, "Stripe-Should-Retry": {"true"}, "X-Should-Retry": {"true"},
				},
			})
			require.Equal(t, ClassTerminal, v.Class, "%s under %d", code, status)
			require.Equal(t, code, v.Code)
		}
	}
}

func TestADuplicateIsASuccessUnderAnyFailure(t *testing.T) {
	for status := 400; status < 600; status++ {
		for _, directive := range []string{"", "true", "false"} {
			v := Classify(Answer{
				Status: status, Directives: DefaultDirectives,
				Header: http.Header{"Error-Code": {string(Duplicate)}, "X-Should-Retry": {directive}},
			})
			require.Equal(t, Verdict{Code: Duplicate, Class: ClassSuccess, Effect: Applied, Said: true}, v)
		}
	}
}

func TestCallersCause(t *testing.T) {
	stop := errors.New("shutting down")
	for name, c := range map[string]struct {
		caller error
		want   Code
	}{
		"a cancellation":                    {context.Canceled, CallerCanceled},
		"another cause":                     {stop, CallerCanceled},
		"a deadline":                        {context.DeadlineExceeded, CallerDeadline},
		"a deadline under a cause":          {errors.Join(stop, context.DeadlineExceeded), CallerDeadline},
		"a code is no excuse for the cause": {RateLimited, CallerCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, Verdict{Code: c.want, Effect: NotApplied}, Classify(Answer{Caller: c.caller}))
			require.Equal(t, Verdict{Code: c.want}, Classify(Answer{Caller: c.caller, Sent: true}))
			require.Equal(t, Verdict{Code: c.want}, Classify(Answer{Caller: c.caller, Status: 200}),
				"a status implies that it was sent")
		})
	}
}

func TestSuccessDoesNotAllocate(t *testing.T) {
	a := Answer{
		Sent: true, Status: http.StatusCreated, Directives: DefaultDirectives,
		Header: http.Header{
			"Content-Type":        {"application/json"},
			"Idempotency-Status":  {"stored"},
			"Idempotent-Replayed": {"false"},
		},
		StatusCodes: map[int]Code{409: InFlight},
		Codes:       map[string]Code{"x": InFlight},
		Markers:     []string{"Acme-Replay"},
	}
	var v Verdict
	require.Zero(t, testing.AllocsPerRun(100, func() { v = Classify(a) }))
	require.Equal(t, Verdict{Class: ClassSuccess, Effect: Applied, Final: true}, v)
}

package redo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/memstore"
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
			"one attempt",
			Error{Code: taxonomy.NotFound, StatusCode: 404, Attempts: make([]Attempt, 1), Effect: NotApplied},
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
		{
			"the next step after another payload, which the server reported",
			Error{Code: taxonomy.PayloadMismatch, StatusCode: 409, Attempts: make([]Attempt, 1), Effect: NotApplied},
			"redo: CONFLICT.idempotency.payload_mismatch (status 409) after 1 attempt, effect not applied: the key was " +
				"used for another payload: use a new operation",
		},
		{
			"no new operation is advised after another payload while the effect is unknown",
			Error{Code: taxonomy.PayloadMismatch, StatusCode: 409, Attempts: make([]Attempt, 2)},
			"redo: CONFLICT.idempotency.payload_mismatch (status 409) after 2 attempts, effect unknown",
		},
	} {
		t.Run(c.name, func(t *testing.T) { require.EqualError(t, &c.err, c.want) })
	}
}

func TestErrorMatchesItsCodeAndItsCause(t *testing.T) {
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
	op, ok := errors.AsType[*net.OpError](err)
	require.True(t, ok, "the last attempt's cause")
	require.Same(t, dial, op)

	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the cause of an earlier attempt")
	require.NotErrorIs(t, err, taxonomy.RateLimited, "an attempt's code is not the call's")
	require.NotErrorIs(t, err, taxonomy.Transient)
	require.NotErrorIs(t, err, ErrAttempts)

	require.Equal(t, []error{taxonomy.NotFound},
		(&Error{Code: taxonomy.NotFound, Attempts: make([]Attempt, 2)}).Unwrap(), "no nils")
}

// An earlier attempt that timed out must not make the call look like a timeout to an SDK.
func TestAnEarlierTimeoutIsNoCauseOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &scripted{statuses: []int{hang, 400}}
		err := send(t.Context(), t, open(t, WithTransport(rt), WithRetry(RetryPolicy{AttemptTimeout: time.Second})))
		require.ErrorIs(t, err, taxonomy.BadRequest)
		require.NotErrorIs(t, err, ErrAttemptTimeout)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		require.False(t, e.Timeout())
		require.Len(t, e.Attempts, 2)
		require.ErrorIs(t, e.Attempts[0].Err, ErrAttemptTimeout)
	})
}

// An SDK takes a failed connection as proof that nothing was sent, and repeats a POST without a key.
func TestAnEarlierFailureToConnectIsNoCauseOfACallThatWasSent(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name    string
		results []error
		dial    bool
	}{
		{"then sent", []error{refused, io.EOF}, false},
		{"never sent", []error{refused, refused, refused}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				results := c.results
				client := open(t, WithProfile(Profile{Name: "keyless", NoKeys: true}), WithRetry(RetryPolicy{MaxAttempts: 3}),
					WithTransport(roundTrip(func(*http.Request) (*http.Response, error) {
						err := results[0]
						results = results[1:]
						return nil, err
					})))
				sdk := &http.Client{Transport: client.Transport()}
				_, err := sdk.Post("http://bank.test/", "", strings.NewReader("{}")) //nolint:bodyclose // there is none
				e, ok := errors.AsType[*Error](err)
				require.True(t, ok)
				require.Len(t, e.Attempts, len(c.results))
				require.Equal(t, c.dial, e.Effect == NotApplied)
				require.Equal(t, c.dial, errors.Is(err, syscall.ECONNREFUSED))
				_, dial := errors.AsType[*net.OpError](err)
				require.Equal(t, c.dial, dial)
			})
		})
	}
}

func TestErrorIsANetError(t *testing.T) {
	for _, c := range []struct {
		name               string
		err                Error
		timeout, temporary bool
	}{
		{"the caller's deadline", Error{Code: taxonomy.CallerDeadline}, true, false},
		{
			"the caller's deadline, under a key that lasts",
			Error{Code: taxonomy.CallerDeadline, retry: true, sameKey: true}, true, true,
		},
		{"an attempt's time limit", Error{Code: taxonomy.Timeout}, true, false},
		{"a status that reports a timeout", Error{Code: taxonomy.Timeout, StatusCode: 504}, false, false},
		{"the caller gave up", Error{Code: taxonomy.CallerCanceled}, false, false},
		{
			"an overloaded server", Error{Code: taxonomy.Unavailable, StatusCode: 503, retry: true, Effect: NotApplied},
			false, true,
		},
		{"a terminal response", Error{Code: taxonomy.BadRequest, StatusCode: 400, Effect: NotApplied}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n net.Error
			require.ErrorAs(t, fmt.Errorf("refund: %w", &c.err), &n)
			require.Equal(t, c.timeout, n.Timeout())
			require.Equal(t, c.temporary, c.err.Temporary())
			require.Equal(t, SafeToRetry(&c.err), c.err.Temporary())
		})
	}
}

func TestAttemptTimeoutIsATimeout(t *testing.T) {
	var n net.Error
	require.ErrorAs(t, fmt.Errorf("call: %w", ErrAttemptTimeout), &n)
	require.True(t, n.Timeout())
	require.EqualError(t, n, "redo: attempt timed out")
	require.NotErrorIs(t, ErrAttemptTimeout, context.DeadlineExceeded, "it is not the caller's deadline")
}

func TestReasonsAreDistinct(t *testing.T) {
	reasons := []error{
		ErrClosed, ErrNotReplayable, ErrKeyless, ErrBudget, ErrTooLate, ErrAttempts, ErrAttemptTimeout, ErrBreakerOpen,
		ErrLimited,
		ErrContradiction,
	}
	for i, err := range reasons {
		require.Regexp(t, "^(redo|limit): ", err.Error())
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
			client := open(t, WithTransport(&scripted{statuses: []int{400}, header: c.header}))
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
		{"the error of a report about a success has none", new(Report).Err(), ""},
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

func TestTheErrorOfAReportAboutASuccessMatchesNothing(t *testing.T) {
	err := new(Report).Err()
	require.NotErrorIs(t, err, taxonomy.RateLimited)
	_, ok := errors.AsType[taxonomy.Code](err)
	require.False(t, ok)
}

func TestSafeToRetry(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"no error needs none", nil, false},
		{"the error of a report about a success needs none", new(Report).Err(), false},
		{"nothing is known of a foreign error", io.EOF, false},
		{"a bare code is not enough", taxonomy.Unavailable, false},
		{"a terminal failure stays one", &Error{Effect: NotApplied, sameKey: true}, false},
		{"an unknown effect under a new key is a second effect", &Error{retry: true}, false},
		{"an unknown effect under the same key is safe", &Error{retry: true, sameKey: true}, true},
		{"an operation that was not applied is safe under any key", &Error{retry: true, Effect: NotApplied}, true},
		{"an operation that was applied is not safe under a new key", &Error{retry: true, Effect: Applied}, false},
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
		{"a name that has no effect", down(), name, nil, false},
		{"a key of the caller's", down(), key, nil, true},
		{
			"a name and a key of the caller's", down(),
			func(ctx context.Context) context.Context { return key(name(ctx)) }, nil, true,
		},
		{"a name in the store", down(), name, []Option{WithStore(memstore.New())}, true},
		{"a key that the name gives", down(), name, []Option{WithKeys(DerivedKeys("live"))}, true},
		{"a key that no name gives", down(), nil, []Option{WithKeys(RandomKeys)}, false},
		{"nothing was sent", refused, nil, nil, true},
		{"a terminal response", &scripted{statuses: []int{400}}, key, nil, false},
		{"the caller's time was too short, under the caller's key", &scripted{statuses: []int{hang}}, both, nil, true},
		{
			"the caller's time was too short, under a key that is gone", &scripted{statuses: []int{hang}}, short, nil,
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := open(t, append(c.options, WithTransport(c.rt))...)
				ctx := t.Context()
				if c.ctx != nil {
					ctx = c.ctx(ctx)
				}
				err := send(ctx, t, client)
				require.Error(t, err)
				require.Equal(t, c.want, SafeToRetry(err), "%v", err)
			})
		})
	}
}

// Errors and attempts are logged.
func TestErrorsHoldNoSecrets(t *testing.T) {
	const secret = "hunter2"
	target := "https://user:" + secret + "@bank.test/refunds?token=" + secret
	request := func(t *testing.T, rt http.RoundTripper) error {
		client := open(t, WithTransport(rt), WithRetry(RetryPolicy{MaxAttempts: 2, Jitter: NoDelay}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(secret))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+secret)
		_, err = client.Do(req)
		return err
	}
	call := func(t *testing.T, url string) error {
		client := open(t, WithTransport(&scripted{statuses: []int{200}}))
		_, err := Call[struct{}](t.Context(), client, http.MethodPost, url, nil)
		return err
	}
	redirect := func(to string) http.RoundTripper {
		return &scripted{statuses: []int{307}, header: http.Header{"Location": {to}}}
	}
	for name, err := range map[string]error{
		"a response":          request(t, &scripted{statuses: []int{503}}),
		"a broken connection": request(t, &scripted{statuses: []int{broken}}),
		"an error that quotes the URL": request(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: io.ErrUnexpectedEOF}
		})),
		"a location that is no URL":    request(t, redirect("https://bank.test/%zz?token="+secret)),
		"a location of another scheme": request(t, redirect("ftp://bank.test/?token="+secret)),
		"a location of another origin": request(t, redirect("https://user:"+secret+"@shop.test/?token="+secret)),
		"a URL that does not parse":    call(t, "https://user:"+secret+"@bank.test/%zz?token="+secret),
		"a URL without a host":         call(t, "https:///?token="+secret),
	} {
		t.Run(name, func(t *testing.T) {
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok)
			require.NotContains(t, e.Error(), secret)
			text, err := json.Marshal(struct{ Cause error }{e})
			require.NoError(t, err)
			require.NotContains(t, string(text), secret)
			var logged struct{ Cause string }
			require.NoError(t, json.Unmarshal(text, &logged))
			require.Equal(t, e.Error(), logged.Cause)
			for _, cause := range e.Unwrap() {
				require.NotContains(t, cause.Error(), secret)
			}
			for _, a := range e.Attempts {
				if a.Err != nil {
					require.NotContains(t, a.Err.Error(), secret)
				}
			}
		})
	}
}

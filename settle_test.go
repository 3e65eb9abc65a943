package redo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/journal"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestStoreErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		code  taxonomy.Code
		again bool
	}{
		{
			"a store that can't be reached may come back", fmt.Errorf("bolt: %w", store.ErrUnavailable),
			taxonomy.Unavailable, true,
		},
		{"a reply that was lost may be found", store.ErrUnknown, taxonomy.Unavailable, true},
		{
			"a claim that breaks a rule stays one", fmt.Errorf("bolt: %w", store.ErrInvalid), taxonomy.InvalidOperation,
			false,
		},
		{"a timeout of the store's own", context.DeadlineExceeded, taxonomy.Unavailable, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &call{req: build(t, t.Context(), "POST"), op: operation{name: "refund:1", stored: true}}
			out := k.storeFailure(c.err, EffectUnknown)
			require.Equal(t, c.code, out.err.Code)
			require.Equal(t, "refund:1", out.err.Operation)
			require.Equal(t, EffectUnknown, out.err.Effect, "an earlier call may have sent it")
			require.ErrorIs(t, out.err, c.err)
			require.Equal(t, c.again, SafeToRetry(out.err))
		})
	}
	t.Run("the caller's end is the caller's", func(t *testing.T) {
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gaveUp)
		k := &call{req: build(t, ctx, "POST"), op: operation{name: "refund:1", stored: true}}
		out := k.storeFailure(fmt.Errorf("bolt: %w", store.ErrInvalid), NotApplied)
		require.Equal(t, taxonomy.CallerCanceled, out.err.Code)
		require.ErrorIs(t, out.err, gaveUp)
		require.ErrorIs(t, out.err, context.Canceled)
		require.ErrorIs(t, out.err, store.ErrInvalid)
		require.True(t, SafeToRetry(out.err))
	})
}

// TestSettlement states which outcomes settle a stored operation, and which come to rest with an unknown effect.
func TestSettlement(t *testing.T) {
	const transient, terminal = taxonomy.ClassTransient, taxonomy.ClassTerminal
	failed := func(code taxonomy.Code, class taxonomy.Class, effect Effect, final bool) outcome {
		return outcome{
			err: &Error{Code: code, Effect: effect}, effect: effect,
			verdict: taxonomy.Verdict{Code: code, Class: class, Effect: effect, Final: final},
		}
	}
	for _, c := range []struct {
		name            string
		out             outcome
		settled, rested bool
	}{
		{"a refusal", failed(taxonomy.BadRequest, terminal, NotApplied, false), true, false},
		{
			"a refusal whose effect is unknown", failed(taxonomy.BadRequest, terminal, EffectUnknown, false), false,
			false,
		},
		{
			"a final refusal whose effect is unknown", failed(taxonomy.Internal, terminal, EffectUnknown, true), false,
			true,
		},
		{
			"a failure after the effect", failed(taxonomy.Provider+".response_too_large", terminal, Applied, false),
			true, false,
		},
		{"an overloaded server", failed(taxonomy.Unavailable, transient, NotApplied, false), false, false},
		{"a lost response", failed(taxonomy.Reset, transient, EffectUnknown, false), false, false},
		{"an expired key", failed(taxonomy.KeyExpired, terminal, EffectUnknown, false), false, true},
		{
			"an outcome that the server does not know", failed(taxonomy.OutcomeUnknown, terminal, EffectUnknown, false),
			false, true,
		},
		{"a caller who gave up", failed(taxonomy.CallerCanceled, terminal, EffectUnknown, false), false, false},
		{
			"a caller who gave up before anything was sent",
			failed(taxonomy.CallerCanceled, terminal, NotApplied, false), false, false,
		},
		{"refused credentials", failed(taxonomy.Auth, terminal, NotApplied, false), false, false},
		{"refused credentials on record", failed(taxonomy.Auth, terminal, NotApplied, true), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &call{client: open(t)}
			_, settled := k.settlement(c.out)
			require.Equal(t, c.settled, settled)
			require.Equal(t, c.rested, !settled && k.rested(c.out))
		})
	}
}

func TestWhatIsStoredOfAResponse(t *testing.T) {
	const most = 10
	ok := func(body string, header http.Header) outcome {
		resp := &http.Response{StatusCode: 201, Header: header, Body: io.NopCloser(strings.NewReader(body))}
		return outcome{
			resp: resp, effect: Applied, verdict: taxonomy.Verdict{Class: taxonomy.ClassSuccess, Effect: Applied},
			Received: exchange.Received{Head: []byte(body)},
		}
	}
	kept := func(body string) *wire.Response {
		return &wire.Response{Status: 201, Header: http.Header{"Etag": {"x"}}, Body: []byte(body)}
	}
	etag := http.Header{"Etag": {"x"}, "Date": {"now"}, "Set-Cookie": {"secret"}}
	with := func(cacheControl ...string) http.Header {
		return http.Header{"Etag": {"x"}, "Cache-Control": cacheControl}
	}
	many := http.Header{}
	for i := range 5000 {
		many.Set(fmt.Sprintf("X-%d", i), "v")
	}
	for _, c := range []struct {
		name string
		out  outcome
		want journal.Settlement
	}{
		{
			"status, end-to-end headers and body", ok("1000", etag),
			journal.Settlement{Effect: Applied, BodyKept: true, Response: kept("1000")},
		},
		{
			"the longest body", ok("0123456789", etag),
			journal.Settlement{Effect: Applied, BodyKept: true, Response: kept("0123456789")},
		},
		{
			"not a longer one", ok("0123456789a", etag),
			journal.Settlement{
				Effect: Applied, Response: &wire.Response{Status: 201, Header: http.Header{"Etag": {"x"}}},
			},
		},
		{"nothing of a response that forbids it", ok("1000", with("no-store")), journal.Settlement{Effect: Applied}},
		{
			"nothing of one that forbids it among others", ok("1000", with("private", "max-age=0 , No-Store")),
			journal.Settlement{Effect: Applied},
		},
		{
			"other directives don't forbid it", ok("1000", with("no-cache, private")),
			journal.Settlement{Effect: Applied, BodyKept: true, Response: &wire.Response{
				Status: 201, Header: http.Header{"Etag": {"x"}, "Cache-Control": {"no-cache, private"}},
				Body: []byte("1000"),
			}},
		},
		{"nothing of one with more headers than a record holds", ok("1000", many), journal.Settlement{Effect: Applied}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &call{client: open(t, WithMaxStoredBody(most))}
			got, settled := k.settlement(c.out)
			require.True(t, settled)
			require.Equal(t, c.want, got)
		})
	}
	t.Run("nothing of a redirect", func(t *testing.T) {
		_, settled := (&call{client: open(t)}).settlement(outcome{resp: &http.Response{StatusCode: 302}})
		require.False(t, settled)
	})
}

func TestFound(t *testing.T) {
	client := open(t, WithMaxStoredBody(4))
	read := &closeSpy{Reader: strings.NewReader("1000")}
	finding := func(effect Effect, resp *http.Response) Finding {
		return Finding{Effect: effect, Evidence: "rf_1", By: "ana", Response: resp}
	}
	recorded := &journal.Finding{Evidence: "rf_1", By: "ana"}
	for _, c := range []struct {
		name string
		f    Finding
		want journal.Settlement
		err  string
	}{
		{"without a response", finding(Applied, nil), journal.Settlement{Effect: Applied, Finding: recorded}, ""},
		{
			"an operation that was not applied", finding(NotApplied, nil),
			journal.Settlement{Effect: NotApplied, Finding: recorded}, "",
		},
		{
			"an operation that was not applied has no response", finding(NotApplied, &http.Response{StatusCode: 200}),
			journal.Settlement{Effect: NotApplied, Finding: recorded}, "",
		},
		{
			"with a response",
			finding(Applied,
				&http.Response{StatusCode: 200, Header: http.Header{"Etag": {"x"}, "Date": {"now"}}, Body: read}),
			journal.Settlement{Effect: Applied, BodyKept: true, Finding: recorded, Response: &wire.Response{
				Status: 200, Header: http.Header{"Etag": {"x"}}, Body: []byte("1000"),
			}}, "",
		},
		{
			"with a response without a body", finding(Applied, &http.Response{StatusCode: 204}),
			journal.Settlement{
				Effect: Applied, BodyKept: true, Finding: recorded,
				Response: &wire.Response{Status: 204, Header: http.Header{}},
			},
			"",
		},
		{
			"a body that is too long",
			finding(Applied, &http.Response{StatusCode: 200, Body: io.NopCloser(
				io.MultiReader(strings.NewReader("10000"), iotest.ErrReader(io.ErrUnexpectedEOF)))}),
			journal.Settlement{}, "the finding's response has more than the 4 bytes of WithMaxStoredBody",
		},
		{
			"a body that can't be read",
			finding(Applied,
				&http.Response{StatusCode: 200, Body: io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))}),
			journal.Settlement{}, "reading the finding's response: unexpected EOF",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer c.f.close()
			got, err := client.found(c.f)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	require.Equal(t, 1, read.closed)
}

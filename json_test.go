package redo_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

type receipt struct {
	ID     string         `json:"id,omitempty"`
	Amount int            `json:"amount,omitempty"`
	Notes  map[string]int `json:"notes,omitempty"`
}

func TestCallSendsAndDecodesJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		client := connect(t, srv.Transport())
		in := receipt{Amount: 1000, Notes: map[string]int{"c": 3, "a": 1, "b": 2}}
		out, err := redo.Call[receipt](redo.WithKey(t.Context(), "k1"), client, http.MethodPost, srv.URL+"/refunds", in)
		require.NoError(t, err)
		require.Equal(t, receipt{ID: "rf_1"}, out)
		srv.Ledger().AssertEffects(t, "k1", 1)
		for _, r := range srv.Requests() {
			require.Equal(t, `{"amount":1000,"notes":{"a":1,"b":2,"c":3}}`, string(r.Body),
				"equal values have equal bytes")
			require.Equal(t, []string{"application/json", "application/json"},
				[]string{r.Header.Get("Content-Type"), r.Header.Get("Accept")})
		}
	})
}

func TestCallContinuesAnOperationFromEqualValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		st := openStore(t)
		ctx := redo.WithOperation(t.Context(), "op")
		call := func(c *redo.Client) (receipt, error) {
			return redo.Call[receipt](ctx, c, http.MethodPost, srv.URL,
				receipt{Notes: map[string]int{"x": 1, "y": 2, "z": 3}})
		}
		_, err := call(connect(t, srv.Transport(), redo.WithStore(st),
			redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})))
		require.True(t, redo.SafeToRetry(err))
		for range 2 { // replayed by the server, and then out of the store
			out, err := call(connect(t, srv.Transport(), redo.WithStore(st)))
			require.NoError(t, err)
			require.Equal(t, receipt{ID: "rf_1"}, out)
		}
		require.Equal(t, 1, srv.Ledger().Total())
		require.Len(t, srv.Requests(), 2)
	})
}

func TestCallsAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   receipt
		code   taxonomy.Code
		effect redo.Effect
	}{
		{"a value", 200, `{"id":"rf_1"}`, receipt{ID: "rf_1"}, "", 0},
		{"white space around it", 200, " {\"id\":\"rf_1\"}\n\n", receipt{ID: "rf_1"}, "", 0},
		{"no content is the zero value", 204, "", receipt{}, "", 0},
		{"an empty body is the zero value", 200, "", receipt{}, "", 0},
		{"null is the zero value", 200, "null", receipt{}, "", 0},
		{
			"a page of HTML is no result, and shows nothing", 200, "<html>", receipt{}, "PROVIDER.malformed",
			redo.EffectUnknown,
		},
		{"a value that is cut off", 200, `{"id":"rf_`, receipt{}, "PROVIDER.malformed", redo.EffectUnknown},
		{"another type", 200, `{"id":7}`, receipt{}, "PROVIDER.malformed", redo.Applied},
		{"two values", 200, `{"id":"rf_1"}{}`, receipt{}, "PROVIDER.malformed", redo.EffectUnknown},
		{
			"a refusal, under a key that was given", 404, `{"id":"rf_1"}`, receipt{}, taxonomy.NotFound,
			redo.EffectUnknown,
		},
		{"a redirect", 302, "", receipt{}, taxonomy.RedirectNotFollowed, redo.EffectUnknown},
		{"a 304, whose body is elsewhere", 304, "", receipt{}, taxonomy.RedirectNotFollowed, redo.EffectUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					return answer(r, c.status, c.body), nil
				}))
				ctx := redo.WithKey(redo.WithOperation(t.Context(), "op"), "k1")
				out, err := redo.Call[receipt](ctx, client, http.MethodPost, "http://api.test/", receipt{})
				require.Equal(t, c.want, out)
				if c.code == "" {
					require.NoError(t, err)
					return
				}
				e := failure(t, err)
				require.Equal(t, []any{c.code, c.effect, "op", "k1", c.status, 1},
					[]any{e.Code, e.Effect, e.Operation, e.Key, e.StatusCode, len(e.Attempts)})
				require.False(t, redo.SafeToRetry(e))
			})
		})
	}
}

// The error's response needs no Close.
func TestCallLeavesNoConnectionOpenThatSwitchesProtocols(t *testing.T) {
	body := &watchedBody{Reader: strings.NewReader("hello")}
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		resp := answer(r, http.StatusSwitchingProtocols, "")
		resp.Body = body
		return resp, nil
	}))
	_, err := redo.Call[any](t.Context(), client, "POST", "http://api.test/", receipt{})
	e := failure(t, err)
	require.Equal(t, []any{101, redo.EffectUnknown}, []any{e.StatusCode, e.Effect})
	require.Equal(t, int32(1), body.closed.Load())
}

func TestCallWithoutAValueSendsNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		_, err := redo.Call[receipt](t.Context(), connect(t, srv.Transport()), http.MethodGet, srv.URL, nil)
		require.NoError(t, err)
		require.Empty(t, srv.Requests()[0].Body)
		require.Empty(t, srv.Requests()[0].Header.Get("Content-Type"))
	})
}

func TestCallRefusesBadInput(t *testing.T) {
	srv := servertest.NewInMemory(t)
	client := connect(t, srv.Transport())
	ctx := redo.WithOperation(t.Context(), "op")
	for _, c := range []struct {
		name string
		call func() error
	}{
		{
			"a value that JSON has no form for",
			func() error { _, err := redo.Call[receipt](ctx, client, "POST", srv.URL, make(chan int)); return err },
		},
		{"no client", func() error { _, err := redo.Call[receipt](ctx, nil, "POST", srv.URL, nil); return err }},
		{
			"a bad URL",
			func() error { _, err := redo.Call[receipt](ctx, client, "POST", "http://[::1", nil); return err },
		},
		{"a bad method", func() error { _, err := redo.Call[receipt](ctx, client, "PO ST", srv.URL, nil); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := failure(t, c.call())
			require.Equal(t, taxonomy.InvalidRequest, e.Code)
			require.Equal(t, c.name != "no client", e.Effect == redo.NotApplied, "only the client knows the store")
			require.Equal(t, "op", e.Operation)
		})
	}
	t.Run("no context", func(t *testing.T) {
		var none context.Context
		_, err := redo.Call[receipt](none, client, "POST", srv.URL, nil)
		require.Equal(t, taxonomy.InvalidRequest, failure(t, err).Code)
		_, err = client.Resume(none, redo.Operation{})
		require.Equal(t, taxonomy.InvalidRequest, failure(t, err).Code)
	})
	require.Empty(t, srv.Requests())
}

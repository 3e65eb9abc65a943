package server_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

type nilObserver struct{ server.Observer }

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		opt  server.Option
		says string
	}{
		{server.Retention(-time.Second), "option Retention: -1s is not positive"},
		{server.Retention(0), "option Retention: 0s is not positive"},
		{server.Retention(time.Second), "option LeaseTTL: 30s is longer than the retention, 1s"},
		{server.LeaseTTL(0), "option LeaseTTL: 0s is less than 1ms"},
		{server.LeaseTTL(25 * time.Hour), "option LeaseTTL: 25h0m0s is longer than the retention, 24h0m0s"},
		{server.LeaseTTL(store.Forever), "option LeaseTTL: a lease can't be forever"},
		{server.HandlerTimeout(0), "option HandlerTimeout: 0s is not positive"},
		{server.HandlerTimeout(48 * time.Hour), "option HandlerTimeout: 48h0m0s is longer than the retention"},
		{server.StoreTimeout(-1), "option StoreTimeout: -1ns is not positive"},
		{server.Wait(-1), "option Wait: -1ns is negative"},
		{server.MaxWaiters(0), "option MaxWaiters: 0 is not positive"},
		{server.MaxBody(-1), "option MaxBody: -1 is negative"},
		{server.MaxResponse(-1), "option MaxResponse: -1 is negative"},
		{server.Methods(), "option Methods: no method is left"},
		{server.Methods("POST", ""), "option Methods: a method is empty"},
		{server.Methods("GET"), "option Methods: GET never reserves a key"},
		{server.Methods("QUERY"), "option Methods: QUERY never reserves a key"},
		{server.Methods("post"), `option Methods: "post" is not a method's name in capitals`},
		{server.Methods("PUT", "POST, PATCH"), `option Methods: "POST, PATCH" is not a method's name in capitals`},
		{server.Methods("POST "), `option Methods: "POST " is not a method's name in capitals`},
		{server.RunIn(&server.Background{Limit: -1}), "option RunIn: the Background's Limit must not be negative"},
		{server.InFlightStatus(200), "option InFlightStatus: 200 is neither 409 nor 425"},
		{server.Observe((*nilObserver)(nil)), "option Observe: the observer is a nil pointer"},
		{server.Principal(nil), "option Principal: the function must not be nil"},
		{server.Header(""), `option Header: "" is not a header name`},
		{server.Header("X Key"), `option Header: "X Key" is not a header name`},
		{server.Header("X-Api-Key"), "option Header: the header X-Api-Key carries credentials"},
		{server.Header("host"), "option Header: the header host has another meaning"},
		{server.Header("X-Request-Timeout"), "option Header: the header X-Request-Timeout has another meaning"},
		{server.KeyFormat(nil), "option KeyFormat: the function must not be nil"},
		{server.Fingerprint(nil), "option Fingerprint: the function must not be nil"},
		{server.TakeOver(server.Recover(nil)), "option TakeOver: the function given to Recover must not be nil"},
		{server.Pepper([]byte("fifteen bytes..")), "option Pepper: a secret must have at least 16 bytes"},
		{server.Pepper([]byte("0123456789abcdef"), nil), "option Pepper: a secret must have at least 16 bytes"},
		{
			server.Pepper([]byte("0123456789abcdef"), []byte("0123456789abcdef")),
			"option Pepper: a secret is given twice",
		},
		{server.Route(""), "option Route: the name must not be empty"},
		{server.Scope(""), "option Scope: the name must not be empty"},
		{server.Skip(nil), "option Skip: the function must not be nil"},
		{server.Keep(nil), "option Keep: the function must not be nil"},
		{server.ReplayHeader(nil), "option ReplayHeader: the function must not be nil"},
		{server.Refusal(nil), "option Refusal: the function must not be nil"},
		{server.MaxWaitersPerPrincipal(0), "option MaxWaitersPerPrincipal: 0 is not positive"},
		{server.MaxWaitersPerKey(-1), "option MaxWaitersPerKey: -1 is not positive"},
		{nil, "option Option: an option is nil"},
	} {
		t.Run(c.says, func(t *testing.T) {
			_, err := server.New(memstore.New(), server.SharedKeys(), c.opt)
			require.ErrorContains(t, err, "server: "+c.says)
		})
	}
	t.Run("CanonicalJSON does not go together with Fingerprint", func(t *testing.T) {
		own := server.Fingerprint(func(*http.Request, []byte) (store.Fingerprint, error) { return store.Fingerprint{}, nil })
		_, err := server.New(memstore.New(), server.SharedKeys(), server.CanonicalJSON(), own)
		require.ErrorContains(t, err, "server: option CanonicalJSON: it does not go together with Fingerprint")
		for _, one := range []server.Option{server.CanonicalJSON(), own} {
			_, err := server.New(memstore.New(), server.SharedKeys(), one)
			require.NoError(t, err)
		}
	})
	t.Run("a configuration must state to whom keys belong", func(t *testing.T) {
		for _, opts := range [][]server.Option{nil, {server.Required()}} {
			_, err := server.New(memstore.New(), opts...)
			require.ErrorContains(t, err, "give Principal(f) ")
			require.ErrorContains(t, err, " or SharedKeys() ")
		}
		_, err := server.New(memstore.New(), server.Principal(principalHeader), server.SharedKeys())
		require.ErrorContains(t, err, "server: option SharedKeys: it does not go together with Principal")
		for _, one := range []server.Option{server.Principal(principalHeader), server.SharedKeys()} {
			_, err := server.New(memstore.New(), one)
			require.NoError(t, err)
		}
	})
	t.Run("Middleware without an owner of keys serves that error and runs nothing", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil)
		guarded := g.Handler
		g.Handler = server.Middleware(memstore.New(), server.Required())(guarded)
		for _, edit := range []func(*http.Request){withKey("k1"), without("Idempotency-Key"), withMethod("GET")} {
			p := requireProblem(t, g.do(edit), 500, "CONFIGURATION.middleware")
			require.Contains(t, p.Detail, "SharedKeys()")
		}
		require.Zero(t, g.ran())
		g.Handler = server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(guarded)
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
	})
	t.Run("every wrong option is named, and so is a store that is missing", func(t *testing.T) {
		_, err := server.New(nil, server.SharedKeys(), server.MaxBody(-1), server.MaxWaiters(-1))
		for _, says := range []string{"the store must not be nil", "MaxBody", "MaxWaiters"} {
			require.ErrorContains(t, err, says)
		}
	})
	t.Run("the default handler timeout gives way to a short retention", func(t *testing.T) {
		_, err := server.New(memstore.New(), server.SharedKeys(), server.Retention(time.Second),
			server.LeaseTTL(time.Second))
		require.NoError(t, err)
	})
	t.Run("Middleware with wrong options returns 500 and runs nothing", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil)
		g.Handler = server.Middleware(nil, server.SharedKeys(), server.MaxBody(-1))(g.Handler)
		for _, key := range []string{"k1", ""} {
			p := requireProblem(t, g.do(withKey(key)), 500, "CONFIGURATION.middleware")
			require.Contains(t, p.Detail, "MaxBody")
		}
		require.Zero(t, g.ran())
		g.Handler = server.Middleware(memstore.New(), server.SharedKeys())(nil)
		requireProblem(t, g.do(), 500, "CONFIGURATION.middleware")
	})
}

func TestKindString(t *testing.T) {
	require.Equal(t, "created", server.Created.String())
	require.Equal(t, "failed open", server.FailedOpen.String())
	require.Equal(t, "timed out", server.TimedOut.String())
	require.Equal(t, "unknown", fmt.Sprint(server.Kind(99)))
}

func TestANilPointerIsNoStore(t *testing.T) {
	_, err := server.New((*memstore.Store)(nil), server.SharedKeys())
	require.EqualError(t, err, "server: the store must not be nil")
	_, err = server.StatusHandler((*memstore.Store)(nil), server.SharedKeys(), server.Route("refund"))
	require.EqualError(t, err, "server: the store must not be nil")
}

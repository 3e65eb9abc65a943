package redo_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

// Without a store nothing shows the client the effect of an earlier call under the same key. A refusal in front of
// the server's record is then no evidence about the operation.
func TestRefusalUnderALastingKeyLeavesTheEffectUnknown(t *testing.T) {
	gateway := servertest.Status(403)
	mismatch := servertest.Status(409).With(servertest.Field("Error-Code", string(taxonomy.PayloadMismatch)))
	unprocessable := servertest.Status(422) // a mismatch in the IETF profile, which the server does not state
	derived, own := redo.WithKeys(redo.DerivedKeys("live")), redo.WithKeys(redo.TimeOrderedKeys)
	for _, c := range []struct {
		name   string
		keys   redo.Option
		given  string // for WithKey
		header string // the request's own key
		faults []servertest.Fault
		effect redo.Effect
	}{
		{
			"a derived key", derived, "", "", []servertest.Fault{servertest.ResetAfterEffect(), gateway},
			redo.EffectUnknown,
		},
		{"a given key", own, "k1", "", []servertest.Fault{servertest.ResetAfterEffect(), gateway}, redo.EffectUnknown},
		{
			"the key of a named request's header",
			own, "", "k1", []servertest.Fault{servertest.ResetAfterEffect(), gateway}, redo.EffectUnknown,
		},
		{
			"a gateway that limits",
			derived, "", "", []servertest.Fault{servertest.ResetAfterEffect(), servertest.RateLimited()},
			redo.EffectUnknown,
		},
		{
			"a refusal from the server's record",
			derived, "", "", []servertest.Fault{servertest.ResetBeforeRead(), gateway.With(stored)}, redo.NotApplied,
		},
		{
			"another payload than the key's",
			derived, "", "", []servertest.Fault{servertest.ResetAfterEffect(), mismatch}, redo.NotApplied,
		},
		{
			"a mismatch that the profile reads from the status alone",
			derived, "", "", []servertest.Fault{servertest.ResetAfterEffect(), unprocessable}, redo.EffectUnknown,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.faults...))
				profile := redo.RedoProfile()
				profile.Statuses = map[int]taxonomy.Code{422: taxonomy.PayloadMismatch}
				client := connect(t, srv.Transport(), redo.WithProfile(profile), c.keys,
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
				call := func() *redo.Error {
					ctx := redo.WithOperation(t.Context(), "op")
					if c.given != "" {
						ctx = redo.WithKey(ctx, c.given)
					}
					req := post(t, ctx, srv.URL, payment)
					if c.header != "" {
						req.Header.Set("Idempotency-Key", c.header)
					}
					return fail(t, client, req)
				}
				require.Equal(t, redo.EffectUnknown, call().Effect, "the first response was lost")
				require.Equal(t, c.effect, call().Effect)
				sent := keys(srv)
				require.Len(t, sent, 2)
				require.Equal(t, sent[0], sent[1])
			})
		})
	}
	t.Run("a stored operation whose key is derived, maybe by another machine", func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect(), gateway))
		for range 2 {
			client := connect(t, srv.Transport(), derived, redo.WithStore(openStore(t)),
				redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
			require.Equal(t, redo.EffectUnknown, fail(t, client, named(t, srv, "op", payment)).Effect)
		}
		require.Equal(t, keys(srv)[0], keys(srv)[1])
	})
	for key, effect := range map[string]redo.Effect{"": redo.NotApplied, "k1": redo.EffectUnknown} {
		t.Run("a stored operation whose key is given, maybe by another program: "+key, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.ScriptNext(gateway))
			ctx := redo.WithOperation(t.Context(), "op")
			if key != "" {
				ctx = redo.WithKey(ctx, key)
			}
			client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
			require.Equal(t, effect, fail(t, client, post(t, ctx, srv.URL, payment)).Effect)
		})
	}
	t.Run("a key of this call alone was never sent before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.ScriptNext(gateway))
			require.Equal(t, redo.NotApplied, fail(t, connect(t, srv.Transport()), post(t, t.Context(), srv.URL,
				payment)).Effect)
		})
	})
}

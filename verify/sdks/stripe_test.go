package sdks

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
)

// stripeSDK creates a customer. stripe-go sets a new Idempotency-Key for each call. Its Params.SetIdempotencyKey
// is another way to give it a key that lasts.
var stripeSDK = sdk{
	name: "stripe-go",
	call: func(ctx context.Context, to target) (string, error) {
		config := &stripe.BackendConfig{
			HTTPClient: to.http, URL: stripe.String(to.url), EnableTelemetry: stripe.Bool(false),
			LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
		}
		if !to.retries {
			config.MaxNetworkRetries = stripe.Int64(0)
		}
		sc := stripe.NewClient("sk_test_redo", stripe.WithBackends(stripe.NewBackendsWithConfig(config)))
		customer, err := sc.V1Customers.Create(ctx, &stripe.CustomerCreateParams{Description: stripe.String(to.token)})
		if err != nil {
			return "", err
		}
		return customer.ID, nil
	},
	options: []redo.Option{redo.WithProfile(profile.Stripe)},
	key:     keyHeader("Idempotency-Key"),
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "application/json", fmt.Sprintf(`{"id":%q,"object":"customer"}`, id)
	},
	retries: 2,
}

func TestOperationsKeyReplacesTheOneOfStripeGo(t *testing.T) {
	derived := redo.DerivedKeys("test")
	ofName, err := derived(operation)
	require.NoError(t, err)
	keep := profile.Stripe
	keep.KeepRequestKey = true
	for _, c := range []struct {
		name    string
		ctx     func(context.Context) context.Context
		profile redo.Profile
		want    string // empty: stripe-go's own
	}{
		{"a named operation has its name's key", stripeSDK.named, profile.Stripe, ofName},
		{"a given key wins", func(ctx context.Context) context.Context {
			return redo.WithKey(stripeSDK.named(ctx), "given")
		}, profile.Stripe, "given"},
		{"KeepRequestKey keeps stripe-go's own", stripeSDK.named, keep, ""},
		{"an unnamed request keeps stripe-go's own", func(ctx context.Context) context.Context {
			return ctx
		}, profile.Stripe, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t, stripeSDK, refuse(503))
			client := connect(t, redo.WithRetry(quick), redo.WithProfile(c.profile), redo.WithKeys(derived))
			_, err := stripeSDK.run(c.ctx(t.Context()), client, p.URL, false)
			require.NoError(t, err)
			keys := p.keys()
			require.Len(t, keys, 2)
			require.Equal(t, keys[0], keys[1])
			if c.want != "" {
				require.Equal(t, c.want, keys[0])
			} else {
				require.NotEqual(t, ofName, keys[0])
				require.NotEmpty(t, keys[0])
			}
		})
	}
}

// If the profile keeps stripe-go's own key, the operation is begun with it, and later calls continue under that first
// key.
func TestKeepRequestKeyContinuesUnderTheFirstKeyOfStripeGo(t *testing.T) {
	keep := profile.Stripe
	keep.KeepRequestKey = true
	p := newProvider(t, stripeSDK, lost)
	st := openStore(t)
	for i := range 2 {
		client := connect(t, redo.WithRetry(once), redo.WithProfile(keep), redo.WithStore(st))
		_, err := stripeSDK.run(stripeSDK.named(t.Context()), client, p.URL, false)
		require.Equal(t, i == 0, err != nil, "%v", err)
		require.Equal(t, 1, p.effects())
	}
	require.Len(t, p.requests(), 2)
}

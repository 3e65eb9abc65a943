package profile_test

import (
	"fmt"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/taxonomy"
)

func Example() {
	client, err := redo.New(redo.WithProfile(profile.Stripe))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	fmt.Println(client.KeyHeader())
	// Output: Idempotency-Key
}

// A profile is a plain value. A copy of it may be changed, here to the retention that a contract with PayPal gives.
// Replace its maps and slices instead of writing to them: the copy shares them with the original.
func Example_change() {
	paypal := profile.PayPal
	paypal.Retention = 45 * 24 * time.Hour
	paypal.Codes = map[string]taxonomy.Code{"ORDER_ALREADY_CAPTURED": taxonomy.Duplicate}
	client, err := redo.New(redo.WithProfile(paypal))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	fmt.Println(client.KeyHeader(), paypal.Retention, profile.PayPal.Retention)
	// Output: Paypal-Request-Id 1080h0m0s 3h0m0s
}

// An API of your own takes ten lines. Zero fields are redo's defaults.
func Example_own() {
	acme := redo.Profile{
		Name:      "acme",
		Header:    "X-Acme-Request-Id",
		MaxKey:    64,
		Retention: 6 * time.Hour,
		Codes: map[string]taxonomy.Code{
			"request_replayed_with_other_body": taxonomy.PayloadMismatch,
			"request_still_running":            taxonomy.InFlight,
		},
	}
	client, err := redo.New(redo.WithProfile(acme))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	fmt.Println(client.KeyHeader())
	// Output: X-Acme-Request-Id
}

// An Iceberg catalog advertises its retention in the response to GET /v1/config. Without one it has no idempotency.
func ExampleLearn() {
	config := []byte(`{"defaults": {}, "overrides": {}, "idempotency-key-lifetime": "PT30M"}`)
	catalog, found, err := profile.Learn(profile.Iceberg, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	if !found {
		catalog.NoKeys = true
	}
	fmt.Println(catalog.Retention, catalog.NoKeys)
	// Output: 30m0s false
}

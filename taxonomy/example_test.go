package taxonomy_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/redo-go/redo/taxonomy"
)

// errors.Is finds a failure by its code or by its family, also in a wrapped error.
func Example() {
	err := fmt.Errorf("refund ch_9ab: %w", taxonomy.RateLimited)

	fmt.Println(errors.Is(err, taxonomy.RateLimited))
	fmt.Println(errors.Is(err, taxonomy.RateLimit))
	fmt.Println(errors.Is(err, taxonomy.Validation))
	// Output:
	// true
	// true
	// false
}

func ExampleClassify() {
	v := taxonomy.Classify(taxonomy.Answer{
		Sent:   true,
		Status: http.StatusConflict,
		Header: http.Header{"Content-Type": {"application/problem+json"}},
		Body:   []byte(`{"title":"In flight","code":"CONFLICT.idempotency.in_flight"}`),
	})

	fmt.Println(v.Code)
	fmt.Println(v.Class, "- effect", v.Effect)
	fmt.Println("reported by the server:", v.Said)
	// Output:
	// CONFLICT.idempotency.in_flight
	// transient - effect unknown
	// reported by the server: true
}

// A provider that follows the IETF draft gives 409 and 422 their own meanings.
func ExampleClassify_profile() {
	profile := map[int]taxonomy.Code{409: taxonomy.InFlight, 422: taxonomy.PayloadMismatch}
	for _, status := range []int{409, 422} {
		v := taxonomy.Classify(taxonomy.Answer{Sent: true, Status: status, StatusCodes: profile})
		fmt.Println(status, v.Code, v.Retry())
	}
	// Output:
	// 409 CONFLICT.idempotency.in_flight true
	// 422 CONFLICT.idempotency.payload_mismatch false
}

// A provider's own words and markers are part of its profile.
func ExampleClassify_words() {
	v := taxonomy.Classify(taxonomy.Answer{
		Sent:    true,
		Status:  http.StatusUnprocessableEntity,
		Header:  http.Header{"Acme-Replay": {"true"}},
		Body:    []byte(`{"code":4711,"message":"The key belongs to another payment."}`),
		Codes:   map[string]taxonomy.Code{"4711": taxonomy.PayloadMismatch},
		Markers: []string{"Acme-Replay"},
	})

	fmt.Println(v.Code, v.Final)
	// Output:
	// CONFLICT.idempotency.payload_mismatch true
}

func ExampleReplayedBy() {
	h := http.Header{"Request-Idempotency": {"true"}}
	fmt.Println(taxonomy.Replayed(h), taxonomy.ReplayedBy(h, []string{"Request-Idempotency"}))
	// Output:
	// false true
}

func ExampleCode_Hint() {
	fmt.Println(taxonomy.KeyExpired.Hint())
	fmt.Println(taxonomy.Code("VALIDATION.amount").Hint())
	// Output:
	// the server may have forgotten the key: read back before resending
	// fix the input
}

func ExampleReplayed() {
	fmt.Println(taxonomy.Replayed(http.Header{"Idempotent-Replayed": {"true"}}))
	fmt.Println(taxonomy.Replayed(http.Header{"Idempotency-Status": {"stored"}}))
	// Output:
	// true
	// false
}

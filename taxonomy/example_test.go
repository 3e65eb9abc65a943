package taxonomy_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/redo-go/redo/taxonomy"
)

// A failure is asked for by code or by family, through whatever wraps it.
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
	fmt.Println("the server said so:", v.Said)
	// Output:
	// CONFLICT.idempotency.in_flight
	// transient - effect unknown
	// the server said so: true
}

// A provider that follows the statuses of the IETF draft gives 409 and 422 meanings of their own.
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

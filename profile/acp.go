package profile

import (
	"net/http"
	"time"

	"github.com/redo-go/redo"
)

// ACP describes the Agentic Commerce Protocol. Each POST must have a key, an opaque string of up to 255 characters. A
// server keeps it for at least 24 hours, for one identity and one path. A missing key is a 400 with
// idempotency_key_required, another payload a 422 with idempotency_conflict, and a request that is still running a
// 409 with idempotency_in_flight and mostly Retry-After. A replay should have Idempotent-Replayed: true. A 5xx is not
// kept. Timestamp and Signature belong to each attempt: set them in redo.WithCredentials.
//
// Source: https://github.com/agentic-commerce-protocol/agentic-commerce-protocol/blob/main/rfcs/rfc.agentic_checkout.md
var ACP = redo.Profile{
	Name:          "acp",
	Verbatim:      true,
	Retention:     24 * time.Hour,
	Methods:       []string{http.MethodPost},
	StoredHeaders: []string{"Api-Version"},
}

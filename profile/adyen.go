package profile

import (
	"net/http"
	"time"

	"github.com/redo-go/redo"
)

// Adyen describes the Adyen APIs. The key of a POST has up to 64 characters and is kept for at least 7 days, for one
// company account and one region. Error 704, as 409 or 422, reports a request that was processed or is still running.
// Transient-Error: true allows another attempt, and false forbids it. Error 703, a 503, reports that no key can be
// checked at present. Adyen documents no word for another payload. The response repeats the key, replayed or not, so
// it has no mark of a replay.
//
// Source: https://docs.adyen.com/development-resources/api-idempotency
var Adyen = redo.Profile{
	Name:        "adyen",
	Verbatim:    true,
	MaxKey:      64,
	Retention:   7 * 24 * time.Hour,
	Methods:     []string{http.MethodPost},
	ShouldRetry: []string{"Transient-Error"},
}

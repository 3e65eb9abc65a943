package profile

import (
	"net/http"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// UCP describes the REST binding of the Universal Commerce Protocol. The key of a POST or PUT is a UUID. A business
// keeps it for at least 24 hours. A 409 reports another payload. If the store of keys fails, the business refuses
// with 503. The protocol has no response for a request that is still running, and no mark of a replay. A signature
// covers the key: set it in redo.WithCredentials.
//
// Source: https://github.com/Universal-Commerce-Protocol/ucp/blob/main/docs/specification/signatures.md
// Source: https://github.com/Universal-Commerce-Protocol/ucp/blob/main/docs/specification/overview/index.md
// Source: https://github.com/Universal-Commerce-Protocol/ucp/blob/main/source/services/shopping/rest.openapi.json
var UCP = redo.Profile{
	Name:          "ucp",
	Verbatim:      true,
	MaxKey:        36,
	Retention:     24 * time.Hour,
	Methods:       []string{http.MethodPost, http.MethodPut},
	Statuses:      map[int]taxonomy.Code{http.StatusConflict: taxonomy.PayloadMismatch},
	StoredHeaders: []string{"Ucp-Agent"},
}

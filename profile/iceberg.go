package profile

import (
	"net/http"

	"github.com/redo-go/redo"
)

// Iceberg describes an Apache Iceberg REST catalog. The key of a POST or DELETE is a UUID of version 7, redo's
// default; derived keys are of version 5. The member idempotency-key-lifetime of the response to GET /v1/config gives
// the retention: hand that response to [Learn]. Without the member the catalog has no idempotency: set NoKeys. A
// catalog keeps successes and terminal 4xx, 409 included, and no 5xx. A 409 is about tables, views and namespaces.
// The specification has no response for another payload or for a request that is still running, and no mark of a
// replay.
//
// Source: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml
var Iceberg = redo.Profile{
	Name:          "iceberg",
	Verbatim:      true,
	MaxKey:        36,
	Methods:       []string{http.MethodPost, http.MethodDelete},
	StoredHeaders: []string{"X-Iceberg-Access-Delegation"},
}

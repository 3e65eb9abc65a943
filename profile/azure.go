package profile

import (
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// Azure describes the Azure services that follow OASIS Repeatable Requests 1.0. The key is a GUID in
// Repeatability-Request-ID, and Repeatability-First-Sent has the time of the first request. Azure Communication
// Services track a request for 5 minutes; an older one is a 412, and its effect is unknown. Repeatability-Result is
// accepted or rejected. A rejected 400 reports another request under the same key, or a header with a wrong format.
// An accepted 409 reports a request that is still running, and is retried. A first response with a 5xx is not kept. A
// replay has no mark.
//
// Source: https://learn.microsoft.com/en-us/rest/api/communication/repeatable-requests
// Source: https://docs.oasis-open.org/odata/repeatable-requests/v1.0/cs01/repeatable-requests-v1.0-cs01.html
var Azure = redo.Profile{
	Name:            "azure",
	Header:          "Repeatability-Request-ID",
	FirstSentHeader: "Repeatability-First-Sent",
	Verbatim:        true,
	MaxKey:          36,
	Retention:       5 * time.Minute,
	Classifier:      repeatability,
}

// repeatability reads Repeatability-Result under a 400 and a 409. Package taxonomy reads it under a 412.
func repeatability(resp *http.Response, _ []byte, v taxonomy.Verdict) taxonomy.Verdict {
	result := resp.Header.Get("Repeatability-Result")
	switch {
	case v.Said:
	case resp.StatusCode == http.StatusConflict && strings.EqualFold(result, "accepted"):
		return taxonomy.Verdict{Code: taxonomy.InFlight, Class: taxonomy.ClassTransient, Said: true}
	case resp.StatusCode == http.StatusBadRequest && strings.EqualFold(result, "rejected"):
		v.Code, v.Class, v.Effect, v.Said = taxonomy.PayloadMismatch, taxonomy.ClassTerminal, taxonomy.NotApplied, true
		if len(resp.Request.Header.Get("Repeatability-Request-ID")) != guidLength {
			v.Code = taxonomy.KeyMalformed
		}
	}
	return v
}

// guidLength is the length of a GUID as text.
const guidLength = 36

package conformance

import (
	"net/http"
	"slices"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// Profiles returns the named profiles. redo is this project's contract, and ietf is
// draft-ietf-httpapi-idempotency-key-header-07. The others are the public documentation of their APIs, which Sources
// names: a rule that it does not have is left out.
func Profiles() []Profile {
	return []Profile{redoProfile, ietfProfile, stripeProfile, acpProfile, ucpProfile, adcpProfile, icebergProfile,
		azureProfile}
}

var replayed = Marker{Name: "Idempotent-Replayed", Value: "true"}

var redoProfile = Profile{
	Name:   "redo",
	MaxKey: 255,
	// The contract also allows 422.
	Mismatch:      []int{http.StatusConflict, http.StatusUnprocessableEntity},
	MissingKey:    []int{http.StatusBadRequest},
	MalformedKey:  []int{http.StatusBadRequest},
	InFlight:      []int{http.StatusConflict, http.StatusTooEarly},
	ServerErrors:  Executed,
	Markers:       []Marker{replayed},
	ExactStatus:   true,
	ExactHeaders:  true,
	WholePayload:  true,
	Problems:      true,
	Codes:         true,
	BothForms:     true,
	Query:         true,
	MismatchFirst: true,
}

var ietfProfile = Profile{
	Name:         "ietf",
	Sources:      []string{"https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07"},
	Mismatch:     []int{http.StatusUnprocessableEntity},
	MissingKey:   []int{http.StatusBadRequest},
	MalformedKey: []int{http.StatusBadRequest},
	// The draft requires 409. A client that knows RFC 8470 treats 425 the same way.
	InFlight: []int{http.StatusConflict, http.StatusTooEarly},
	Problems: true,
}

// Stripe's keys are removed after 24 hours at the earliest. Servers that follow it have errors of their own, so its
// words only tell a mismatch from a key in flight.
var stripeProfile = Profile{
	Name: "stripe",
	Sources: []string{
		"https://docs.stripe.com/api/idempotent_requests", "https://docs.stripe.com/api/errors",
		"https://docs.stripe.com/error-low-level",
	},
	Mismatch:     []int{http.StatusBadRequest},
	MissingKey:   []int{http.StatusBadRequest},
	MalformedKey: []int{http.StatusBadRequest},
	InFlight:     []int{http.StatusConflict, http.StatusTooEarly},
	Retention:    Duration(24 * time.Hour),
	ServerErrors: Replayed,
	Markers:      []Marker{replayed},
	ExactStatus:  true, // "the resulting status code and body of the first request"
	WholePayload: true, // "compares incoming parameters to those of the original request"
	Words: map[taxonomy.Code]string{
		taxonomy.PayloadMismatch: "idempotency_error", taxonomy.InFlight: "idempotency_key_in_use",
	},
	WordsAt: []string{"error.type", "error.code"},
}

// ACP is the Agentic Commerce Protocol. It has no status for a malformed key.
var acpProfile = Profile{
	Name: "acp",
	Sources: []string{
		"https://github.com/agentic-commerce-protocol/agentic-commerce-protocol/blob/main/rfcs/rfc.agentic_checkout.md",
	},
	MaxKey:       255,
	Mismatch:     []int{http.StatusUnprocessableEntity},
	MissingKey:   []int{http.StatusBadRequest},
	InFlight:     []int{http.StatusConflict},
	Retention:    Duration(24 * time.Hour),
	ServerErrors: Executed,
	Markers:      []Marker{replayed},
	ExactStatus:  true,
	Codes:        true,
	Words: map[taxonomy.Code]string{
		taxonomy.PayloadMismatch: "idempotency_conflict", taxonomy.InFlight: "idempotency_in_flight",
		taxonomy.KeyMissing: "idempotency_key_required",
	},
	WordsAt: []string{"code"},
}

// UCP is the REST binding of the Universal Commerce Protocol. It has no response for a request that is still running,
// no mark of a replay and no word on a 5xx.
var ucpProfile = Profile{
	Name: "ucp",
	Sources: []string{
		"https://github.com/Universal-Commerce-Protocol/ucp/blob/main/docs/specification/signatures.md",
		"https://github.com/Universal-Commerce-Protocol/ucp/blob/main/docs/specification/shopping/checkout/rest.md",
		"https://github.com/Universal-Commerce-Protocol/ucp/blob/main/source/services/shopping/rest.openapi.json",
	},
	KeyForm:     UUID,
	Mismatch:    []int{http.StatusConflict},
	InFlight:    runningStatuses,
	Retention:   Duration(24 * time.Hour),
	ExactStatus: true,
}

// AdCP is the Ad Context Protocol. It has errors and no statuses: an error may come with 200. A seller advertises its
// retention as adcp.idempotency.replay_ttl_seconds, one hour at least.
var adcpProfile = Profile{
	Name: "adcp",
	Sources: []string{
		"https://github.com/adcontextprotocol/adcp/blob/main/docs/building/by-layer/L1/security.mdx",
		"https://github.com/adcontextprotocol/adcp/blob/main/docs/building/operating/transport-errors.mdx",
	},
	KeyMember:     "idempotency_key",
	MaxKey:        255,
	Mismatch:      []int{http.StatusConflict},
	MissingKey:    []int{http.StatusBadRequest},
	InFlight:      []int{http.StatusConflict},
	Retention:     Duration(time.Hour),
	ServerErrors:  Executed,
	Markers:       []Marker{{Member: "replayed", Value: "true"}},
	Envelope:      []string{"replayed", "timestamp", "context_id"},
	MismatchFirst: true,
	Codes:         true,
	Words: map[taxonomy.Code]string{
		taxonomy.PayloadMismatch: "IDEMPOTENCY_CONFLICT", taxonomy.InFlight: "IDEMPOTENCY_IN_FLIGHT",
		taxonomy.KeyExpired: "IDEMPOTENCY_EXPIRED", taxonomy.KeyMissing: "INVALID_REQUEST",
	},
	WordsAt: []string{
		"adcp_error.code", "structuredContent.adcp_error.code", "result.structuredContent.adcp_error.code",
	},
	FailsWith2xx: true,
}

// Iceberg is a REST catalog of Apache Iceberg. It advertises its retention as idempotency-key-lifetime. A replay may
// show a newer state of the catalog. There is no rule for another payload, for a request that is still running, or
// for a mark.
var icebergProfile = Profile{
	Name:         "iceberg",
	Sources:      []string{"https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml"},
	KeyForm:      UUIDv7,
	InFlight:     runningStatuses,
	ServerErrors: Executed,
	NewBody:      true,
	AnyPayload:   true,
}

// Azure has OASIS Repeatable Requests 1.0, as Azure Communication Services document it. A request without a key is not
// repeatable, and runs. A replay has no mark.
var azureProfile = Profile{
	Name: "azure",
	Sources: []string{
		"https://learn.microsoft.com/en-us/rest/api/communication/repeatable-requests",
		"https://docs.oasis-open.org/odata/repeatable-requests/v1.0/cs01/repeatable-requests-v1.0-cs01.html",
	},
	Header:       "Repeatability-Request-ID",
	FirstSent:    "Repeatability-First-Sent",
	KeyForm:      UUID,
	Mismatch:     []int{http.StatusBadRequest},
	MalformedKey: []int{http.StatusBadRequest},
	InFlight:     []int{http.StatusConflict},
	Retention:    Duration(5 * time.Minute),
	ServerErrors: Executed,
	ExactStatus:  true,
	Codes:        true,
	Words:        map[taxonomy.Code]string{taxonomy.PayloadMismatch: "rejected", taxonomy.InFlight: "accepted"},
	WordsIn:      "Repeatability-Result",
}

// ProfileNames returns the names of Profiles.
func ProfileNames() []string {
	var names []string
	for _, p := range Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// profileNamed returns the profile of Profiles with the given name.
func profileNamed(name string) (Profile, bool) {
	all := Profiles()
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return all[i], true
}

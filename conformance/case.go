package conformance

import "slices"

// Case is one rule and its test. The exported fields are constant while a program runs.
type Case struct {
	// Slug names the case permanently. It is never reused for a different case.
	Slug string `json:"slug"`
	// Level is the rule's level in this package. A source may give it a weaker level.
	Level Level `json:"level"`
	// Needs lists the declarations that the target must have for the case to run.
	Needs []Need `json:"needs,omitempty"`
	// Sequence describes the requests that are sent.
	Sequence string `json:"sequence"`
	// Rule describes the result that passes.
	Rule string `json:"rule"`
	// Why names the client or server that the rule protects.
	Why string `json:"why"`
	// Sources lists the rule's sources, with the level that each gives it.
	Sources []Source `json:"sources"`

	gated bool // it judges a replay, so it needs an oracle
	alone bool // no other case may run at the same time
	last  bool // it reviews the run, so it runs last
	run   func(*trial)
}

// Group returns the part of the slug before its first hyphen, such as "key" or "replay".
func (c Case) Group() string {
	for i := range len(c.Slug) {
		if c.Slug[i] == '-' {
			return c.Slug[:i]
		}
	}
	return c.Slug
}

// Source is a source of a rule.
type Source struct {
	Ref   string `json:"ref"`
	Level Level  `json:"level,omitempty"` // empty if the source describes a behaviour without requiring it
}

func draft(section string, level Level) Source {
	return Source{Ref: "draft-ietf-httpapi-idempotency-key-header-07 section " + section, Level: level}
}

func rfc(number, section string, level Level) Source {
	return Source{Ref: "RFC " + number + " section " + section, Level: level}
}

// fetchStandard returns a section of the Fetch standard, which is the rule for browsers.
func fetchStandard(section string) Source { return Source{Ref: "Fetch standard, " + section} }

// queryDraft returns a section of the draft of the QUERY method.
func queryDraft(section string, level Level) Source {
	return Source{Ref: "draft-ietf-httpbis-safe-method-w-body-11 section " + section, Level: level}
}

// stripe returns the section on idempotent requests in Stripe's API reference.
func stripe() Source { return Source{Ref: "Stripe API reference, idempotent requests"} }

// contract returns a part of redo's own contract as a source.
func contract(part string, level Level) Source {
	return Source{Ref: "redo contract, " + part, Level: level}
}

// Need is a declaration that a case requires of the target.
type Need string

// These are the needs.
const (
	NeedEffects     Need = "effects"          // a way to count effects
	NeedSlow        Need = "slow"             // a way to make the operation slow
	NeedPrincipal   Need = "second-principal" // a second principal
	NeedFault       Need = "fault"            // a way to make it fail
	NeedLimit       Need = "rate-limit"       // a way to be refused for a while
	NeedCrash       Need = "crash"            // a way to make the handler die
	NeedExpiry      Need = "short-retention"  // a short retention
	NeedRestart     Need = "restart"          // a restart command
	NeedKeyRequired Need = "key-required"     // the operation refuses requests without a key
	NeedKeyOptional Need = "key-optional"     // the operation runs without a key
	NeedKeyStrict   Need = "strict"           // keys are checked as structured fields
	NeedKeyLimit    Need = "key-limit"        // a maximum key length is published
	NeedFreeKeys    Need = "free-keys"        // keys may be any text, not only UUIDs
	NeedPayloads    Need = "payloads"         // the template produces different payloads
	NeedBody        Need = "body"             // the operation has a body
	NeedJSON        Need = "json"             // its body is a JSON object
	NeedSecond      Need = "second-operation" // a second operation
	NeedPatch       Need = "patch"            // the operation by PATCH
	NeedEmpty       Need = "empty"            // an operation that returns 204
	NeedLarge       Need = "large"            // an operation that returns 1 MiB
	NeedInvalid     Need = "invalid"          // an operation that is always refused with a 4xx
	NeedInterim     Need = "interim"          // an operation that sends a 1xx first
	NeedGet         Need = "get"              // a GET whose response changes with each effect
	NeedQueryMethod Need = "query-method"     // a QUERY whose response changes with each effect
	NeedOrigin      Need = "origin"           // an origin whose pages may send the operation
	NeedAdvertised  Need = "advertised"       // a place where the retention is advertised
	NeedHeader      Need = "header"           // keys are in a header
	NeedOnePayload  Need = "one-payload"      // the profile has a rule for a key with another payload
	NeedOneBody     Need = "one-body"         // the profile's replays have the first response's body
	NeedProblems    Need = "problems"         // the profile has problem documents
	NeedCodes       Need = "codes"            // the profile has redo's error codes
	NeedBothForms   Need = "both-forms"       // the profile treats a bare and a quoted key as equal
	NeedQuery       Need = "query"            // the profile includes the query in the payload
	NeedFirst       Need = "first"            // the profile checks for a mismatch before a key in flight
)

// needTexts describe the missing declarations in reports.
var needTexts = map[Need]string{
	NeedEffects:     "a way to count effects",
	NeedSlow:        "a way to make the operation slow",
	NeedPrincipal:   "a second principal",
	NeedFault:       "a way to make the operation fail",
	NeedLimit:       "a way to be rate limited",
	NeedCrash:       "a way to make the handler die",
	NeedExpiry:      "a retention short enough to wait for",
	NeedRestart:     "a restart command",
	NeedKeyRequired: "that the key is required",
	NeedKeyOptional: "that the key is optional",
	NeedKeyStrict:   "that keys are checked strictly",
	NeedKeyLimit:    "how long a key may be",
	NeedFreeKeys:    "that keys may be any text",
	NeedPayloads:    "a template that makes different payloads",
	NeedBody:        "an operation with a body of two bytes or more",
	NeedJSON:        "an operation whose body is a JSON object",
	NeedSecond:      "a second operation",
	NeedPatch:       "the operation by PATCH",
	NeedEmpty:       "an operation that returns 204",
	NeedLarge:       "an operation that returns 1 MiB",
	NeedInvalid:     "an operation that is always refused",
	NeedInterim:     "an operation that sends an informational response",
	NeedGet:         "a GET whose response an effect changes",
	NeedQueryMethod: "a QUERY whose response an effect changes",
	NeedOrigin:      "an origin whose pages may send the operation",
	NeedAdvertised:  "a place where it advertises how long it keeps keys",
	NeedHeader:      "a profile with keys in a header",
	NeedOnePayload:  "a profile with a rule for a key that was used with another payload",
	NeedOneBody:     "a profile in which a replay has the first response's body",
	NeedProblems:    "a profile with problem documents",
	NeedCodes:       "a profile with error codes",
	NeedBothForms:   "a profile in which a bare and a quoted key are the same",
	NeedQuery:       "a profile in which the query is part of the payload",
	NeedFirst:       "a profile in which a mismatch comes before a key in flight",
}

// Cases returns every case, in the order of reports.
func Cases() []Case {
	return slices.Concat(
		controlCases, keyCases, keyFormCases, replayCases, replayShapeCases, mismatchCases, concurrencyCases,
		historyCases, faultCases, crashCases, scopeCases, lifetimeCases, methodCases, browserCases, lateCases,
	)
}

// prerequisites returns the slugs of the cases that must pass before c can be judged. They are all controls, so no
// other deviation of a target prevents a case's verdict.
func (c Case) prerequisites() []string {
	if c.Slug == slugBaseline {
		return nil
	}
	before := []string{slugBaseline}
	if slices.Contains(c.Needs, NeedEffects) && c.Slug != slugDistinct {
		before = append(before, slugDistinct)
	}
	if c.gated {
		before = append(before, slugOracle)
	}
	return before
}

// These are the cases that other cases depend on.
const (
	slugBaseline  = "ctl-baseline"
	slugDistinct  = "ctl-distinct-keys"
	slugOracle    = "ctl-oracle"
	slugEffect    = "replay-effect"
	slugStatus    = "replay-status"
	slugBody      = "replay-body"
	slugMismatch  = "mismatch-body"
	slugSurvives  = "mismatch-survives"
	slugPrincipal = "scope-principal"
)

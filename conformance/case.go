package conformance

import "slices"

// A Case is one rule, and how it is tried. What is exported is data, and never changes while a program runs.
type Case struct {
	// Slug names the case for good: it is never given to another one.
	Slug string `json:"slug"`
	// Level is how much the rule binds here. A source may say it more weakly.
	Level Level `json:"level"`
	// Needs is what the target has to declare for the case to be run.
	Needs []Need `json:"needs,omitempty"`
	// Sequence is what is sent: K is a fresh key, B1 and B2 are payloads, A1 and A2 principals.
	Sequence string `json:"sequence"`
	// Rule is what passes; E is the change in the number of effects.
	Rule string `json:"rule"`
	// Why says whom the rule protects.
	Why string `json:"why"`
	// Sources are where the rule comes from, with the level that each gives it.
	Sources []Source `json:"sources"`

	after []string // slugs of the cases that have to pass first
	gated bool     // it judges a replay, so an oracle is needed
	alone bool     // no other case may run meanwhile
	run   func(*trial)
}

// Group is the part of the slug before its first hyphen, such as "key" or "replay".
func (c Case) Group() string {
	for i := range len(c.Slug) {
		if c.Slug[i] == '-' {
			return c.Slug[:i]
		}
	}
	return c.Slug
}

// A Source is where a rule comes from.
type Source struct {
	Ref   string `json:"ref"`
	Level Level  `json:"level,omitempty"` // empty: it describes a behaviour and binds nobody
}

func draft(section string, level Level) Source {
	return Source{Ref: "draft-ietf-httpapi-idempotency-key-header-07 section " + section, Level: level}
}

func rfc(number, section string, level Level) Source {
	return Source{Ref: "RFC " + number + " section " + section, Level: level}
}

// stripe is what Stripe's API reference documents of idempotent requests.
func stripe() Source { return Source{Ref: "Stripe API reference, idempotent requests"} }

// contract is redo's own word.
func contract(part string, level Level) Source {
	return Source{Ref: "redo contract, " + part, Level: level}
}

// A Need is something that a target declares, or does not.
type Need string

// The needs.
const (
	NeedEffects     Need = "fx"           // a way to count effects
	NeedSlow        Need = "slow"         // a way to make the operation slow
	NeedPrincipal   Need = "p2"           // a second principal
	NeedFault       Need = "fault"        // a way to make it fail
	NeedLimit       Need = "429"          // a way to be refused for a while
	NeedCrash       Need = "crash"        // a way to make the handler die
	NeedExpiry      Need = "ttl"          // a short retention
	NeedRestart     Need = "re"           // a restart command
	NeedKeyRequired Need = "key-required" // the operation refuses requests without a key
	NeedKeyOptional Need = "key-optional" // the operation runs without a key
	NeedKeyStrict   Need = "strict"       // keys are checked as structured fields
	NeedKeyLimit    Need = "key-limit"    // a greatest length of keys is published
	NeedFreeKeys    Need = "free-keys"    // keys may be any text, not only UUIDs
	NeedPayloads    Need = "payloads"     // the template makes different payloads
	NeedBody        Need = "body"         // the operation has a body
	NeedJSON        Need = "json"         // its body is a JSON object
	NeedSecond      Need = "second"       // a second operation
	NeedPatch       Need = "patch"        // the operation by PATCH
	NeedEmpty       Need = "empty"        // an operation that answers 204
	NeedLarge       Need = "large"        // an operation that answers 1 MiB
	NeedInvalid     Need = "invalid"      // an operation that is always refused with a 4xx
	NeedInterim     Need = "interim"      // an operation that sends a 1xx first
	NeedGet         Need = "get"          // a GET whose answer an effect changes
	NeedProblems    Need = "problems"     // the profile has problem documents
	NeedCodes       Need = "codes"        // the profile has redo's error codes
	NeedBothForms   Need = "both-forms"   // the profile makes a bare and a quoted key the same
	NeedQuery       Need = "query"        // the profile makes the query part of the payload
	NeedFirst       Need = "first"        // the profile puts a mismatch before a key in flight
)

// needTexts say what is missing, for reports.
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
	NeedEmpty:       "an operation that answers 204",
	NeedLarge:       "an operation that answers 1 MiB",
	NeedInvalid:     "an operation that is always refused",
	NeedInterim:     "an operation that sends an informational response",
	NeedGet:         "a GET whose answer an effect changes",
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
		historyCases, faultCases, crashCases, scopeCases, lifetimeCases, methodCases,
	)
}

// prerequisites returns the slugs of the cases that have to pass before c can say anything.
func (c Case) prerequisites() []string {
	if c.Slug == slugBaseline {
		return nil
	}
	after := []string{slugBaseline}
	if slices.Contains(c.Needs, NeedEffects) && c.Slug != slugDistinct {
		after = append(after, slugDistinct)
	}
	if c.gated {
		after = append(after, slugOracle)
	}
	return append(after, c.after...)
}

// The cases that others stand on.
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

// replays are the cases without which nothing can be said of repetitions under worse conditions.
var replays = []string{slugEffect, slugStatus, slugBody}

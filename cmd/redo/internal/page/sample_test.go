package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/redo-go/redo/conformance"
)

// began is when the samples began: pages must not depend on the day.
var began = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

// hostile is text that a server may send. It holds markup, the end of a script element, invalid UTF-8, and an
// invisible joiner. A mark reverses the direction of "refused", and other text is written from right to left.
const hostile = "</script><script>alert(1)</script><img src=//evil.example/x onerror=alert(2)> \xE9\xFF " +
	"\u202Edesufer\u202C a\u200Bb \u05E9\u05DC\u05D5\u05DD \x07 {{.}}"

// exchange returns an exchange that has a response.
func exchange(label string, sent, done int64, status int, body string) *conformance.Exchange {
	return &conformance.Exchange{
		Label: label, Method: "POST", Path: "/orders",
		RequestHeader: []string{"Content-Type: application/json", "Authorization: ***",
			"Idempotency-Key: 5f0c7a52-9d3e-4a41-8a2b-6f1d0c9e7b11"},
		RequestBody: `{"item":"r1c5p1","amount":1}`,
		SentMicros:  sent, FirstMicros: done - 40, DoneMicros: done,
		Status: status, ResponseHeader: []string{"Content-Type: application/json"}, ResponseBody: body,
		Curl: "curl -si -X POST http://shop.example/orders",
	}
}

func judged(slug string, level conformance.Level, v conformance.Verdict,
	findings ...conformance.Finding) conformance.Result {
	res := conformance.Result{
		Slug: slug, Level: level, Verdict: v,
		Rule: "The rule of " + slug + ": one key, one effect.",
		Why:  "A customer who is charged twice does not come back.",
		Sources: []conformance.Source{
			{Ref: "draft-ietf-httpapi-idempotency-key-header-07 section 2.6", Level: conformance.Should},
			{Ref: "Stripe API reference, idempotent requests"},
		},
		Findings: findings, Micros: 12_345,
	}
	switch v {
	case conformance.Skip, conformance.Blocked, conformance.Inconclusive, conformance.Harness:
		res.Reason = findings[0].Actual
	case conformance.Fail, conformance.Warn:
		res.Rerun = "--only " + slug + " --seed 1138"
		res.Curl = `K1=$(uuidgen); curl -si -X POST -H 'Idempotency-Key: '"$K1" --data-binary '{"item":"it'\''s"}' 'http://shop.example/orders'`
	}
	return res
}

func found(v conformance.Verdict, expected, actual string) conformance.Finding {
	return conformance.Finding{Verdict: v, Expected: expected, Actual: actual}
}

// sample is a report with every verdict, and with texts that are hard to show.
func sample() conformance.Report {
	two := 2
	twice := judged("replay-twice", conformance.Must, conformance.Fail, found(conformance.Fail, "1 effect",
		"2 effects"),
		found(conformance.Info, "", "the retry took 1.2 s"))
	twice.Effects = &two
	second := exchange("the retry", 1_250_000, 1_262_300, 201, `{"id":"order_2"}`)
	second.ResponseHeader = append(second.ResponseHeader, "Idempotent-Replayed: true")
	second.Interim = []int{100, 103}
	twice.Exchanges = []*conformance.Exchange{exchange("the first", 210, 9_800, 201, `{"id":"order_1"}`), second}

	race := judged("conc-race", conformance.Must, conformance.Fail, found(conformance.Fail, "1 effect", "14 effects"))
	for i := range int64(14) {
		x := exchange(fmt.Sprintf("racer %d", i+1), 300+10*i, 5_000+700*((5*i)%14), 201,
			fmt.Sprintf(`{"id":"order_%d"}`, i+1))
		x.Delivery = "its last byte was sent together with the others'"
		race.Exchanges = append(race.Exchanges, x)
	}

	lost := judged("fault-lost", conformance.Must, conformance.Fail, found(conformance.Fail,
		"the lost response, 201 with 16 bytes", "409 with 0 bytes"))
	seen, there := exchange("the client's side", 100, 9_000, 0, ""), exchange("the target's side", 400, 8_700,
		201, `{"id":"order_1"}`)
	seen.Delivery, seen.Error, seen.FirstMicros = "by a proxy that read the whole response and then reset the "+
		"connection", "read tcp 127.0.0.1: connection reset by peer", 0
	there.Delivery = targetSide
	lost.Exchanges = []*conformance.Exchange{seen, there, exchange("the retry", 12_000, 14_000, 409, "")}

	huge := judged("replay-huge", conformance.Must, conformance.Fail, found(conformance.Fail, "the same body",
		"another body: "+strings.Repeat("long ", 3000)))
	huge.Exchanges = []*conformance.Exchange{exchange("the large one", 0, 90_000, 200,
		strings.Repeat("0123456789abcdef", 4096))}
	huge.Curl = "curl --data-binary '" + strings.Repeat("x", 20<<10) + "'"

	bytes := judged("key-bytes", conformance.Should, conformance.Warn, found(conformance.Warn, "4xx", "200 "+hostile))
	odd := exchange(hostile, 10, 900, 599, hostile)
	odd.Path = "/" + strings.Repeat("a-very-long-path-without-a-place-to-break", 4) + hostile
	odd.RequestHeader, odd.ResponseHeader = []string{"Idempotency-Key: " + hostile}, []string{"X-Said: " + hostile}
	bytes.Exchanges = []*conformance.Exchange{odd}
	bytes.Why, bytes.Rule = hostile, hostile
	bytes.Sources = append(bytes.Sources, conformance.Source{Ref: hostile, Level: "<b>"})

	history := judged("conc-many", conformance.Must, conformance.Inconclusive,
		found(conformance.Inconclusive, "", "the operations can't be told apart"))
	for i := range int64(70) {
		history.Exchanges = append(history.Exchanges, exchange(fmt.Sprintf("operation %d", i+1), 1000*i, 1000*i+800,
			200,
			"ok"))
	}

	late := exchange("cut off", 500, 30_500_000, 200, "{")
	late.Error = "the connection was closed before a whole response had come"
	broken := judged("method-get", conformance.Must, conformance.Harness, found(conformance.Harness, "",
		"a connection to the target could not be made, and another could"))
	broken.Exchanges = []*conformance.Exchange{late}
	noted := judged("replay-noted", conformance.Inform, conformance.Info, found(conformance.Info, "",
		"Set-Cookie is replayed"))
	noted.Exchanges = []*conformance.Exchange{exchange("the only one", 5, 7, 204, "")}
	expected := judged("mismatch-known", conformance.Must, conformance.Fail,
		found(conformance.Fail, "422", "200 with 2 bytes"))
	expected.Expected = "the old gateway, until June"
	better := judged("mismatch-better", conformance.Must, conformance.Pass)
	better.Expected = "the old gateway, until June"

	return conformance.Report{
		Schema: conformance.Schema, Target: "shop, staging " +
			hostile, BaseURL: "http://shop.example", Profile: "redo", Seed: 1138,
		Started: began, Micros: 31_415_926,
		Results: []conformance.Result{
			judged("ctl-answers", conformance.Must,
				conformance.Pass), bytes, twice, huge, noted, expected, better, race, history, lost,
			judged("scope-two", conformance.Must, conformance.Skip, found(conformance.Skip, "",
				"the target does not declare a second principal")),
			judged("expiry-short", conformance.Should, conformance.Blocked, found(conformance.Blocked, "",
				"replay-twice did not pass")),
			broken,
			judged("zeta-unheard-of", conformance.Should, conformance.Pass),
		},
	}
}

// clean is a report without a finding.
func clean() conformance.Report {
	r := conformance.Report{
		Schema: conformance.Schema, Target: "shop, fixed", BaseURL: "http://127.0.0.1:8080", Profile: "ietf", Seed: 7,
		Started: began.Add(time.Hour), Micros: 820_000,
	}
	for _, slug := range []string{"ctl-answers", "key-bytes", "replay-twice", "conc-race", "fault-lost", "scope-two"} {
		r.Results = append(r.Results, judged(slug, conformance.Must, conformance.Pass))
	}
	return r
}

// unreachable is a report of a run that got nowhere.
func unreachable() conformance.Report {
	return conformance.Report{
		Schema: conformance.Schema, BaseURL: "http://gone.example", Profile: "stripe", Seed: 9, Started: began,
		Micros: 90,
		Results: []conformance.Result{judged("ctl-answers", conformance.Must, conformance.Harness,
			found(conformance.Harness, "", "the run ended before this case"))},
		Stopped: &conformance.Stopped{Reason: "unreachable", Message: "dial tcp: connection refused"},
	}
}

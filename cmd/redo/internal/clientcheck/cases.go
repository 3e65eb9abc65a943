package clientcheck

import (
	"net/http"
	"time"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/servertest"
)

// A rule is a case and the way to try it.
type rule struct {
	conformance.Case
	play func(*trial)
}

const (
	must   = conformance.Must
	should = conformance.Should
)

func newRule(
	slug string, level conformance.Level, text, why string, play func(*trial), sources ...conformance.Source,
) rule {
	return rule{conformance.Case{Slug: slug, Level: level, Rule: text, Why: why, Sources: sources}, play}
}

func draft(section string, level conformance.Level) conformance.Source {
	return conformance.Source{Ref: "draft-ietf-httpapi-idempotency-key-header-07 section " + section, Level: level}
}

func rfc(section string, level conformance.Level) conformance.Source {
	return conformance.Source{Ref: "RFC " + section, Level: level}
}

var (
	ours       = conformance.Source{Ref: "redo contract, sections 3 and 4", Level: must}
	retryRule  = rfc("9110 section 9.2.2", should)
	retryAfter = rfc("9110 section 10.2.3", "")
)

const (
	sameKeyRule = "Each request that is sent again has the first request's key. A failure is reported as one."
	sameKeyWhy  = "With another key the server can't recognize the operation, and makes the effect twice."
	correctWhy  = "The request is refused, so the same request fails again. A retry costs time and hides the defect."
	waitWhy     = "An overloaded server asked for this time. Early requests prolong the overload."
	// hint is the Retry-After of the scripts. It is longer than the first backoff of public clients.
	hint = 3 * time.Second
)

// cases are all cases. The first is the baseline, without which the others can't be judged.
var cases = []rule{
	newRule("client-baseline", must, "A successful call makes one request with one effect, and exits with 0.",
		"Without this case the command does not keep client-check's contract, and nothing else can be judged.",
		baseline, ours),
	newRule("client-key", must, "A POST carries an idempotency key.",
		"After a lost response, only the key makes it safe to send the request again.",
		hasKey, draft("2.5", should)),
	newRule("client-key-form", must, "A key is sent in one header line of 1 to 255 visible ASCII characters.",
		"Two lines, control bytes and long keys are refused or truncated by servers.",
		keyForm, draft("2.1", must)),
	newRule("client-key-unique", must, "Two operations have two keys.",
		"With one key the second operation gets the first one's response, and is never made.",
		uniqueKeys, draft("2.2", must)),
	newRule("client-lost-response", must, sameKeyRule, sameKeyWhy,
		retried(servertest.ResetAfterEffect(), servertest.OK()), draft("2.6", ""), retryRule, ours),
	newRule("client-closed-connection", must, sameKeyRule, sameKeyWhy,
		retried(servertest.CloseAfterEffect(), servertest.OK()), draft("2.6", ""), retryRule, ours),
	newRule("client-reused-connection", must,
		"A request that dies on a reused connection is sent again with its key only.",
		"HTTP libraries repeat such requests by themselves, below the retries of the caller.",
		retried(servertest.Status(http.StatusServiceUnavailable), servertest.CloseAfterEffect(), servertest.OK()),
		retryRule, ours),
	newRule("client-reset-early", must, "After a reset before the effect, a retry has the first request's key.",
		"The client can't know that the effect was not made.",
		retried(servertest.ResetBeforeRead(), servertest.OK()), retryRule, ours),
	newRule("client-refused", must, "A refused connection is retried with one key, or reported as a failure.",
		"A client that claims success here loses the operation.", refused, ours),
	newRule("client-truncated", must, "Half a response is no success.",
		"The response's second half may hold a value that the caller needs, such as the id.",
		retried(servertest.TruncatedBody(5), servertest.OK()), rfc("9112 section 8", must)),
	newRule("client-html-error", must,
		"A 502 with a page of HTML is no success, and a retry has the first request's key.",
		"Proxies send their own pages, often with the content type that was expected.",
		retried(servertest.HTMLError(http.StatusBadGateway), servertest.OK()), ours),
	newRule("client-html-success", should, "A 200 with a page of HTML in place of JSON is no success.",
		"Captive portals and misconfigured proxies send 200 for requests that never reached the API.",
		htmlSuccess, ours),
	newRule("client-503", must, sameKeyRule, sameKeyWhy,
		retried(servertest.Status(http.StatusServiceUnavailable), servertest.OK()), draft("2.7", should), ours),
	newRule("client-500-after-effect", must, sameKeyRule,
		"A 500 does not say whether the effect was made. Here it was.",
		retried(servertest.StatusAfterEffect(http.StatusInternalServerError), servertest.OK()), draft("2.7", should),
		ours),
	newRule("client-504-after-effect", must, sameKeyRule,
		"A gateway's timeout does not say whether the effect was made. Here it was.",
		retried(servertest.StatusAfterEffect(http.StatusGatewayTimeout), servertest.OK()), draft("2.7", should), ours),
	newRule("client-425", must, "A retry after 425 has the first request's key.", sameKeyWhy,
		retried(servertest.Status(http.StatusTooEarly), servertest.OK()), rfc("8470 section 5.2", conformance.May),
		ours),
	newRule("client-429", must, "A retry after 429 has the first request's key.", sameKeyWhy,
		retried(servertest.Status(http.StatusTooManyRequests), servertest.OK()), draft("2.7", should), ours),
	newRule("client-in-flight", must, "After 409 the first request's key is sent again, or a failure is reported.",
		"The first request may still succeed. Another key makes the effect twice.",
		retried(servertest.InFlight(time.Second), servertest.OK()), draft("2.7", must)),
	newRule("client-payload", must, "All attempts of a call send the same payload.",
		"Servers refuse a key that comes with another payload, so that the retry can't succeed.",
		samePayload, draft("2.2", must)),
	newRule("client-attempts", must, "A call makes at most 20 requests.",
		"A client that never gives up prolongs an outage, and its caller never learns of it.",
		attempts, ours),
	newRule("client-killed", must, "A command that was killed and runs again sends the same key.",
		"A crash after the effect is a lost response too. A key in memory only is lost with it.",
		killed, draft("2.6", ""), ours),
	newRule("client-slow", must, "A slow response makes no second effect.",
		"A client with a short timeout sends the request again while the first one is done.",
		retriedLate(time.Second), retryRule, ours),
	newRule("client-timeout", must, "After the client's own timeout a retry has the first request's key.",
		"The effect was made, and only the response comes too late.", beyondTimeout, retryRule, ours),
	newRule("client-retry-after-429", should, "No request is sent before Retry-After of a 429 has passed.", waitWhy,
		waited(limited(servertest.RetryAfterSeconds(int64(hint/time.Second))), always(hint)),
		retryAfter, rfc("6585 section 4", "")),
	newRule("client-retry-after-503", should, "No request is sent before Retry-After of a 503 has passed.", waitWhy,
		waited(servertest.Status(http.StatusServiceUnavailable).
			With(servertest.RetryAfterSeconds(int64(hint/time.Second))),
			always(hint)), retryAfter),
	newRule("client-retry-after-date", should, "No request is sent before the date in Retry-After.", waitWhy,
		waited(limited(servertest.RetryAfterDate(hint+time.Second)), untilDate(hint+time.Second)),
		retryAfter),
	newRule("client-retry-after-long", should,
		"A Retry-After of an hour is waited for, or a failure is reported.", waitWhy,
		longWait, retryAfter),
	newRule("client-redirect-origin", must, "The key is never sent to another origin.",
		"The key belongs to one API. Another origin could use it, and does not know the operation.",
		redirectAway, rfc("9110 section 15.4", should), ours),
	newRule("client-redirect-same", must, "A POST that follows a 308 within its origin keeps its key.",
		"Without the key the redirected request can't be sent again safely.",
		redirectSame, rfc("9110 section 15.4", should), ours),
	newRule("client-redirect-get", should, "A GET that follows a 302 is not the operation's success.",
		"The redirect turned the POST into a GET, so that the effect was never made.",
		redirectGet, rfc("9110 section 15.4.3", conformance.May)),
	newRule("client-400", must, "A 400 is not retried, and is reported as a failure.", correctWhy,
		notRetried(http.StatusBadRequest, 0), draft("2.7", must)),
	newRule("client-mismatch", must, "A 422 is not retried, and is reported as a failure.", correctWhy,
		notRetried(http.StatusUnprocessableEntity, 0), draft("2.7", must)),
	newRule("client-401", should, "A 401 is retried at most once, and is reported as a failure.",
		"One retry with new credentials can succeed. More retries lock accounts.",
		notRetried(http.StatusUnauthorized, 1), rfc("9110 section 15.5.2", conformance.May)),
	newRule("client-501", should, "A 501 is not retried, and is reported as a failure.", correctWhy,
		notRetried(http.StatusNotImplemented, 0), rfc("9110 section 15.6.2", "")),
}

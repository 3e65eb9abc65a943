package conformance

import (
	"net/http"
	"time"
)

// Exchange is one request and its result, as the report holds it. Bytes that are not printable UTF-8 are written
// as \x and two digits, and secrets as ***.
type Exchange struct {
	// Label names the exchange within its case.
	Label string `json:"label"`
	// Delivery describes how the client disturbed the exchange. It is empty if it did not.
	Delivery string `json:"delivery,omitempty"`
	Method   string `json:"method"`
	Path     string `json:"path"`
	// RequestHeader and ResponseHeader are the lines of the headers, "Name: value".
	RequestHeader []string `json:"request_header,omitempty"`
	RequestBody   string   `json:"request_body,omitempty"`
	// SentMicros, FirstMicros and DoneMicros are microseconds since the case began: before the first byte of the
	// request, after the status line, and after the last byte. FirstMicros is zero when there was no status line.
	SentMicros  int64 `json:"sent_us"`
	FirstMicros int64 `json:"first_us,omitempty"`
	DoneMicros  int64 `json:"done_us"`
	// Interim lists the informational statuses before the response.
	Interim        []int    `json:"interim,omitempty"`
	Status         int      `json:"status,omitempty"`
	ResponseHeader []string `json:"response_header,omitempty"`
	ResponseBody   string   `json:"response_body,omitempty"`
	// Error is the reason why there is no complete response.
	Error string `json:"error,omitempty"`
	// Curl is a shell command that sends the same request.
	Curl string `json:"curl,omitempty"`
}

// maxShown is the number of bytes of a body that a report holds.
const maxShown = 1024

// newExchange returns the report's form of an exchange.
func newExchange(label, delivery string, r request, a *answer, began time.Time, m *mask) *Exchange {
	x := &Exchange{
		Label:       label,
		Delivery:    delivery,
		Method:      r.method,
		Path:        printable(m.path(r.path)),
		RequestBody: m.body(r.body),
		SentMicros:  a.sent.Sub(began).Microseconds(),
		DoneMicros:  a.done.Sub(began).Microseconds(),
		Interim:     a.interim,
		Status:      a.status,
	}
	if !a.first.IsZero() {
		x.FirstMicros = a.first.Sub(began).Microseconds()
	}
	for _, f := range r.fields {
		x.RequestHeader = append(x.RequestHeader, m.line(f))
	}
	for _, name := range sortedKeys(a.header) {
		for _, v := range a.header[name] {
			x.ResponseHeader = append(x.ResponseHeader, m.line(field{name, v}))
		}
	}
	x.ResponseBody = m.body(a.body)
	if a.err != nil {
		x.Error = m.hide(a.err.Error())
	}
	return x
}

// headerLines returns all lines of the headers that the function selects.
func headerLines(h http.Header, pick func(name string) bool) []string {
	var lines []string
	for _, name := range sortedKeys(h) {
		if pick(name) {
			for _, v := range h[name] {
				lines = append(lines, name+": "+v)
			}
		}
	}
	return lines
}

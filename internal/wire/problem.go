package wire

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// ProblemTypes is what a problem's type starts with; the code follows. The address is stable and names the
// kind of problem; it need not be fetched.
const ProblemTypes = "https://redo-go.github.io/redo/problems/"

// ContentTypeProblem is the media type of a problem document.
const ContentTypeProblem = "application/problem+json"

// A Problem is a problem document (RFC 9457) with two members of redo's own, code and retryable.
type Problem struct {
	// Type identifies the kind of problem. WriteProblem fills an empty one: ProblemTypes and the code, or
	// about:blank when there is no code either.
	Type string `json:"type"`
	// Title is a short phrase for the kind. WriteProblem fills an empty one with the status's own phrase.
	Title string `json:"title"`
	// Status is the HTTP status. WriteProblem answers 500 for one outside 400 to 599.
	Status int `json:"status"`
	// Detail tells of this occurrence, for a person.
	Detail string `json:"detail,omitempty"`
	// Code is the taxonomy's code.
	Code string `json:"code,omitempty"`
	// Retryable says whether the same request, under the same key, may succeed later.
	Retryable bool `json:"retryable"`
}

// UnmarshalJSON reads a problem document. A member of another type than the RFC gives it is ignored, as RFC
// 9457 section 3.1 asks; only a document that is no JSON object is an error.
func (p *Problem) UnmarshalJSON(b []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	*p = Problem{}
	for name, target := range map[string]any{
		"type": &p.Type, "title": &p.Title, "status": &p.Status,
		"detail": &p.Detail, "code": &p.Code, "retryable": &p.Retryable,
	} {
		if raw, ok := members[name]; ok {
			_ = json.Unmarshal(raw, target) // a value of the wrong type leaves the member unset
		}
	}
	return nil
}

// contentHeaders describe a body that WriteProblem replaces.
var contentHeaders = [...]string{
	"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location",
	"Content-Md5", "Content-Range", "Digest", "Etag", "Expires", "Last-Modified", "Content-Digest",
	"Location", "Repr-Digest", "Trailer", "Transfer-Encoding", HeaderStatus, HeaderReplayed,
}

// WriteProblem answers with p, as one body of known length that nobody may cache or take for another type,
// and with the code in the Error-Code header too. What the header says of an earlier body is taken out. Retry-After, and
// whatever else the caller has set, stays.
func WriteProblem(w http.ResponseWriter, p Problem) {
	if p.Status < 400 || p.Status > 599 {
		p.Status = http.StatusInternalServerError
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	if p.Type == "" {
		p.Type = "about:blank"
		if p.Code != "" {
			p.Type = ProblemTypes + p.Code
		}
	}
	body, err := json.Marshal(p)
	if err != nil { // strings, a number and a bool always marshal
		body = []byte("{}")
	}
	h := w.Header()
	for _, name := range contentHeaders {
		delete(h, name)
	}
	h.Set("Content-Type", ContentTypeProblem)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Code != "" {
		h.Set(HeaderErrorCode, p.Code)
	} else {
		h.Del(HeaderErrorCode)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the status is out: a client that is gone can't be told anything more
}

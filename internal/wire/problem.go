package wire

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// ProblemTypes is the start of a problem's type; the code follows. The URL is a stable name for the kind of problem.
// No client needs to fetch it.
const ProblemTypes = "https://redo-go.github.io/redo/problems/"

// ContentTypeProblem is the media type of a problem document.
const ContentTypeProblem = "application/problem+json"

// A Problem is a problem document (RFC 9457) with two additional members, code and retryable.
type Problem struct {
	// Type identifies the kind of problem. If it is empty WriteProblem sends ProblemTypes and the code, or about:blank
	// if there is no code either.
	Type string `json:"type"`
	// Title is a short phrase for the kind. If it is empty WriteProblem sends the phrase of the status.
	Title string `json:"title"`
	// Status is the HTTP status. WriteProblem sends 500 instead of a status outside 400 to 599.
	Status int `json:"status"`
	// Detail explains this occurrence to a person.
	Detail string `json:"detail,omitempty"`
	// Code is the taxonomy's code.
	Code string `json:"code,omitempty"`
	// Retryable is true if the same request under the same key may succeed later.
	Retryable bool `json:"retryable"`
}

// UnmarshalJSON implements json.Unmarshaler. It ignores a member of the wrong type (RFC 9457 section 3.1), which
// leaves the field zero. Its only error is that of a document that is not a JSON object.
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
		_ = json.Unmarshal(members[name], target) // no value, and one of the wrong type, leave the member unset
	}
	return nil
}

// contentHeaders lists the headers that describe a body, other than its length and type, or that mark a stored
// response.
var contentHeaders = [...]string{
	"Accept-Ranges", "Content-Disposition", "Content-Language", "Content-Location",
	"Content-Md5", "Content-Range", "Digest", "Etag", "Expires", "Last-Modified", "Content-Digest",
	"Location", "Repr-Digest", "Trailer", "Transfer-Encoding", HeaderStatus, HeaderReplayed,
}

// ClearContent removes the headers that describe a body, for a response that replaces another one. It keeps all others,
// and Content-Encoding: a layer outside that compresses has set it, and compresses the new body too.
func ClearContent(h http.Header) {
	for _, name := range contentHeaders {
		delete(h, name)
	}
	delete(h, "Content-Length")
	delete(h, "Content-Type")
}

// CloseConnection closes the connection after the response to r, because the rest of its body is not read. In HTTP/2
// and HTTP/3 other requests share the connection, and in HTTP/3 the header Connection is malformed (RFC 9114 section
// 4.2). Their servers end the request's stream.
func CloseConnection(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// WriteProblem sends p as the response, with its code in the Error-Code header too. The body has a Content-Length,
// must not be cached, and is not to be sniffed for another type. WriteProblem removes headers that describe another
// body. It keeps all other headers that the caller has set, such as Retry-After.
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
	body, _ := json.Marshal(p) // strings, a number and a bool always marshal
	h := w.Header()
	ClearContent(h)
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
	_, _ = w.Write(body) // the status is sent: a write error can't be reported any more
}

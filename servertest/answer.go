package servertest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// An answer is a response that was not put on the wire yet. As an http.ResponseWriter it takes what the service
// answers, whole: a fault then decides what becomes of it. Informational responses, flushes and trailers are
// not kept.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{header: make(http.Header)} }

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.header.Get("Content-Type") == "" {
		a.header.Set("Content-Type", http.DetectContentType(b))
	}
	return a.body.Write(b)
}

// Flush lets a handler that streams run; there is nothing to flush.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// settle completes the answer of a service that has returned.
func (a *answer) settle() *answer {
	a.WriteHeader(http.StatusOK)
	if a.hasBody() {
		a.header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	} else {
		a.body.Reset()
	}
	return a
}

func (a *answer) hasBody() bool {
	return a.status != http.StatusNoContent && a.status != http.StatusNotModified
}

// head returns the status line and the header with the empty line that ends it, apart, as they go on the wire.
func (a *answer) head() (status, header []byte) {
	line := fmt.Sprintf("HTTP/1.1 %03d %s\r\n", a.status, http.StatusText(a.status))
	var b bytes.Buffer
	_ = a.header.Write(&b) // a bytes.Buffer takes everything
	b.WriteString("\r\n")
	return []byte(line), b.Bytes()
}

// newTextAnswer is what something in front of the service answers: it knows nothing of problem documents.
func newTextAnswer(status int, contentType, body string) *answer {
	a := newAnswer()
	a.status = status
	a.header.Set("Content-Type", contentType)
	a.body.WriteString(body)
	return a.settle()
}

// newProblem is an answer in the form that the contract gives errors.
func newProblem(status int, code taxonomy.Code, detail string) *answer {
	a := newAnswer()
	wire.WriteProblem(a, wire.Problem{Status: status, Code: string(code), Detail: detail, Retryable: true})
	return a.settle()
}

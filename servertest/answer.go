package servertest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// An answer is a response that was not sent yet. It implements http.ResponseWriter and buffers the service's whole
// response. A fault then decides how to send it. Informational responses, flushes and trailers are not kept.
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

// Flush lets a streaming handler run. It has nothing to flush.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// settle completes the response of a service that has returned.
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

// head returns the status line, and separately the header with its final empty line, in wire format.
func (a *answer) head() (status, header []byte) {
	line := fmt.Sprintf("HTTP/1.1 %03d %s\r\n", a.status, http.StatusText(a.status))
	var b bytes.Buffer
	_ = a.header.Write(&b) // a bytes.Buffer never fails
	b.WriteString("\r\n")
	return []byte(line), b.Bytes()
}

// newTextAnswer returns the response of a component in front of the service, which does not use problem documents.
func newTextAnswer(status int, contentType, body string) *answer {
	a := newAnswer()
	a.status = status
	a.header.Set("Content-Type", contentType)
	a.body.WriteString(body)
	return a.settle()
}

// newProblem returns a response in the contract's format for errors.
func newProblem(status int, code taxonomy.Code, detail string) *answer {
	a := newAnswer()
	wire.WriteProblem(a, wire.Problem{Status: status, Code: string(code), Detail: detail, Retryable: true})
	return a.settle()
}

package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// answer is the result of a request: a response or an error.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	interim []int // the informational statuses before it
	err     error // set if there is no complete response

	resent   bool   // the response to the second sending, because the connection of the first one broke
	refusals int    // the number of earlier refusals because of load
	overload bool   // still refused because of load when patience ran out
	failed   bool   // an error with the status of a success, see Profile.read
	own      []byte // the body without its envelope, see Profile.read; nil if it has none
	excerpt  string // the start of the body, with secrets masked

	sent  time.Time // before the first byte was written
	first time.Time // when the status line was read; zero if there was none
	done  time.Time // after the last byte was read
}

// maxAnswer is the maximum number of bytes that are read of a response.
const maxAnswer = 64 << 20

var errTooLong = fmt.Errorf("the response has more than %d bytes", maxAnswer)

// read reads the response from a connection.
func (a *answer) read(conn io.Reader, method string) {
	// The part before the body is bounded too: the headers, and any sequence of informational responses.
	br := bufio.NewReader(io.LimitReader(conn, maxAnswer+1<<20))
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			a.fail(err)
			return
		}
		if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			a.interim = append(a.interim, resp.StatusCode)
			continue
		}
		a.first = time.Now()
		a.status, a.header = resp.StatusCode, resp.Header
		a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		_ = resp.Body.Close()
		switch {
		case err != nil:
			a.fail(err)
		case len(a.body) > maxAnswer:
			a.fail(errTooLong)
		}
		a.done = time.Now()
		return
	}
}

func (a *answer) fail(err error) {
	a.done = time.Now()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errClosed
	}
	a.err = err
}

var errClosed = errors.New("the connection was closed before a whole response had come")

// broke reports whether the connection ended before the whole response.
func (a *answer) broke() bool {
	var network *net.OpError
	return errors.Is(a.err, errClosed) || errors.As(a.err, &network) && !errors.Is(a.err, ErrUnreachable)
}

// dropped reports whether the connection ended before any part of a response. A server that keeps the rules may do
// that.
func (a *answer) dropped() bool { return a.broke() && a.first.IsZero() && len(a.interim) == 0 }

// ok reports whether the response is a success.
func (a *answer) ok() bool { return a.err == nil && a.status >= 200 && a.status < 300 && !a.failed }

// refused reports whether the response is a refusal: a 4xx, or an error with the status of a success.
func (a *answer) refused() bool {
	return a.err == nil && (a.status >= 400 && a.status < 500 || a.failed)
}

// String describes the response in a few words.
func (a *answer) String() string {
	switch {
	case a.err != nil:
		return "no response: " + a.err.Error()
	case a.code() != "":
		return fmt.Sprintf("%d, code %s", a.status, excerpt(string(a.code())))
	case len(a.body) == 0:
		return fmt.Sprintf("%d without a body", a.status)
	case a.excerpt == "":
		return fmt.Sprintf("%d with %d bytes", a.status, len(a.body))
	}
	return fmt.Sprintf("%d %s", a.status, a.excerpt)
}

// code returns redo's error code, from the header or from the problem document.
func (a *answer) code() taxonomy.Code {
	if a.err != nil || a.status < 400 {
		return ""
	}
	if c := a.header.Get(wire.HeaderErrorCode); c != "" {
		return taxonomy.Code(c)
	}
	var p wire.Problem
	if a.isProblem() && json.Unmarshal(a.body, &p) == nil {
		return taxonomy.Code(p.Code)
	}
	return ""
}

// isProblem reports whether the response's media type is that of a problem document.
func (a *answer) isProblem() bool {
	mediaType, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	mediaType = strings.TrimSpace(mediaType)
	return strings.EqualFold(mediaType, wire.ContentTypeProblem) || strings.EqualFold(mediaType, "application/problem+xml")
}

// aspect is a part of a response that distinguishes the result of one operation from another's.
type aspect string

const (
	aspectBody     aspect = "body"
	aspectLocation aspect = "Location"
	aspectETag     aspect = "ETag"
)

// differences returns the aspects in which two responses differ.
func differences(a, b *answer) []aspect {
	var d []aspect
	if !bytes.Equal(a.content(), b.content()) {
		d = append(d, aspectBody)
	}
	for _, name := range []aspect{aspectLocation, aspectETag} {
		if a.header.Get(string(name)) != b.header.Get(string(name)) {
			d = append(d, name)
		}
	}
	return d
}

// content returns the part of the decoded body that belongs to the operation.
func (a *answer) content() []byte {
	if a.own != nil {
		return a.own
	}
	return a.plainBody()
}

// plainBody returns the decoded body. If the coding is unreadable, it returns the body unchanged. A client that does
// not send Accept-Encoding may get any coding.
func (a *answer) plainBody() []byte {
	if a.header.Get("Content-Encoding") == "" {
		return a.body
	}
	plain, err := decoded(a)
	if err != nil {
		return a.body
	}
	return plain
}

// same reports whether two responses are equal in status and body.
func same(a, b *answer) bool {
	return a.err == nil && b.err == nil && a.status == b.status && bytes.Equal(a.content(), b.content())
}

package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// An answer is what came back for a request: a response, or an error.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	interim []int // the informational statuses before it
	err     error // there is no whole response

	sent  time.Time // before the first byte was written
	first time.Time // when the status line was read; zero if there was none
	done  time.Time // after the last byte was read
}

// maxAnswer is the longest response that is read, in bytes.
const maxAnswer = 64 << 20

var errTooLong = fmt.Errorf("the response has more than %d bytes", maxAnswer)

// read fills the answer from a connection.
func (a *answer) read(conn io.Reader, method string) {
	// What comes before the body is bounded too: headers, and informational responses one after the other.
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
		err = errors.New("the connection was closed before a whole response had come")
	}
	a.err = err
}

// ok reports a success.
func (a *answer) ok() bool { return a.err == nil && a.status >= 200 && a.status < 300 }

// refused reports a refusal: a 4xx.
func (a *answer) refused() bool { return a.err == nil && a.status >= 400 && a.status < 500 }

// String tells of the answer in a few words.
func (a *answer) String() string {
	if a.err != nil {
		return "no answer: " + a.err.Error()
	}
	s := fmt.Sprintf("%d with %d bytes", a.status, len(a.body))
	if code := a.code(); code != "" {
		s += ", code " + excerpt(string(code))
	}
	return s
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

// isProblem reports whether the answer says that it is a problem document.
func (a *answer) isProblem() bool {
	mediaType, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), wire.ContentTypeProblem)
}

// An aspect is a part of a response that tells one operation's result from another's.
type aspect string

const (
	aspectBody     aspect = "body"
	aspectLocation aspect = "Location"
	aspectETag     aspect = "ETag"
)

// differences returns the aspects in which two responses differ.
func differences(a, b *answer) []aspect {
	var d []aspect
	if !bytes.Equal(a.body, b.body) {
		d = append(d, aspectBody)
	}
	for _, name := range []aspect{aspectLocation, aspectETag} {
		if a.header.Get(string(name)) != b.header.Get(string(name)) {
			d = append(d, name)
		}
	}
	return d
}

// same reports whether two answers are equal in status and body. Headers have a case of their own.
func same(a, b *answer) bool {
	return a.err == nil && b.err == nil && a.status == b.status && bytes.Equal(a.body, b.body)
}

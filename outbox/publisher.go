package outbox

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// Publisher delivers events. [HTTP] returns one. The packages below broker have others.
type Publisher interface {
	// Publish delivers the event and returns nil once it is acknowledged. It must be safe for concurrent use and must
	// return when ctx ends. It must send the event's id in a form that lets the receiver deduplicate, because an event
	// may be published more than once.
	//
	// After an error the relay retries the event by its schedule. [Reject], [Gone] and [NotSent] mark errors with
	// another meaning. An error that is taxonomy.Duplicate, or a redo.Error with the effect Applied, is a success.
	Publish(ctx context.Context, ev Event) error
}

// PublisherFunc is a function that implements Publisher.
type PublisherFunc func(ctx context.Context, ev Event) error

// Publish calls f.
func (f PublisherFunc) Publish(ctx context.Context, ev Event) error { return f(ctx, ev) }

// Reject marks an error of a Publisher as final for the event: the event becomes a dead letter immediately. It
// returns nil if err is nil.
func Reject(err error) error { return marked(err, rejected) }

// Gone marks an error of a Publisher as final for the destination. The relay disables the destination, and its
// events wait for [Relay.Enable]. It returns nil if err is nil.
func Gone(err error) error { return marked(err, gone) }

// NotSent marks an error of a Publisher that sent nothing, such as a failed connection. The attempt is not
// counted, and the destination rests for up to a minute. It returns nil if err is nil.
func NotSent(err error) error { return marked(err, notSent) }

// Rejected is the code of a dead letter that [Reject] made from an error without a code.
const Rejected taxonomy.Code = "VALIDATION.rejected"

// verdict is the meaning of a Publisher's error.
type verdict uint8

const (
	delivered verdict = iota
	failed            // probably the destination's fault
	refused           // the destination responded, and did not accept this event
	notSent
	rejected
	gone
)

type mark struct {
	error
	verdict verdict
}

func (m *mark) Unwrap() error { return m.error }

func marked(err error, v verdict) error {
	if err == nil {
		return nil
	}
	return &mark{err, v}
}

// judge classifies the error of a Publisher.
func judge(err error) (verdict, taxonomy.Code) {
	if err == nil {
		return delivered, ""
	}
	code := redo.CodeOf(err)
	e, ours := errors.AsType[*redo.Error](err)
	m, isMarked := errors.AsType[*mark](err)
	switch {
	case code.In(taxonomy.Duplicate), ours && e.Effect == redo.Applied:
		return delivered, ""
	case isMarked && m.verdict == rejected && code == "":
		return rejected, Rejected
	case isMarked && code == "":
		return m.verdict, taxonomy.Transient
	case isMarked:
		return m.verdict, attemptCode(code)
	case ours:
		return judgeCall(e)
	case code == "" && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return failed, taxonomy.Timeout // the attempt's own
	case code == "":
		return failed, taxonomy.Transient
	}
	return failed, code
}

// judgeCall classifies the error of a call of a redo client.
func judgeCall(e *redo.Error) (verdict, taxonomy.Code) {
	code := attemptCode(e.Code)
	switch s := e.StatusCode; {
	case s == http.StatusGone:
		return gone, code
	case s == http.StatusTooManyRequests, s == http.StatusRequestTimeout, s >= http.StatusInternalServerError:
		return failed, code
	case s != 0:
		return refused, code
	case sends(e) > 0:
		return failed, code
	case code.In(taxonomy.Validation) && code != taxonomy.ClientClosed, code.In(taxonomy.Conflict),
		code == taxonomy.BadURL:
		return rejected, code // the client's own refusal of this event
	}
	return notSent, code
}

// attemptCode returns the code of an attempt. The client's caller is the relay, and the end of its context is the
// attempt's own timeout.
func attemptCode(code taxonomy.Code) taxonomy.Code {
	if code.In(taxonomy.Caller) && code != taxonomy.ClientClosed {
		return taxonomy.Timeout
	}
	return code
}

func sends(e *redo.Error) (n int) {
	for _, a := range e.Attempts {
		n += a.WireSends
	}
	return n
}

// statusError is a response that acknowledges nothing, without an error of the client.
type statusError struct {
	status int
	head   string
	code   taxonomy.Code
	text   string
}

func (e *statusError) Error() string { return e.text }
func (e *statusError) Unwrap() error { return e.code }

// failureOf describes a failed attempt.
func failureOf(err error, code taxonomy.Code, elapsed time.Duration) Failure {
	f := Failure{Code: code, Reason: wire.Clip(err.Error(), MaxReason), Elapsed: elapsed}
	if len(f.Code) > maxCode {
		f.Code = taxonomy.Transient
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		f.Status, f.Response = e.status, e.head
	} else if e, ok := errors.AsType[*redo.Error](err); ok {
		if f.Status = e.StatusCode; e.Response != nil {
			f.Response = headOf(e.Response.Body)
		}
	}
	return f
}

// headOf reads the first bytes of a response's body as text.
func headOf(body io.Reader) string {
	if body == nil {
		return ""
	}
	// The limit may cut a character, but only beyond MaxResponse.
	head, _ := io.ReadAll(io.LimitReader(body, MaxResponse+utf8.UTFMax))
	return wire.Clip(string(head), MaxResponse)
}

package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Codes that the middleware adds to those of package taxonomy. Each is terminal, as its family is.
const (
	// Unreadable: the stored response is damaged.
	Unreadable taxonomy.Code = "CONFIGURATION.stored_response"
	// Misconfigured: an option of the middleware is wrong, a handler outside of it has read the body, the handler wrote no
	// response, or the middleware runs twice.
	Misconfigured taxonomy.Code = "CONFIGURATION.middleware"
)

// problems are the responses that the middleware sends instead of the handler's. A title names the default key header.
var problems = map[taxonomy.Code]struct {
	status int
	title  string
}{
	taxonomy.KeyMissing:       {http.StatusBadRequest, "Idempotency-Key missing"},
	taxonomy.KeyMalformed:     {http.StatusBadRequest, "Idempotency-Key malformed"},
	taxonomy.BadRequest:       {http.StatusBadRequest, "Bad request"},
	taxonomy.Unauthenticated:  {http.StatusUnauthorized, "Not authenticated"},
	taxonomy.ContentTooLarge:  {http.StatusRequestEntityTooLarge, "Body too large"},
	taxonomy.PayloadMismatch:  {http.StatusConflict, "Idempotency-Key used for another request"},
	taxonomy.InFlight:         {http.StatusConflict, "Request in flight"},
	taxonomy.KeyExpired:       {http.StatusConflict, "Idempotency-Key expired"},
	taxonomy.ResultNotStored:  {http.StatusConflict, "Response not stored"},
	taxonomy.OutcomeUnknown:   {http.StatusConflict, "Outcome unknown"},
	taxonomy.Unavailable:      {http.StatusServiceUnavailable, "Temporarily unavailable"},
	taxonomy.NotFound:         {http.StatusNotFound, "Idempotency-Key unknown"},
	taxonomy.MethodNotAllowed: {http.StatusMethodNotAllowed, "Method not allowed"},
	taxonomy.Timeout:          {http.StatusGatewayTimeout, "Timed out"},
	Unreadable:                {http.StatusInternalServerError, "Stored response unreadable"},
	Misconfigured:             {http.StatusInternalServerError, "Misconfigured"},
}

// A Problem is a refusal: a response that the middleware sends in place of the handler's.
type Problem struct {
	Code       taxonomy.Code
	Status     int           // 400 or above
	Title      string        // a short phrase for the code
	Detail     string        // explains this occurrence to a person
	Retryable  bool          // the same request under the same key may succeed later
	RetryAfter time.Duration // the Retry-After header, in whole seconds; zero: there is none
	Key        string        // the key as the client sent it, unquoted; "" if there is none or it is malformed
}

// Write sends p as a problem document (RFC 9457), the format of a middleware without [Refusal]. It removes the headers
// that describe another body.
func (p Problem) Write(w http.ResponseWriter) {
	wire.WriteProblem(w, wire.Problem{
		Title: p.Title, Status: p.Status, Detail: p.Detail, Code: string(p.Code), Retryable: p.Retryable,
	})
}

// problem returns the refusal for a code. Two options change the status of a code.
func (c *config) problem(code taxonomy.Code, detail string) Problem {
	p := problems[code]
	if c.keyHeader != "" && c.keyHeader != wire.HeaderKey {
		p.title = strings.Replace(p.title, wire.HeaderKey, c.keyHeader, 1)
	}
	switch {
	case code == taxonomy.PayloadMismatch && c.ietfStatuses:
		p.status = http.StatusUnprocessableEntity
	case code == taxonomy.InFlight:
		p.status = c.inFlightStatus
	}
	return Problem{Title: p.title, Status: p.status, Detail: detail, Code: code, Retryable: code.Transient()}
}

// send sends the refusal in the format of the route, and returns the status that was sent.
func (c *config) send(w http.ResponseWriter, r *http.Request, p Problem) int {
	h := w.Header()
	if p.RetryAfter > 0 {
		h.Set(wire.HeaderRetryAfter, strconv.Itoa(int(p.RetryAfter/time.Second)))
	}
	if c.refusal == nil {
		p.Write(w)
		return p.Status
	}
	wire.ClearContent(h)
	h.Set(wire.HeaderErrorCode, string(p.Code))
	f := &refusalWriter{ResponseWriter: w, problem: p}
	c.refusal(f, r, p)
	if f.status == 0 {
		p.Write(w)
		return p.Status
	}
	return f.status
}

// A refusalWriter is the ResponseWriter of a Refusal function. It sends the problem's status in place of a success.
type refusalWriter struct {
	http.ResponseWriter
	problem Problem
	status  int // zero until one was sent
}

// WriteHeader implements http.ResponseWriter.
func (w *refusalWriter) WriteHeader(status int) {
	if status >= 100 && status < 200 {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if status < http.StatusBadRequest {
		status = w.problem.Status
	}
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *refusalWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(w.problem.Status)
	}
	return w.ResponseWriter.Write(b)
}

// FlushError is Flush for http.ResponseController. Without a status net/http would send 200.
func (w *refusalWriter) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(w.problem.Status)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap returns the ResponseWriter behind w, for http.ResponseController.
func (w *refusalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuse sends a refusal. If the client may retry, Retry-After is about a second.
func (c *execution) refuse(code taxonomy.Code, detail string) {
	var wait time.Duration
	if code.In(taxonomy.Dependency) {
		wait = time.Second
	}
	c.refuseFor(wait, code, detail)
}

// refuseFor sends a refusal. If wait is positive, Retry-After is about that time. It is spread at random, so that
// clients that came together do not retry together.
func (c *execution) refuseFor(wait time.Duration, code taxonomy.Code, detail string) {
	c.refuseAs(wait, c.problem(code, detail))
}

func (c *execution) refuseAs(wait time.Duration, p Problem) {
	p.Key = c.key
	if wait > 0 {
		p.RetryAfter = time.Duration(seconds(wait, random())) * time.Second
	}
	switch {
	case p.Code.In(taxonomy.Conflict):
		c.event.Kind = Conflicted
	case p.Code == taxonomy.Timeout && p.Status != http.StatusRequestTimeout:
		c.event.Kind = TimedOut
	case p.Code.In(taxonomy.Dependency) && p.Status != http.StatusRequestTimeout:
		c.event.Kind = Unavailable
	default:
		c.event.Kind = Refused
	}
	c.event.Code = p.Code
	c.event.Status = c.send(c.w, c.r, p)
}

// A refused is the reason for which a request is refused.
type refused struct {
	code   taxonomy.Code
	detail string
}

// refuseKey returns the refusal for a key that wire.ParseKey did not accept.
func (c *config) refuseKey(err error) *refused {
	if errors.Is(err, wire.ErrKeyMissing) {
		return &refused{
			taxonomy.KeyMissing, "This route requires the header " + c.keyHeader + ", and the request has none.",
		}
	}
	return &refused{taxonomy.KeyMalformed, "The header " + c.keyHeader + " is refused: " + plain(err) + "."}
}

// checkOwner checks the key by the route's own rules, and returns its principal, "" if the keys are shared.
func (c *config) checkOwner(r *http.Request, key string) (principal string, no *refused) {
	if err := c.checkFormat(key); err != nil {
		return "", &refused{taxonomy.KeyMalformed, "The key breaks a rule of this route: " + err.Error() + "."}
	}
	if c.principal == nil {
		return "", nil
	}
	if principal = c.principal(r); principal == "" {
		return "", &refused{taxonomy.Unauthenticated, "A key belongs to an authenticated principal, and there is none."}
	}
	return principal, nil
}

// unreadable returns the refusal for a stored response that can't be read. In a rolling deployment a process of a newer
// version can read it.
func unreadable(err error) *refused {
	if errors.Is(err, wire.ErrVersion) {
		return &refused{taxonomy.Unavailable, "The stored response was written by a newer version of this service."}
	}
	return &refused{Unreadable, "The stored response is damaged."}
}

func (c *execution) refuseBody(err error) {
	var outside *http.MaxBytesError
	var broken *net.OpError
	switch {
	case errors.Is(err, errBodyTooLarge), errors.As(err, &outside):
		limit, of := int64(c.maxBody), "the option MaxBody"
		if outside != nil {
			limit, of = outside.Limit, "a layer in front of this route"
		}
		detail := fmt.Sprintf("The body is longer than the %d bytes that %s allows", limit, of)
		if limit == 0 && outside != nil {
			detail = "The body is too large" // a framework's limit, whose value is not known
		} else if n := c.r.ContentLength; n > limit {
			detail += fmt.Sprintf(": it has %d", n)
		}
		wire.CloseConnection(c.w, c.r)
		c.refuse(taxonomy.ContentTooLarge, detail+".")
	case errors.Is(err, errBodyConsumed):
		c.refuse(Misconfigured, "The body was read before the idempotency middleware saw it.")
	case errors.Is(err, os.ErrDeadlineExceeded): // the ReadTimeout of the http.Server
		wire.CloseConnection(c.w, c.r)
		p := c.problem(taxonomy.Timeout, "The body did not arrive in time.")
		p.Status, p.Title = http.StatusRequestTimeout, "Request timed out"
		c.refuseAs(time.Second, p)
	case errors.As(err, &broken):
		c.refuse(taxonomy.BadRequest, "The body could not be read.") // the error has addresses
	default:
		c.refuse(taxonomy.BadRequest, "The body could not be read: "+plain(err)+".")
	}
}

func (c *execution) refuseOld() {
	c.refuse(taxonomy.KeyExpired, "The key is older than the "+c.retention.String()+
		" for which outcomes are kept, and none is known: read back before sending the request under a new key.")
}

func (c *execution) refuseInFlight(rec store.Record) {
	c.refuseFor(retryDelay(rec.LeaseLeft(), c.duration.value()), taxonomy.InFlight,
		"The first request with this key is still running.")
}

// storeDown ends a request if the store failed before anything was done.
func (c *execution) storeDown(err error) {
	c.err = err
	switch {
	case errors.Is(err, store.ErrInvalid):
		c.refuse(Misconfigured, "The store refuses the claim.")
	case c.failOpen && !c.used:
		c.runUntracked()
	default:
		c.refuse(taxonomy.Unavailable, "The key can't be reserved now. This request was not run.")
	}
}

// refuseAll returns the handler of a middleware with wrong options. It sends the error in place of every response.
func (c *config) refuseAll(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.send(w, r, c.problem(Misconfigured, err.Error()))
	})
}

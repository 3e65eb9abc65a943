package server

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Codes of this package's own. Each is terminal, as its family is.
const (
	// Unreadable: the stored response is of a version that this one does not read, or is damaged.
	Unreadable taxonomy.Code = "CONFIGURATION.stored_response"
	// Misconfigured: the middleware was given wrong options, or its request by a handler that read the body.
	Misconfigured taxonomy.Code = "CONFIGURATION.middleware"
)

// problems are the responses that the middleware sends instead of the handler's. A title names the default key header.
var problems = map[taxonomy.Code]struct {
	status int
	title  string
}{
	taxonomy.KeyMissing:      {http.StatusBadRequest, "Idempotency-Key missing"},
	taxonomy.KeyMalformed:    {http.StatusBadRequest, "Idempotency-Key malformed"},
	taxonomy.BadRequest:      {http.StatusBadRequest, "Bad request"},
	taxonomy.Unauthenticated: {http.StatusUnauthorized, "Not authenticated"},
	taxonomy.ContentTooLarge: {http.StatusRequestEntityTooLarge, "Body too large"},
	taxonomy.PayloadMismatch: {http.StatusConflict, "Idempotency-Key used for another request"},
	taxonomy.InFlight:        {http.StatusConflict, "Request in flight"},
	taxonomy.KeyExpired:      {http.StatusConflict, "Idempotency-Key expired"},
	taxonomy.ResultNotStored: {http.StatusConflict, "Response not stored"},
	taxonomy.OutcomeUnknown:  {http.StatusConflict, "Outcome unknown"},
	taxonomy.Unavailable:     {http.StatusServiceUnavailable, "Temporarily unavailable"},
	taxonomy.Timeout:         {http.StatusGatewayTimeout, "Timed out"},
	Unreadable:               {http.StatusInternalServerError, "Stored response unreadable"},
	Misconfigured:            {http.StatusInternalServerError, "Misconfigured"},
}

// problem makes the document. The status follows from the code, save for the two that options move.
func (c *config) problem(code taxonomy.Code, detail string) wire.Problem {
	p := problems[code]
	if c.keyHeader != wire.HeaderKey {
		p.title = strings.Replace(p.title, wire.HeaderKey, c.keyHeader, 1)
	}
	switch {
	case code == taxonomy.PayloadMismatch && c.ietfStatuses:
		p.status = http.StatusUnprocessableEntity
	case code == taxonomy.InFlight:
		p.status = c.inFlightStatus
	}
	return wire.Problem{Title: p.title, Status: p.status, Detail: detail, Code: string(code), Retryable: code.Transient()}
}

// refuse answers in the handler's place.
func (c *execution) refuse(code taxonomy.Code, detail string) {
	p := c.problem(code, detail)
	c.event.Code, c.event.Status = code, p.Status
	switch {
	case code.In(taxonomy.Conflict):
		c.event.Kind = Conflicted
	case code.In(taxonomy.Dependency):
		c.event.Kind = Unavailable
	default:
		c.event.Kind = Refused
	}
	if code.In(taxonomy.Dependency) {
		c.retryAfter(time.Second)
	}
	wire.WriteProblem(c.w, p)
}

// retryAfter asks the client to come back in about d, spread so that clients that came together don't come back
// together.
func (c *execution) retryAfter(d time.Duration) {
	c.w.Header().Set(wire.HeaderRetryAfter, strconv.Itoa(seconds(d, random())))
}

func (c *execution) refuseKey(err error) {
	if errors.Is(err, wire.ErrKeyMissing) {
		c.refuse(taxonomy.KeyMissing, "This route requires the header "+c.keyHeader+", and the request has none.")
		return
	}
	c.refuse(taxonomy.KeyMalformed, "The header "+c.keyHeader+" is refused: "+plain(err)+".")
}

func (c *execution) refuseBody(err error) {
	var outside *http.MaxBytesError
	switch {
	case errors.Is(err, errBodyTooLarge), errors.As(err, &outside):
		// What is left of the body is not worth reading.
		c.w.Header().Set("Connection", "close")
		c.refuse(taxonomy.ContentTooLarge, "The body has more than "+strconv.Itoa(c.maxBody)+" bytes.")
	case errors.Is(err, errBodyConsumed):
		c.refuse(Misconfigured, "The body was read before the idempotency middleware saw it.")
	default:
		c.refuse(taxonomy.BadRequest, "The body could not be read: "+plain(err)+".")
	}
}

func (c *execution) refuseOld() {
	c.refuse(taxonomy.KeyExpired, "The key is older than the "+c.retention.String()+
		" for which outcomes are kept, and none is known: read back before sending the request under a new key.")
}

func (c *execution) refuseInFlight(rec store.Record) {
	c.retryAfter(comeBack(rec.LeaseLeft(), c.duration.value()))
	c.refuse(taxonomy.InFlight, "The first request with this key is still running.")
}

// storeDown answers when the store did not, before anything was done.
func (c *execution) storeDown(err error) {
	c.err = err
	switch {
	case errors.Is(err, store.ErrInvalid):
		c.refuse(Misconfigured, "The store refuses the claim.")
	case c.failOpen:
		c.runUntracked()
	default:
		c.refuse(taxonomy.Unavailable, "The key can't be reserved now. Nothing was done.")
	}
}

// refuseAll is the handler that a wrong configuration leaves.
func refuseAll(err error) http.Handler {
	var none config
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		wire.WriteProblem(w, none.problem(Misconfigured, err.Error()))
	})
}

package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// DefaultKeep is the default of [Keep]. It returns true for the refusals that a retry would get again: every status
// from 400 to 499 but 401, 403, 407, 408, 425, 429 and 499. After a 401, 403 or 407 the caller can retry with other
// credentials. After the others a plain retry can succeed. A response of 500 or above is not stored.
func DefaultKeep(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, statusClientGone:
		return false
	}
	return status < http.StatusInternalServerError
}

// statusClientGone is what some servers and frameworks write for a client that has disconnected.
const statusClientGone = 499

// keepsResponse reports whether the handler's response is stored, unless the handler overrides it. A refusal whose
// Error-Code is transient requests a retry, which must not get it again. A handler that passes the request on sends
// such a refusal, when the service behind it is still at work under the same key.
func (c *execution) keepsResponse() bool {
	if c.out.status >= http.StatusBadRequest && taxonomy.Code(c.out.header.Get(wire.HeaderErrorCode)).Transient() {
		return false
	}
	return c.keeps(c.out.status)
}

// keeps reports whether a response with this status may be stored.
func (c *config) keeps(status int) bool {
	switch {
	case status == http.StatusTemporaryRedirect, status == http.StatusPermanentRedirect:
		return false // nothing was done: the client sends the same request, with its key, to another path
	case status < http.StatusBadRequest:
		return true
	}
	return c.keep(status)
}

// KeepFor sets how long this response is kept, counted from its end, in place of the rest of the route's [Retention].
// It may be shorter or longer than that. A client that retries later runs the handler again. RefuseExpiredKeys knows
// only the route's retention. Of several calls the last one counts. It does nothing for a request without a key. The
// record of a handler whose response is not stored, such as one that panicked after its effect, is kept no shorter
// than the route's retention. If d is not positive, KeepFor changes nothing and returns an error that wraps
// store.ErrInvalid.
func KeepFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("server: KeepFor: %w: %v is not positive", store.ErrInvalid, d)
	}
	if c := callOf(ctx); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keepFor = d
	}
	return nil
}

// keptFor returns the retention that the handler has set, or zero for that of the route. A result that is no response
// is kept at least as long as the route keeps one: the handler must not run again.
func (c *execution) keptFor(result []byte) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keepFor > 0 && c.keepFor < c.retention {
		if _, err := wire.DecodeResponse(result); err != nil {
			return 0
		}
	}
	return c.keepFor
}

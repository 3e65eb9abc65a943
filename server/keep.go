package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/redo-go/redo/store"
)

// DefaultKeep is the default of [Keep]. It returns true for the refusals that a retry would get again: every status
// from 400 to 499 but 401, 403, 407, 408, 425 and 429. After a 401, 403 or 407 the caller can retry with other
// credentials. After the others a plain retry can succeed. A response of 500 or above is not stored.
func DefaultKeep(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < http.StatusInternalServerError
}

// keeps reports whether a response with this status is stored, unless the handler overrides it.
func (c *config) keeps(status int) bool {
	return status < http.StatusBadRequest || c.keep(status)
}

// KeepFor sets how long this response is kept, counted from its end, in place of the rest of the route's [Retention].
// It may be shorter or longer than that. A client that retries later runs the handler again. RefuseExpiredKeys knows
// only the route's retention. Of several calls the last one counts. It does nothing for a request without a key, and
// for a response that is not stored. If d is not positive, KeepFor changes nothing and returns an error that wraps
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

// keptFor returns the retention that the handler has set, or zero for that of the route.
func (c *execution) keptFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keepFor
}

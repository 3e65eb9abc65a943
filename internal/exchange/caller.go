package exchange

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Ended returns the error of the caller's context, with its cause. It returns nil if the context has not ended. r is
// the caller's request.
func Ended(r *http.Request) error {
	ctx := r.Context()
	err := ctx.Err()
	if err == nil {
		select {
		case <-r.Cancel: //nolint:staticcheck // an http.Client above with a Timeout closes it at its context's deadline
			if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
				return context.DeadlineExceeded
			}
			return context.Canceled
		default:
			return nil
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		return errors.Join(cause, err)
	}
	return context.Cause(ctx)
}

// WithReason joins the error of the caller's context with the error that followed. It omits a reason that err contains
// already. r is the caller's request.
func WithReason(r *http.Request, reason, err error) error {
	ended := r.Context().Err()
	switch {
	case err == nil, errors.Is(reason, err):
		return reason
	case errors.Is(err, reason):
		return err
	case ended != nil && errors.Is(err, ended):
		return errors.Join(context.Cause(r.Context()), err)
	}
	return errors.Join(reason, err)
}

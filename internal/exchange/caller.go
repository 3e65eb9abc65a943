package exchange

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/redo-go/redo/taxonomy"
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
	cause, _ := causeOf(ctx)
	if !errors.Is(cause, err) {
		return errors.Join(cause, err)
	}
	return cause
}

// causeOf returns the cause of the context's end. A failed call often cancels others with its own error, as
// errgroup.WithContext does. The codes in that error make no claim about the other calls. Then foreign is true, and the
// cause has only the error's text.
func causeOf(ctx context.Context) (cause error, foreign bool) {
	cause = context.Cause(ctx)
	if _, foreign = errors.AsType[taxonomy.Code](cause); foreign {
		cause = errors.New(cause.Error())
	}
	return cause, foreign
}

// WithReason joins the error of the caller's context with the error that followed. It omits a reason that err contains
// already, and an err that contains another call's error. r is the caller's request.
func WithReason(r *http.Request, reason, err error) error {
	ended := r.Context().Err()
	cause, foreign := causeOf(r.Context())
	switch {
	case err == nil, errors.Is(reason, err), foreign && errors.Is(err, context.Cause(r.Context())):
		return reason
	case errors.Is(err, reason):
		return err
	case ended != nil && errors.Is(err, ended):
		return errors.Join(cause, err)
	}
	return errors.Join(reason, err)
}

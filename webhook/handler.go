package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// Handler calls next for deliveries that verify. It refuses all others with a problem document (RFC 9457):
//
//	400  a header is missing or malformed, or the body can't be read
//	401  the signature matches no secret, or has a version that no secret covers
//	401  the timestamp is too old or too new; the code is [ClockSkew], and a later attempt may succeed
//	413  the body is over [MaxBody]
//	503  the [SecretsFunc] failed; a later attempt may succeed
//
// next finds the delivery with [FromContext], and can read the body. [Refused] observes refusals.
func (v *Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := r.WithContext(r.Context()) // Verify replaces the body, and the request is the caller's
		d, err := v.Verify(own)
		if err != nil {
			v.refused(r, err)
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, own.WithContext(context.WithValue(r.Context(), deliveryKey{}, d)))
	})
}

// FromContext returns the delivery that [Verifier.Handler] has verified. ok is false outside of that handler.
func FromContext(ctx context.Context) (d Delivery, ok bool) {
	d, ok = ctx.Value(deliveryKey{}).(Delivery)
	return d, ok
}

type deliveryKey struct{}

// refuse writes the response to a delivery that is not verified.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := wire.Problem{Status: http.StatusBadRequest, Title: "Malformed delivery"}
	code := taxonomy.BadRequest
	why := strings.TrimPrefix(err.Error(), "webhook: ")
	_, outside := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, ErrSecretsUnavailable):
		p.Status, p.Title, code = http.StatusServiceUnavailable, "Temporarily unavailable", taxonomy.Unavailable
		p.Retryable = true
		why = "its secrets can't be found now" // the cause is the consumer's own
	case errors.Is(err, ErrTooLarge), outside:
		p.Status, p.Title, code = http.StatusRequestEntityTooLarge, "Body too large", taxonomy.ContentTooLarge
		if outside {
			why = "its body is too large"
		}
		wire.CloseConnection(w, r)
	case errors.Is(err, ErrBody):
		why = "its body could not be read whole" // the cause may name addresses, and the sender is not authenticated
	case errors.Is(err, ErrTooOld), errors.Is(err, ErrTooNew):
		p.Status, p.Title, code = http.StatusUnauthorized, "Clocks differ", ClockSkew
		p.Retryable = true
	case errors.Is(err, ErrUnknownVersion), errors.Is(err, ErrNoMatch):
		p.Status, p.Title, code = http.StatusUnauthorized, "Not authenticated", taxonomy.Unauthenticated
	}
	p.Code = string(code)
	p.Detail = "The delivery is refused: " + why + "."
	wire.WriteProblem(w, p)
}

package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/redo-go/redo/internal/wire"
)

// Codes of the answers, as the taxonomy has them.
const (
	codeUnauthenticated = "AUTH.unauthenticated"
	codeBadRequest      = "VALIDATION.bad_request"
	codeTooLarge        = "VALIDATION.content_too_large"
)

// Handler runs next for deliveries that verify, and answers all others with a problem document (RFC 9457): 400 for a
// header that is missing or malformed and for a body that can't be read, 401 for a signature that is too old, too new,
// of a version that is not covered or of no known secret, 413 for a body over [MaxBody].
//
// next finds the delivery with [FromContext], and reads the body as if nobody had.
func (v *Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := r.WithContext(r.Context()) // Verify replaces the body, and the request is the caller's
		d, err := v.Verify(own)
		if err != nil {
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, own.WithContext(context.WithValue(r.Context(), deliveryKey{}, d)))
	})
}

// FromContext returns the delivery that [Verifier.Handler] verified; ok is false outside of it.
func FromContext(ctx context.Context) (d Delivery, ok bool) {
	d, ok = ctx.Value(deliveryKey{}).(Delivery)
	return d, ok
}

type deliveryKey struct{}

// refuse answers in the handler's place.
func refuse(w http.ResponseWriter, err error) {
	p := wire.Problem{Status: http.StatusBadRequest, Title: "Malformed delivery", Code: codeBadRequest}
	why := strings.TrimPrefix(err.Error(), "webhook: ")
	_, outside := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, ErrTooLarge), outside:
		p.Status, p.Title, p.Code = http.StatusRequestEntityTooLarge, "Body too large", codeTooLarge
		if outside {
			why = "its body is too large"
		}
		// What is left of the body is not worth reading.
		w.Header().Set("Connection", "close")
	case errors.Is(err, ErrBody):
		why = "its body could not be read whole" // the cause may name addresses, and nobody has been authenticated
	case errors.Is(err, ErrTooOld), errors.Is(err, ErrTooNew), errors.Is(err, ErrUnknownVersion), errors.Is(err, ErrNoMatch):
		p.Status, p.Title, p.Code = http.StatusUnauthorized, "Not authenticated", codeUnauthenticated
	}
	p.Detail = "The delivery is refused: " + why + "."
	wire.WriteProblem(w, p)
}

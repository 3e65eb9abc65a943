// Package redoconnect puts redo's middleware in front of connect-go handlers.
//
//	mw, err := server.New(st, server.Principal(user), server.Refusal(redoconnect.Refusal()))
//	mux.Handle("POST "+paymentv1connect.PaymentServiceChargeProcedure, redoconnect.Handler(mw, payments))
//
// Give it to each procedure that has an effect, by the procedure's own path, which is then the scope of its keys.
// Clients speak connect's unary protocol: gRPC sends errors in trailers, and no record keeps those.
package redoconnect

import (
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/redo-go/redo/server"
)

// ErrorCode is the header of a refusal, and so the metadata key of its connect error, that carries redo's code.
const ErrorCode = "Error-Code"

var errUnary = errors.New("this procedure serves only the unary protocol of connect, because it keeps its responses")

// Handler returns the connect handler h behind mw, made by server.New or server.Middleware. A request of gRPC,
// gRPC-Web or a stream is refused with CodeUnimplemented, and h does not run.
func Handler(mw func(http.Handler) http.Handler, h http.Handler, opts ...connect.HandlerOption) http.Handler {
	unary, refusals := mw(h), connect.NewErrorWriter(opts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		media := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Type"))) // as connect reads it
		if strings.HasPrefix(media, "application/grpc") || strings.HasPrefix(media, "application/connect+") {
			_ = refusals.Write(w, r, connect.NewError(connect.CodeUnimplemented, errUnary))
			return
		}
		unary.ServeHTTP(w, r)
	})
}

// Refusal returns an argument for server.Refusal that renders refusals as connect errors. The error's metadata has
// redo's code under [ErrorCode], and Retry-After where a retry may succeed.
func Refusal(opts ...connect.HandlerOption) func(http.ResponseWriter, *http.Request, server.Problem) {
	writer := connect.NewErrorWriter(opts...)
	return func(w http.ResponseWriter, r *http.Request, p server.Problem) {
		_ = writer.Write(w, r, connect.NewError(codeOf(p), errors.New(p.Title+": "+p.Detail)))
	}
}

// codeOf returns the code whose meaning, and whose advice to retry, is the refusal's.
func codeOf(p server.Problem) connect.Code {
	switch p.Status {
	case http.StatusBadRequest:
		return connect.CodeInvalidArgument
	case http.StatusUnauthorized:
		return connect.CodeUnauthenticated
	case http.StatusForbidden:
		return connect.CodePermissionDenied
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return connect.CodeResourceExhausted
	case http.StatusServiceUnavailable:
		return connect.CodeUnavailable
	case http.StatusGatewayTimeout:
		return connect.CodeDeadlineExceeded
	case http.StatusInternalServerError:
		return connect.CodeInternal
	}
	if p.Retryable {
		return connect.CodeAborted // in flight: the same request again
	}
	return connect.CodeFailedPrecondition
}

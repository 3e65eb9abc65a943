package plain

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdaurl"

	"github.com/redo-go/redo/server/framework/internal/frametest"
)

func TestLambdaURL(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string {
			mux := http.NewServeMux()
			for path, h := range routes(a) {
				mux.Handle("POST "+path, a.Middleware(h))
			}
			handler := recoverer(authenticate(mux))
			platform := http.NewServeMux()
			platform.Handle("/", functionURL(handler))
			platform.Handle("/hints", handler) // lambdaurl takes a 1xx for the final status
			return frametest.Serve(t, platform)
		},
		Principal: principal,
	})
}

// functionURL serves a handler as the platform does: through events, with each body in base64, as those of forms.
func functionURL(h http.Handler) http.Handler {
	function := lambdaurl.Wrap(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		event := &events.LambdaFunctionURLRequest{
			RawPath: r.URL.Path, RawQueryString: r.URL.RawQuery, Headers: map[string]string{},
			Body: base64.StdEncoding.EncodeToString(body), IsBase64Encoded: true,
		}
		event.RequestContext.DomainName = "shop.example"
		event.RequestContext.HTTP.Method = r.Method
		for name, list := range r.Header {
			event.Headers[strings.ToLower(name)] = strings.Join(list, ",")
		}
		resp, err := function(r.Context(), event)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		for name, value := range resp.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
}

package plain

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdaurl"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/server/framework/internal/frametest"
	"github.com/redo-go/redo/store/memstore"
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

// sortQuery is for httpadapter, which makes the query of a REST API's or a load balancer's event from a map.
func sortQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.RawQuery = r.URL.Query().Encode()
		next.ServeHTTP(w, r)
	})
}

// Without it a retry whose parameters come in another order is another request.
func TestASortedQueryHasNoOrder(t *testing.T) {
	for name, test := range map[string]struct {
		outside func(http.Handler) http.Handler
		status  int
	}{
		"sorted":  {sortQuery, http.StatusOK},
		"as sent": {func(h http.Handler) http.Handler { return h }, http.StatusConflict},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := server.New(memstore.New(), server.SharedKeys(), server.SilentOK())
			if err != nil {
				t.Fatal(err)
			}
			runs := 0
			h := test.outside(mw(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ })))
			frametest.Post(h, "/charges?currency=EUR&region=eu")
			if status := frametest.Post(h, "/charges?region=eu&currency=EUR"); status != test.status || runs != 1 {
				t.Errorf("status %d, %d runs, want %d and one run", status, runs, test.status)
			}
		})
	}
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

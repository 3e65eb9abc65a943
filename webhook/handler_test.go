package webhook_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

func TestTheHandlerRunsForVerifiedDeliveriesOnly(t *testing.T) {
	var refusals []string
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)}, atVectorTime(), webhook.MaxBody(64),
		webhook.Refused(func(r *http.Request, err error) { refusals = append(refusals, r.URL.Path+" "+err.Error()) }))
	for _, c := range []struct {
		name   string
		change func(*http.Request) *http.Request
		status int
		code   taxonomy.Code
		detail string
	}{
		{"good", func(r *http.Request) *http.Request { return r }, http.StatusAccepted, "", ""},
		{"no signature", header("webhook-signature", ""), http.StatusBadRequest, taxonomy.BadRequest,
			"webhook-signature is missing"},
		{"malformed id", header("webhook-id", "."), http.StatusBadRequest, taxonomy.BadRequest,
			"webhook-id is malformed: byte 0 is a full stop, which separates the signed parts"},
		{"old", header("webhook-timestamp", "1614265029"), http.StatusUnauthorized, webhook.ClockSkew,
			"webhook-timestamp is too old: 1614265029 is 301 seconds before the verifier's clock, 1614265330; " +
				"at most 300 are allowed"},
		{"new", header("webhook-timestamp", "1614265631"), http.StatusUnauthorized, webhook.ClockSkew,
			"webhook-timestamp is too new: 1614265631 is 301 seconds after the verifier's clock, 1614265330; " +
				"at most 300 are allowed"},
		{"unknown version", header("webhook-signature", "v3,x"), http.StatusUnauthorized, taxonomy.Unauthenticated,
			"webhook-signature has no signature of a version that is verified here"},
		{"forged", header("webhook-signature", otherSignature), http.StatusUnauthorized, taxonomy.Unauthenticated,
			"webhook-signature matches no secret"},
		{"large", body(strings.Repeat("x", 65)), http.StatusRequestEntityTooLarge, taxonomy.ContentTooLarge,
			"body too large: it has more than 64 bytes"},
		{"large for a wrapper", func(r *http.Request) *http.Request {
			r.Body = http.MaxBytesReader(nil, r.Body, 3)
			return r
		}, http.StatusRequestEntityTooLarge, taxonomy.ContentTooLarge, "its body is too large"},
		{"short", func(r *http.Request) *http.Request {
			r.ContentLength = 21
			return r
		}, http.StatusBadRequest, taxonomy.BadRequest, "its body could not be read whole"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ran := false
			refusals = nil
			h := v.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ran = true
				d, ok := webhook.FromContext(r.Context())
				require.True(t, ok)
				require.Equal(t, vectorID, d.ID)
				read, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				require.Equal(t, vectorBody, string(read))
				w.WriteHeader(http.StatusAccepted)
			}))
			r := c.change(post(strings.NewReader(vectorBody)))
			before := r.Body
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.status == http.StatusAccepted, ran)
			require.Equal(t, before, r.Body, "the caller's request is not changed")
			if c.code == "" {
				require.Empty(t, refusals)
				return
			}
			require.Len(t, refusals, 1)
			require.Contains(t, refusals[0], "/webhooks webhook: ")
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			var p struct {
				Code, Detail string
				Retryable    bool
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			require.Equal(t, string(c.code), p.Code)
			require.Equal(t, "The delivery is refused: "+c.detail+".", p.Detail)
			require.Equal(t, c.code == webhook.ClockSkew, p.Retryable)
		})
	}
	_, ok := webhook.FromContext(t.Context())
	require.False(t, ok)
}

// In HTTP/3 the header is malformed, and in HTTP/2 other requests share the connection.
func TestADeliveryThatIsTooLargeClosesAConnectionOfHTTP1(t *testing.T) {
	v := verifier(t, []webhook.Secret{secret(t, sharedSecret)}, atVectorTime(), webhook.MaxBody(64))
	for major, want := range map[int]string{1: "close", 2: "", 3: ""} {
		w, r := httptest.NewRecorder(), post(strings.NewReader(strings.Repeat("x", 65)))
		r.ProtoMajor = major
		v.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
		require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
		require.Equal(t, want, w.Header().Get("Connection"))
	}
}

func header(name, value string) func(*http.Request) *http.Request {
	return func(r *http.Request) *http.Request {
		r.Header = vectorHeader(name, value)
		return r
	}
}

func body(s string) func(*http.Request) *http.Request {
	return func(*http.Request) *http.Request { return post(strings.NewReader(s)) }
}

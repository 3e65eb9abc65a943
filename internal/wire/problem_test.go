package wire

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteProblem(t *testing.T) {
	t.Run("the document, the code and the length are written", func(t *testing.T) {
		w := httptest.NewRecorder()
		WriteProblem(w, Problem{
			Status: 409, Title: "In flight", Detail: "wait", Code: "CONFLICT.idempotency.in_flight", Retryable: true,
		})
		require.Equal(t, 409, w.Code)
		require.JSONEq(t, `{"type":"https://redo-go.github.io/redo/problems/CONFLICT.idempotency.in_flight",
			"title":"In flight","status":409,"detail":"wait","code":"CONFLICT.idempotency.in_flight","retryable":true}`, w.Body.String())
		h := w.Result().Header
		require.Equal(t, "application/problem+json", h.Get("Content-Type"))
		require.Equal(t, "CONFLICT.idempotency.in_flight", h.Get("Error-Code"))
		require.Equal(t, "no-store", h.Get("Cache-Control"))
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.EqualValues(t, w.Body.Len(), w.Result().ContentLength)
	})
	t.Run("headers of another body are taken out, hints stay", func(t *testing.T) {
		w := httptest.NewRecorder()
		h := w.Header()
		for _, name := range contentHeaders {
			h.Set(name, "stale")
		}
		h.Set("Error-Code", "stale")
		h.Set("Retry-After", "3")
		WriteProblem(w, Problem{Status: 503})
		for _, name := range contentHeaders {
			require.NotContains(t, h, name)
		}
		require.NotContains(t, h, "Error-Code")
		require.Equal(t, "3", h.Get("Retry-After"))
		require.JSONEq(t, `{"type":"about:blank","title":"Service Unavailable","status":503,"retryable":false}`,
			w.Body.String())
	})
	t.Run("a status that is no error becomes 500", func(t *testing.T) {
		for _, status := range []int{0, -1, 200, 399, 600} {
			w := httptest.NewRecorder()
			WriteProblem(w, Problem{Status: status})
			require.Equal(t, 500, w.Code)
		}
		for _, status := range []int{400, 599} {
			w := httptest.NewRecorder()
			WriteProblem(w, Problem{Status: status})
			require.Equal(t, status, w.Code)
		}
	})
}

func TestProblemUnmarshal(t *testing.T) {
	t.Run("a written problem is read back", func(t *testing.T) {
		want := Problem{Type: "t", Title: "T", Status: 409, Detail: "d", Code: "c", Retryable: true}
		b, err := json.Marshal(want)
		require.NoError(t, err)
		var got Problem
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, want, got)
		require.NoError(t, json.Unmarshal([]byte(`{}`), &got))
		require.Equal(t, Problem{}, got, "nothing of the problem before is left")
	})
	t.Run("a member of the wrong type is ignored and the others are read", func(t *testing.T) {
		var got Problem
		require.NoError(t,
			json.Unmarshal([]byte(`{"type":1,"title":null,"status":"409","detail":[],"code":"C","retryable":"yes"}`),
				&got))
		require.Equal(t, Problem{Code: "C"}, got)
	})
	t.Run("a body that is no object is an error", func(t *testing.T) {
		for _, s := range []string{`[]`, `"x"`, `1`, `{`} {
			require.Error(t, json.Unmarshal([]byte(s), new(Problem)), s)
		}
	})
}

func TestClearContentRemovesWhatDescribesABody(t *testing.T) {
	h := http.Header{
		"Content-Type": {"text/plain"}, "Content-Length": {"2"}, "Etag": {"x"}, "Location": {"/1"},
		"Retry-After": {"1"}, "X-Own": {"kept"}, "Content-Encoding": {"gzip"},
	}
	ClearContent(h)
	require.Equal(t, http.Header{"Retry-After": {"1"}, "X-Own": {"kept"}, "Content-Encoding": {"gzip"}}, h)
}

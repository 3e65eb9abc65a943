package frametest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// RemovesFiles requires that no temporary file of a form is left, with and without a key. app returns the framework
// with a handler of POST /receipts behind the middleware. The handler calls parse, and then responds with 201.
func RemovesFiles(t *testing.T, app func(parse func(*http.Request)) http.Handler) {
	t.Helper()
	for _, key := range []string{"", "k"} {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		t.Setenv("TMP", dir) // on Windows
		files := func() int {
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			return len(left)
		}
		srv := httptest.NewServer(app(func(r *http.Request) {
			require.NoError(t, r.ParseMultipartForm(1))
			require.Equal(t, 1, files())
		}))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/receipts", strings.NewReader(
			"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nreceipt\r\n--b--\r\n"))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		resp, err := srv.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusCreated, resp.StatusCode)
		srv.Close() // net/http removes them when it has sent the response
		require.Zero(t, files())
	}
}

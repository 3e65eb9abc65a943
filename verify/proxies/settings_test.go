package proxies

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
)

// once is a policy without retries.
var once = redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})

// A response without a length ends with its connection under HTTP/1.0, so a broken one looks whole.
func TestABrokenResponseIsVisibleOnlyUnderHTTP11(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 4096))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(srv.Close)
	for _, p := range products(t) {
		t.Run(p.name, func(t *testing.T) {
			read := func(p product) error {
				address := srv.Listener.Addr().String()
				resp, err := post(t, p.start(t, address, address), "k1")
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, resp.Body)
				return err
			}
			assert.Error(t, read(p))
			if p.name == "nginx" {
				assert.NoError(t, read(p.changed(t, "1.1;", "1.0;")))
			}
		})
	}
}

// The page of the proxy in place of the service's refusal hides that the first request is still running.
func TestAProxyThatReplacesRefusalsHidesTheReason(t *testing.T) {
	p := nginx(t)
	replaced := p.changed(t, "location / {", "error_page 409 /refused.html;\n"+
		"location = /refused.html { internal; return 409 refused; }\nlocation / { proxy_intercept_errors on;")
	inFlight := []servertest.Fault{servertest.InFlight(time.Second)}

	require.Nil(t, order(t, newService(t, inFlight).behind(t, p)), "waits and gets the response")

	e := order(t, newService(t, inFlight).behind(t, replaced))
	require.NotNil(t, e)
	assert.Equal(t, redo.EffectUnknown, e.Effect)
}

func TestARateLimitOfTheProxyNeedsTheStatus429(t *testing.T) {
	limited := nginx(t)
	limited.frame = strings.Replace(limited.frame, "http {", "http {\nlimit_req_zone $server_port zone=z:1m rate=1r/m;", 1)
	limited = limited.changed(t, "location / {", "location / {\nlimit_req zone=z;")
	for status, effect := range map[string]redo.Effect{"429": redo.NotApplied, "503": redo.EffectUnknown} {
		t.Run(status, func(t *testing.T) {
			s := newService(t, nil)
			url := s.behind(t, limited.changed(t, "limit_req_status 429;", "limit_req_status "+status+";"))
			require.Nil(t, order(t, url, once))
			e := order(t, url, once)
			require.NotNil(t, e)
			assert.Equal(t, effect, e.Effect, "%v", e)
			assert.Equal(t, 1, s.effects())
		})
	}
}

func TestAFilterOfResponsesHidesTheEffect(t *testing.T) {
	s := newService(t, nil)
	filter := haproxy(t).changed(t, "option redispatch", "option redispatch\n    http-response deny deny_status 403")
	e := order(t, s.behind(t, filter))
	require.NotNil(t, e)
	assert.Equal(t, redo.NotApplied, e.Effect, "%v", e)
	assert.Equal(t, 1, s.effects(), "the page has no mark of its origin")
}

func TestABodyOverTheLimitOfTheProxyIsNotApplied(t *testing.T) {
	s := newService(t, nil)
	e := send(t, newClient(t), s.behind(t, nginx(t)), `{"note":"`+strings.Repeat("x", 1<<20)+`"}`)
	require.NotNil(t, e)
	assert.Equal(t, redo.NotApplied, e.Effect, "%v", e)
	assert.Zero(t, s.effects())
}

func TestTheKeyInTheLogOfNginx(t *testing.T) {
	p := nginx(t)
	log := filepath.Join(t.TempDir(), "log")
	keys := "log_format keys $http_idempotency_key; access_log " + log + " keys;"
	p.frame = strings.Replace(p.frame, "access_log off;", keys, 1)
	_, err := post(t, newService(t, nil).behind(t, p), "k1")
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		text, err := os.ReadFile(log)
		require.NoError(c, err)
		assert.Equal(c, "k1\n", string(text))
	}, limit, 10*time.Millisecond)
}

package conformance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

// wiretap keeps each request as the target sees it.
type wiretap struct {
	mu   sync.Mutex
	seen []string
}

func (w *wiretap) of(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		one, two := reread(r)
		body, _ := io.ReadAll(one.Body)
		if r.Method != http.MethodGet || r.Header.Get("Idempotency-Key") != "" {
			text := fmt.Sprintf("%s %s %v %d\n", r.Method, r.RequestURI, r.TransferEncoding, r.ContentLength)
			for _, name := range sortedKeys(r.Header) {
				if !slices.Contains([]string{"User-Agent", "Accept", "Connection"},
					name) { // curl's own, or the harness's
					text += fmt.Sprintf("%s: %q\n", name, r.Header[name])
				}
			}
			w.mu.Lock()
			w.seen = append(w.seen, text+string(body))
			w.mu.Unlock()
		}
		next.ServeHTTP(rw, two)
	})
}

// keyOf finds the harness's keys, also in capitals.
var keyOf = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// taken returns the requests since the last call, with keys numbered in their order.
func (w *wiretap) taken() (seen []string, keys map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys = map[string]string{}
	for _, s := range w.seen {
		seen = append(seen, keyOf.ReplaceAllStringFunc(s, func(key string) string {
			name := strings.ToLower(key)
			if keys[name] == "" {
				keys[name] = fmt.Sprintf("key %d", len(keys)+1)
			}
			if key != name {
				return strings.ToUpper(keys[name])
			}
			return keys[name]
		}))
	}
	w.seen = nil
	return seen, keys
}

// Each case that fails prints a line that sends the requests of the case again, byte for byte, under fresh keys.
func TestCurlLinesSendWhatTheCasesSent(t *testing.T) {
	racetest.Repeats(t)
	t.Parallel() // runs spend their time waiting
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("REDO_TEST_REQUIRE") == "" {
			t.Skip(err)
		}
	}
	l := newLab(t)
	var tap wiretap
	l.front = func(next http.Handler) http.Handler {
		return tap.of(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Idempotency-Key", freshKey())
			next.ServeHTTP(w, r)
		}))
	}
	l.describe = func(t *Target) {
		t.Operation.Path += "?api_key=sesame-sesame&list[]={a,b}"
		t.Operation.Headers["X-Note"] = "it's $HOME"
		t.Operation.Headers["X-Token"] = "Bearer from-the-environment"
		t.Operation.Headers["X-Signature"] = "signature"
		t.Operation.Body = `{"account":"{{case}}","item":"{{payload}} 'é'\n{{uuid}}","amount":{{number}},"by":"from-the-environment"}`
		t.Secrets = map[string]string{"TOKEN": "from-the-environment"}
		t.SecretHeaders = []string{"X-Signature"}
	}
	target := l.start().target()
	require.NoError(t, target.Validate())
	lines := 0
	for _, c := range Cases() {
		target.Patch, target.Get = &Operation{Method: "PATCH", Path: "/orders"}, nil
		if c.Group() == "late" || c.Slug == "expiry" || c.Slug == "ctl-baseline" {
			continue
		}
		r := &runner{target: target, began: time.Now(), results: map[string]Result{}, proofs: map[string]bool{},
			lessons: map[string]*lesson{}}
		require.NoError(t, r.prepare([]Option{Only(c.Slug)}))
		ctx, cancel := context.WithCancelCause(t.Context())
		r.cancel, r.counts = cancel, true
		res := r.result(c)
		tap.taken()
		r.try(ctx, c, &res, "")
		sent, keys := tap.taken()
		cancel(nil)
		require.NotContains(t, res.Curl, "sesame-sesame")
		require.NotContains(t, res.Curl, "from-the-environment")
		if res.Curl == "" {
			continue
		}
		lines++
		line := "sleep() { :; }; " + res.Curl
		cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
		cmd.Env = append(os.Environ(), "ALICE_AUTHORIZATION=Bearer alice-secret",
			"BOB_AUTHORIZATION=Bearer bobby-secret",
			"API_KEY=sesame-sesame", "TOKEN=from-the-environment", "X_SIGNATURE=signature")
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(err.Error(), "exit status 52") { // an empty response
			require.NoError(t, err, "%s\n%s", res.Curl, out)
		}
		again, fresh := tap.taken()
		require.Equal(t, sent, again, "%s: %s", c.Slug, res.Curl)
		for key := range keys {
			require.NotContains(t, fresh, key, "%s: %s", c.Slug, res.Curl)
		}
	}
	require.Greater(t, lines, 15)
}

func TestCurlLineHasTheKeyAndTheTimeWhereTheProfileHasThem(t *testing.T) {
	target, _ := forgetful(t, func(n int64) string { return fmt.Sprintf(`{"id":%d}`, n) })
	own := Profile{
		Mismatch: []int{409}, MissingKey: []int{400}, MalformedKey: []int{400}, InFlight: []int{409},
		KeyMember: "key", FirstSent: "X-First-Sent",
	}
	line := func(p Profile, key func(k string) string) string {
		target := target
		target.CustomProfile = &p
		r := &runner{target: target, began: time.Now()}
		require.NoError(t, r.prepare(nil))
		x := &trial{run: r, began: time.Now(), fresh: random("a", "b"), word: "c"}
		return x.curl(x.request(x.operation(), key(x.key()), x.values()))
	}
	same := func(k string) string { return k }
	const first = `-H 'X-First-Sent: '"$(LC_ALL=C date -u '+%a, %d %b %Y %T GMT')"`
	require.Contains(t, line(own, same), ` --data-raw '{"account":"c","item":"cp1","key":"'"$K1"'"}'`)
	unknown := func(string) string { return uuid.NewString() }
	require.Empty(t, line(own, unknown), "the line would use a key that has a record")
	own.KeyMember = ""
	require.Contains(t, line(own, same), first+` -H 'Idempotency-Key: '"$K1"`)
	require.Empty(t, line(own, unknown))

	for form, found := range map[KeyForm]bool{AnyKey: true, UUIDv7: false} {
		own.KeyForm = form
		target.CustomProfile = &own
		report, err := Run(t.Context(), target, Only(slugBody))
		require.NoError(t, err)
		res, _ := report.Result(slugBody)
		require.Equal(t, found, res.Curl != "", "%s: %s", form, texts(report))
	}
}

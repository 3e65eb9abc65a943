package clientcheck

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/servertest"
)

// maxAttempts is the maximum number of requests of one call that counts as bounded. Public clients make up to 10.
const maxAttempts = 20

// safe judges the rules of every case: at most one effect, and an honest exit status. A breach is a MUST failure in
// whichever case sees it. It reports whether the case can be judged further.
func (t *trial) safe(p *process) bool {
	if p == nil {
		return false
	}
	if n := t.effects(); n > 1 {
		t.found(conformance.Fail, "1 effect at most", fmt.Sprintf("%d effects", n))
	}
	t.honest(p)
	return true
}

// honest judges a claim of success. It needs a whole successful response to an unsafe request of this run.
func (t *trial) honest(p *process) {
	if !p.succeeded() {
		return
	}
	for _, s := range []*servertest.Server{t.server, t.other} {
		if slices.ContainsFunc(unsafeRequests(s), func(r servertest.Request) bool { return t.delivered(r, p) }) {
			return
		}
	}
	t.found(conformance.Fail, "an exit status other than 0, as no whole successful response was sent",
		fmt.Sprintf("exit status 0 after %d requests and %d effects", len(t.posts()), t.effects()))
}

// delivered reports whether the request got a whole successful response while the process ran.
func (t *trial) delivered(r servertest.Request, p *process) bool {
	switch {
	case r.At.Before(p.sent):
		return false
	case strings.HasPrefix(r.Step, "DelayAfterEffect("):
		return p.done.Sub(r.At) >= t.delay
	}
	return r.Step == "" || strings.HasPrefix(r.Step, "OK(")
}

// sameKey judges whether all attempts carry one key.
func (t *trial) sameKey() {
	var keys []string
	posts := t.posts()
	for _, r := range posts {
		if !slices.Contains(keys, r.Key) {
			keys = append(keys, r.Key)
		}
	}
	switch {
	case len(posts) < 2:
	case len(keys) > 1:
		t.broken("the first request's key on each request",
			"%d requests with %d keys: %s", len(posts), len(keys), quoted(keys))
	case keys[0] == "":
		t.broken("a key on each request that is sent again", "%d requests without a key", len(posts))
	}
}

func quoted(keys []string) string {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = fmt.Sprintf("%q", k)
	}
	return strings.Join(texts, ", ")
}

// retried judges a case whose rule binds retries: one key, one effect, honest.
func retried(steps ...servertest.Fault) func(*trial) {
	return func(t *trial) {
		p := t.play(steps...)
		if !t.safe(p) {
			return
		}
		t.sameKey()
		t.skipUnretried(p)
	}
}

func (t *trial) skipUnretried(p *process) {
	if len(t.posts()) < 2 {
		t.skip(fmt.Sprintf("the client did not send the request again (%v)", p))
	}
}

// notRetried judges a status that must not be retried. A retry count of up to allowed is accepted.
func notRetried(status, allowed int) func(*trial) {
	return func(t *trial) {
		if !t.listen(servertest.Bare(), servertest.Handler(refusal(status))) {
			return
		}
		p := t.run()
		if p == nil {
			return
		}
		if p.succeeded() {
			t.found(conformance.Fail, "an exit status other than 0",
				fmt.Sprintf("exit status 0 after status %d", status))
		}
		if n := len(t.posts()); n > 1+allowed {
			t.broken(fmt.Sprintf("%d requests at most", 1+allowed), "%d requests", n)
		}
	}
}

// refusal refuses each request with a problem document. SDKs retry errors that are not JSON, so that text would judge
// another rule.
func refusal(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		text := http.StatusText(status)
		_, _ = fmt.Fprintf(w, `{"title":%q,"status":%d,"error":{"message":%q}}`, text, status,
			text) // the client may be gone
	})
}

// waited judges the time between the first two requests, both measured at arrival. least gets the first arrival.
func waited(step servertest.Fault, least func(first time.Time) time.Duration) func(*trial) {
	return func(t *trial) {
		p := t.play(step, servertest.OK())
		if !t.safe(p) {
			return
		}
		posts := t.posts()
		if len(posts) < 2 {
			t.skipUnretried(p)
			return
		}
		if gap, want := posts[1].At.Sub(posts[0].At), least(posts[0].At); gap < want {
			t.broken(fmt.Sprintf("no request for at least %v", want.Round(time.Millisecond)),
				"a request after %v", gap.Round(time.Millisecond))
		}
	}
}

func always(d time.Duration) func(time.Time) time.Duration {
	return func(time.Time) time.Duration { return d }
}

package clientcheck

import (
	"bytes"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/servertest"
)

func baseline(t *trial) {
	p := t.play(servertest.OK())
	if p == nil {
		return
	}
	const want = "one POST to " + EnvURL + ", one effect and exit status 0"
	switch n := len(t.posts()); {
	case n == 0:
		t.broken(want, "the command sent no request to %s and ended with %v: %s", EnvURL, p, lastLine(p))
	case n > 1 || t.effects() != 1:
		t.broken(want, "the command sent %d requests with %d effects", n, t.effects())
	case !p.succeeded():
		t.broken(want, "the command got 201 and ended with %v: %s", p, lastLine(p))
	}
}

func lastLine(p *process) string {
	lines := strings.Split(strings.TrimSpace(p.output.String()), "\n")
	return lines[len(lines)-1]
}

func hasKey(t *trial) {
	p := t.play(servertest.OK())
	if t.safe(p) && len(t.posts()) > 0 && t.posts()[0].Key == "" {
		t.broken("a header "+t.KeyHeader, "none")
	}
}

func keyForm(t *trial) {
	p := t.play(servertest.OK())
	if !t.safe(p) {
		return
	}
	for _, r := range t.posts() {
		lines := r.Header.Values(t.KeyHeader)
		switch {
		case len(lines) == 0:
			t.skip("the client sends no key")
		case len(lines) > 1:
			t.broken("one header line", "%d lines", len(lines))
		case len(r.Key) == 0 || len(r.Key) > 255 || strings.ContainsFunc(r.Key, unfit):
			t.broken("1 to 255 visible ASCII characters", "%d bytes: %q", len(r.Key), r.Key)
		}
	}
}

// unfit reports whether the character can't be part of a key. RFC 8941 allows the space inside a String.
func unfit(c rune) bool { return c < ' ' || c > '~' }

func uniqueKeys(t *trial) {
	p := t.play(servertest.OK())
	if p == nil {
		return
	}
	t.honest(p)
	if err := t.prepare(); err != nil { // each operation has a directory of its own
		t.found(conformance.Harness, "", err.Error())
		return
	}
	if p = t.start(t.server.URL, t.operation+"-2"); p == nil {
		return
	}
	<-p.ended
	t.honest(p)
	posts := t.posts()
	switch {
	case len(posts) < 2:
		t.skip("the client sent no second request")
	case posts[0].Key == "":
		t.skip("the client sends no key")
	case posts[0].Key == posts[len(posts)-1].Key:
		t.broken("another key for the second operation", "the key %q again", posts[0].Key)
	}
}

// refused opens the port only after the client's first connection must have been refused.
func refused(t *trial) {
	address, err := freeport.Address() // the system could give one of its own to the server of another case
	if err != nil {
		t.found(conformance.Harness, "", err.Error())
		return
	}
	p := t.start("http://"+address, t.operation)
	if p == nil {
		return
	}
	select {
	case <-p.ended:
		t.honest(p)
		t.skip("the command ended before the port was open (" + p.String() + ")")
		return
	case <-time.After(2*t.startup + 500*time.Millisecond):
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		p.kill()
		t.found(conformance.Harness, "", err.Error())
		return
	}
	if t.server = t.serve(l); t.server == nil {
		p.kill()
		return
	}
	<-p.ended
	t.safe(p)
	t.sameKey()
}

func htmlSuccess(t *trial) {
	p := t.play(servertest.HTMLError(http.StatusOK), servertest.OK())
	if p == nil {
		return
	}
	if p.succeeded() && t.effects() == 0 {
		t.broken("an exit status other than 0", "exit status 0 for a page of HTML, and no effect")
	}
	t.sameKey()
}

func samePayload(t *trial) {
	unavailable := servertest.Status(http.StatusServiceUnavailable)
	p := t.play(unavailable, unavailable, servertest.OK())
	if !t.safe(p) {
		return
	}
	posts := t.posts()
	for _, r := range posts {
		if !bytes.Equal(r.Body, posts[0].Body) {
			t.broken("equal payloads", "request %d differs: %q is not %q", r.Number, r.Body, posts[0].Body)
			return
		}
	}
	t.skipUnretried(p)
}

func attempts(t *trial) {
	p := t.playAlways(servertest.Status(http.StatusServiceUnavailable))
	if !t.safe(p) {
		return
	}
	n := len(t.posts())
	switch {
	case n > maxAttempts:
		t.broken("20 requests at most", "%d requests", n)
	case p.late:
		t.skip("the client still retried at the time limit")
	}
}

// killed kills the command between the effect and the response, and runs it again.
func killed(t *trial) {
	if t.delay = t.limit; !t.listen(servertest.ScriptNext(servertest.DelayAfterEffect(t.delay))) {
		return
	}
	p := t.start(t.server.URL, t.operation)
	if p == nil {
		return
	}
	for t.effects() == 0 {
		select {
		case <-p.ended:
			t.skip("the command ended before it could be killed: " + p.String())
			return
		case <-time.After(time.Millisecond):
		}
	}
	p.kill()
	if p = t.run(); t.safe(p) {
		t.sameKey()
		if !p.succeeded() {
			t.skip("the second run reported a failure (" + p.String() + ")")
		}
	}
}

func retriedLate(d time.Duration) func(*trial) {
	return func(t *trial) {
		t.delay = d
		p := t.play(servertest.DelayAfterEffect(d), servertest.OK())
		if t.safe(p) {
			t.sameKey()
		}
	}
}

func beyondTimeout(t *trial) {
	if t.ClientTimeout == 0 {
		t.skip("the client's timeout is not declared (--client-timeout)")
		return
	}
	t.delay = t.ClientTimeout + 2*time.Second
	retried(servertest.DelayAfterEffect(t.delay), servertest.OK())(t)
}

// untilDate returns the least wait for a date that is d after the response. A date has whole seconds.
func untilDate(d time.Duration) func(time.Time) time.Duration {
	return func(first time.Time) time.Duration { return first.Add(d).Truncate(time.Second).Sub(first) }
}

// limited responds with 429 as a gateway does. An API's own format would be an SDK's success: stripe-node judges a JSON
// response by its member "error".
func limited(hint servertest.Header) servertest.Fault {
	return servertest.Status(http.StatusTooManyRequests).With(hint)
}

// longWait needs no end of the command: a client that still waits keeps the rule.
func longWait(t *trial) {
	t.limit = min(t.limit, t.startup+10*time.Second)
	p := t.play(limited(servertest.RetryAfterSeconds(3600)), servertest.OK())
	if !t.safe(p) {
		return
	}
	if posts := t.posts(); len(posts) > 1 {
		t.broken("no request for an hour", "a request after %v", posts[1].At.Sub(posts[0].At).Round(time.Millisecond))
	}
}

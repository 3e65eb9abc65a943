package clientcheck

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/servertest"
)

// redirectAway redirects to another host and port, with a status that keeps the method.
func redirectAway(t *trial) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.found(conformance.Harness, "", err.Error())
		return
	}
	if t.other = t.serve(l); t.other == nil {
		return
	}
	target := strings.Replace(t.other.URL, "127.0.0.1", "localhost", 1) + "/orders"
	p := t.playAlways(servertest.Redirect(http.StatusTemporaryRedirect, target))
	if !t.safe(p) {
		return
	}
	for _, r := range t.other.Requests() {
		if r.Header.Get(t.KeyHeader) != "" {
			t.broken("no key at another origin", "%s to %s with the key %q", r.Method, r.Host, r.Key)
			return
		}
	}
}

func redirectSame(t *trial) {
	p := t.play(servertest.Redirect(http.StatusPermanentRedirect, "/moved"), servertest.OK())
	if !t.safe(p) {
		return
	}
	posts := t.posts()
	if len(posts) < 2 || posts[0].Key == "" {
		t.skip("the client did not follow the redirect with a key (" + p.String() + ")")
		return
	}
	t.sameKey()
}

// redirectGet judges the claim of success itself: RFC 9110 lets a client follow a 302 with GET.
func redirectGet(t *trial) {
	redirect := servertest.Redirect(http.StatusFound, "/landing")
	if !t.listen(servertest.ScriptNext(redirect, servertest.OK()), servertest.Handler(http.HandlerFunc(orders))) {
		return
	}
	p := t.run()
	if p == nil {
		return
	}
	if p.succeeded() && t.effects() == 0 {
		t.broken("an exit status other than 0", "exit status 0 after a GET, and no effect")
	}
}

// orders lists orders for GET, and makes one for other methods.
func orders(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, `{"orders":[]}`) // the client may be gone
		return
	}
	effect, err := servertest.Effect(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"id":%q}`, effect.ID)
}

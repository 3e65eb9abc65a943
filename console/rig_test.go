package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/console"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// secrets are in bodies, headers, queries and passwords. No page may show them.
const secret = "very-secret"

const (
	shop   = "https://user:" + secret + "@shop.example/hooks?token=" + secret
	audit  = "https://audit.example/"
	closed = "https://closed.example/hooks?token=" + secret
)

// A rig is a console over a client, a queue and an inbox that all have work that has stopped.
type rig struct {
	*testing.T
	console *console.Console
	client  *redo.Client
	queue   *memoutbox.Queue
	store   *memstore.Store

	mu   sync.Mutex
	acts []console.Act
	sent []string // the paths that the server of the operations received
}

// RoundTrip is the server of the operations. It loses the response to a first "/pending" or "/final". It never knows the
// outcome of "/unknown", and replays a failure of "/final".
func (r *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, req.URL.Path)
	w := httptest.NewRecorder()
	switch first := strings.Count(strings.Join(r.sent, " "), req.URL.Path) == 1; {
	case req.URL.Path == "/unknown":
		w.Header().Set("Error-Code", "CONFLICT.idempotency.outcome_unknown")
		w.WriteHeader(http.StatusConflict)
	case first && (req.URL.Path == "/pending" || req.URL.Path == "/final"):
		return nil, errors.New("connection reset")
	case req.URL.Path == "/final":
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(http.StatusInternalServerError)
	case req.URL.Path == "/down":
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusCreated)
		_, _ = w.WriteString(secret)
	}
	return w.Result(), nil
}

func newRig(t *testing.T, opts ...console.Option) *rig {
	t.Helper()
	r := &rig{T: t, queue: memoutbox.New(), store: memstore.New()}
	t.Cleanup(func() { require.NoError(t, r.store.Close()) })
	client, err := redo.New(redo.WithStore(r.store), redo.WithTransport(r),
		redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}),
		redo.WithCredentials(func(req *http.Request) error { req.Header.Set("Authorization", secret); return nil }))
	require.NoError(t, err)
	r.client = client
	for _, name := range []string{"pending", "unknown", "down"} {
		require.Error(t, r.call("refund:"+name, "/"+name))
	}
	r.fill()
	in, err := inbox.New(r.store, inbox.MaxAttempts(2), inbox.Backoff(func(int) time.Duration { return time.Hour }))
	require.NoError(t, err)
	for id, fault := range map[string]error{
		"letter-dead": inbox.Reject(errors.New("no such account")), "letter-waiting": errors.New("the ledger is down"),
	} {
		_, _ = in.Receive(t.Context(), inbox.Event{Source: "bank", ID: id, Payload: []byte(secret)},
			func(context.Context, inbox.Event) error { return fault })
	}
	all := append([]console.Option{
		console.Operations(client), console.Events("outbox", r.queue), console.Letters(in), console.Records(r.store),
		console.Author("ana"), console.Audit(func(_ context.Context, a console.Act) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.acts = append(r.acts, a)
		}),
	}, opts...)
	r.console, err = console.New(all...)
	require.NoError(t, err)
	return r
}

// call calls an operation.
func (r *rig) call(name, path string) error {
	req, err := http.NewRequestWithContext(redo.WithOperation(r.Context(), name), http.MethodPost,
		"https://api.example"+path+"?account="+secret, strings.NewReader(secret))
	require.NoError(r, err)
	resp, err := r.client.Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// fill makes three dead letters, one event that waits, and a disabled destination.
func (r *rig) fill() {
	ctx := r.Context()
	refund := outbox.Event{
		ID: "refund-1", Type: "refund.created", Payload: []byte(secret), Header: http.Header{"Authorization": {secret}},
	}
	both, err := outbox.FanOut(refund, shop, audit)
	require.NoError(r, err)
	order := outbox.Event{ID: "order-1", Type: "order.created", Destination: shop}
	require.NoError(r, r.queue.Append(ctx, append(both, order)...))
	claimed, err := r.queue.Claim(ctx, outbox.Claim{Max: 10, Lease: time.Hour})
	require.NoError(r, err)
	require.Len(r, claimed, 3)
	for _, d := range claimed {
		lost, err := r.queue.Settle(ctx, outbox.Settlement{Lease: d.Lease, Outcome: outbox.Outcome{
			Result: outbox.Dead, Failure: outbox.Failure{
				Code: "DEPENDENCY.unavailable", Reason: "the server is busy", Status: 503, Response: secret,
				Elapsed: 1500 * time.Millisecond,
			},
		}})
		require.NoError(r, err)
		require.Empty(r, lost)
	}
	require.NoError(r,
		r.queue.Disable(ctx, closed, outbox.Failure{Code: "VALIDATION.gone", Status: 410, Reason: "gone"}))
	require.NoError(r, r.queue.Append(ctx, outbox.Event{ID: "closed-1", Destination: closed}))
}

// do sends a request to the console, by default from this machine. change may change the request.
func (r *rig) do(method, page string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r.Helper()
	target := "/" + strings.TrimPrefix(page, "./")
	req := httptest.NewRequestWithContext(r.Context(), method, target, strings.NewReader(form.Encode()))
	req.Host, req.RemoteAddr = "127.0.0.1:8090", "127.0.0.1:5555"
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		req.Header.Set("Origin", "http://"+req.Host)
	}
	for _, f := range change {
		f(req)
	}
	w := httptest.NewRecorder()
	r.console.ServeHTTP(w, req)
	return w
}

// get returns a page, which must not show a secret.
func (r *rig) get(page string) string {
	r.Helper()
	w := r.do(http.MethodGet, page, nil)
	require.Equal(r, http.StatusOK, w.Code, w.Body.String())
	require.NotContains(r, w.Body.String(), secret)
	return text(w.Body.String())
}

var (
	form    = regexp.MustCompile(`(?s)<form[^>]*method="post" action="([^"]*)">(.*?)</form>`)
	input   = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	address = regexp.MustCompile(`<a (?:rel="next" )?href="([^"]*)"`)
)

// forms returns the hidden fields of the forms of a page that post to an action.
func (r *rig) forms(page, action string) (all []url.Values) {
	r.Helper()
	for _, m := range form.FindAllStringSubmatch(r.get(page), -1) {
		if m[1] == action {
			v := url.Values{}
			for _, field := range input.FindAllStringSubmatch(m[2], -1) {
				v.Set(field[1], field[2])
			}
			all = append(all, v)
		}
	}
	return all
}

// link returns the link of a page that contains a text.
func (r *rig) link(page, contains string) string {
	r.Helper()
	for _, m := range address.FindAllStringSubmatch(r.get(page), -1) {
		if strings.Contains(m[1], contains) {
			return m[1]
		}
	}
	r.Fatalf("%s has no link with %q", page, contains)
	return ""
}

// text undoes the escapes that html/template uses.
func text(page string) string {
	return strings.NewReplacer("&amp;", "&", "&#34;", `"`, "&#39;", "'", "&#43;", "+").Replace(page)
}

// act returns the only act that was audited.
func (r *rig) act() console.Act {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(r, r.acts, 1)
	return r.acts[0]
}

// state returns an operation's state.
func (r *rig) state(name string) store.State {
	op, err := r.client.Find(r.Context(), name)
	require.NoError(r, err)
	return op.State
}

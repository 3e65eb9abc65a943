package outbox_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

// Neither another server nor another path of the same one gets a redirected event, signed or not.
func TestHTTPFollowsNoRedirect(t *testing.T) {
	secret, err := webhook.NewSecret(nil)
	require.NoError(t, err)
	signer, err := webhook.NewSigner([]webhook.Secret{secret})
	require.NoError(t, err)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, where := range []string{"another server", "the same server"} {
			for _, payload := range []string{"", "body"} {
				for _, signed := range []bool{false, true} {
					t.Run(fmt.Sprint(status, " ", where, " ", payload, " ", signed), func(t *testing.T) {
						called := 0
						target := serve(t, func(http.ResponseWriter, *http.Request) { called++ }) + "/target"
						url := serve(t, func(w http.ResponseWriter, r *http.Request) {
							if r.URL.Path == "/target" {
								called++
								return
							}
							w.Header().Set("Location", target)
							if where == "the same server" {
								w.Header().Set("Location", "/target")
							}
							w.WriteHeader(status)
							_, _ = io.WriteString(w, "moved")
						})
						var opts []redo.Option
						if signed {
							opts = append(opts, redo.WithTransport(signer.Transport(http.DefaultTransport)))
						}
						err := publisher(t, once(t, opts...)).Publish(t.Context(),
							outbox.Event{ID: "k", Destination: url, Payload: []byte(payload)})
						o := outbox.Judge(err)
						require.Equal(t, outbox.Waiting, o.Result, "it is tried again")
						require.Equal(t, taxonomy.RedirectNotFollowed, o.Failure.Code)
						require.Equal(t, status, o.Failure.Status)
						require.Equal(t, "moved", o.Failure.Response)
						require.Zero(t, called)
					})
				}
			}
		}
	}
}

func TestHTTPHeaders(t *testing.T) {
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	p := publisher(t, once(t))
	require.NoError(t, p.Publish(t.Context(), outbox.Event{ID: "k", Destination: url, Type: "refund.created"}))
	require.Equal(t, "application/json", got.Get("Content-Type"))
	require.Contains(t, got.Get("User-Agent"), "redo")
	require.Equal(t, []string{"refund.created"}, got[outbox.HeaderType])

	own := http.Header{"Content-Type": {"text/csv"}, "User-Agent": {"shop/1"}}
	require.NoError(t, p.Publish(t.Context(), outbox.Event{ID: "k", Destination: url, Header: own}))
	require.Equal(t, []string{"text/csv"}, got["Content-Type"])
	require.Equal(t, "shop/1", got.Get("User-Agent"))
	require.NotContains(t, got, outbox.HeaderType, "an event without a type has no header for it")

	_, err := outbox.Prepare(outbox.Event{Header: http.Header{outbox.HeaderType: {"x"}}})
	require.Error(t, err, "an event can't set it")
}

// The client's own retries and time limits do not count: the relay's do.
func TestHTTPMakesOneAttempt(t *testing.T) {
	calls := 0
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		time.Sleep(50 * time.Millisecond)
		w.WriteHeader(503)
	})
	client, err := redo.New(redo.WithRetry(redo.RetryPolicy{
		MaxAttempts: 5, AttemptTimeout: 10 * time.Millisecond, MaxElapsed: 20 * time.Millisecond,
	}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	o := outbox.Judge(publisher(t, client).Publish(t.Context(), outbox.Event{ID: "k", Destination: url}))
	require.Equal(t, 503, o.Failure.Status)
	require.Equal(t, 1, calls)
}

func TestFailureKeepsTheResponse(t *testing.T) {
	for rule, c := range map[string]struct{ body, want string }{
		"text":            {"no such hook: ü", "no such hook: ü"},
		"its first bytes": {strings.Repeat("x", 600), strings.Repeat("x", outbox.MaxResponse)},
		"whole characters": {
			strings.Repeat("x", outbox.MaxResponse-1) + "ü", strings.Repeat("x", outbox.MaxResponse-1),
		},
		"bytes that are no text": {"a\xff\x00b", "a\uFFFD\uFFFDb"},
		"nothing":                {"", ""},
	} {
		t.Run(rule, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(404)
				_, _ = io.WriteString(w, c.body)
			})
			o := outbox.Judge(publisher(t, once(t)).Publish(t.Context(), outbox.Event{ID: "k", Destination: url}))
			require.Equal(t, 404, o.Failure.Status)
			require.Equal(t, c.want, o.Failure.Response)
			require.NoError(t, o.Validate())
		})
	}
}

// A queue refuses a longer code, and could then never settle the event.
func TestALongCodeIsReplaced(t *testing.T) {
	longest := taxonomy.Code(strings.Repeat("C", 255))
	for code, want := range map[taxonomy.Code]taxonomy.Code{longest: longest, longest + "C": taxonomy.Transient} {
		o := outbox.Judge(code)
		require.Equal(t, want, o.Failure.Code)
		require.NoError(t, o.Validate())
	}
}

package redo_test

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// Programs replace http.DefaultTransport, to trace or to mock. The test replaces it in a separate process, since
// other tests use it.
func TestNewUsesAReplacedDefaultTransport(t *testing.T) {
	const child = "REDO_TEST_REPLACED_TRANSPORT"
	if os.Getenv(child) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNewUsesAReplacedDefaultTransport$",
			"-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "replaced and used")
		return
	}
	sent := 0
	http.DefaultTransport = tripper(func(r *http.Request) (*http.Response, error) {
		sent++
		return answer(r, 201, "{}"), nil
	})
	client, err := redo.New()
	require.NoError(t, err)
	succeed(t, client, post(t, t.Context(), "http://api.test/", payment))
	require.Equal(t, 1, sent)
	require.NoError(t, client.Close())
	t.Log("replaced and used")
}

func TestNewUsesACloneOfTheDefaultTransport(t *testing.T) {
	srv := servertest.New(t)
	client, err := redo.New()
	require.NoError(t, err)
	succeed(t, client, post(t, t.Context(), srv.URL, payment))
	require.NoError(t, client.Close())
	require.Len(t, srv.Requests(), 1)
}

// nothing is a store, limiter, breaker, observer and transport that exists as a nil pointer alone.
type nothing struct {
	store.Store
	limit.Limiter
	limit.Breaker
	redo.Observer
	http.RoundTripper
}

func TestNewRefusesBadOptions(t *testing.T) {
	var noStore *memstore.Store
	var none *nothing
	retry := func(p redo.RetryPolicy) redo.Option { return redo.WithRetry(p) }
	for _, c := range []struct {
		name string
		opt  redo.Option
		text string
	}{
		{"no store", redo.WithStore(nil), "WithStore"},
		{"a nil pointer to a store", redo.WithStore(noStore), "WithStore"},
		{"a nil pointer to a transport", redo.WithTransport(none), "WithTransport"},
		{"a nil pointer to a limiter", redo.WithLimiter(none), "WithLimiter"},
		{"a nil pointer to a breaker", redo.WithBreaker(none), "WithBreaker"},
		{"a nil pointer to an observer", redo.WithObserver(none), "WithObserver"},
		{"a nil option", nil, "option is nil"},
		{
			"BaseDelay over MaxElapsed",
			retry(redo.RetryPolicy{BaseDelay: time.Minute, MaxDelay: time.Hour, MaxElapsed: 10 * time.Second}),
			"BaseDelay 1m0s is longer than MaxElapsed 10s",
		},
		{
			"BaseDelay over the default MaxElapsed",
			retry(redo.RetryPolicy{BaseDelay: 11 * time.Second}), "BaseDelay 11s is longer than MaxElapsed 10s",
		},
		{
			"BaseDelay over MaxDelay",
			retry(redo.RetryPolicy{BaseDelay: time.Second, MaxDelay: time.Millisecond}),
			"BaseDelay 1s is longer than MaxDelay 1ms",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := redo.New(c.opt)
			require.ErrorContains(t, err, c.text)
			require.Nil(t, client)
		})
	}
	t.Run("a policy for one call is checked too", func(t *testing.T) {
		client := connect(t, tripper(func(*http.Request) (*http.Response, error) { panic("sent") }))
		ctx := redo.WithPolicy(t.Context(), redo.RetryPolicy{BaseDelay: 11 * time.Second})
		e := fail(t, client, post(t, ctx, "http://api.test/", payment))
		require.Equal(t, taxonomy.InvalidRequest, e.Code)
		require.Equal(t, redo.NotApplied, e.Effect)
	})
}

func TestNewTakesGoodOptions(t *testing.T) {
	st := openStore(t)
	for name, opt := range map[string]redo.Option{
		"a store":                 redo.WithStore(st),
		"a store as a value":      redo.WithStore(struct{ store.Store }{st}),
		"BaseDelay at MaxElapsed": redo.WithRetry(redo.RetryPolicy{BaseDelay: 10 * time.Second}),
		"no limiter":              redo.WithLimiter(nil),
		"no breaker":              redo.WithBreaker(nil),
		"no observer":             redo.WithObserver(nil),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := redo.New(opt)
			require.NoError(t, err)
		})
	}
}

// A method or a header that can't be sent is the caller's mistake: one attempt would be too many.
func TestInvalidMethodOrHeaderIsRefusedOnce(t *testing.T) {
	add := func(name, value string) (func(*http.Request), func(*http.Request) error) {
		return func(r *http.Request) { r.Header[name] = []string{value} },
			func(r *http.Request) error { r.Header[name] = []string{value}; return nil }
	}
	type row struct {
		name        string
		change      func(*http.Request)
		credentials func(*http.Request) error
		text        string // empty: it is sent
	}
	rows := []row{
		{"a method with a space", func(r *http.Request) { r.Method = "PO ST" }, nil, "the method"},
		{"an unusual method", func(r *http.Request) { r.Method = "MKCALENDAR" }, nil, ""},
		{"a lower-case method", func(r *http.Request) { r.Method = "post" }, nil, ""},
	}
	rows = append(rows, row{"a trailer with a line break",
		func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {"a\nb"}} }, nil, "X-Sum"})
	for _, h := range []struct{ name, header, value, text string }{
		{"a value with a line break", "X-Note", "a\nb", "X-Note"},
		{"a token with its file's line break", "Authorization", "Bearer s3cr3t\n", "Authorization"},
		{"a value with a NUL", "X-Note", "a\x00b", "X-Note"},
		{"a name with a space", "X Note", "a", "X Note"},
		{"an empty name", "", "a", `""`},
		{"a value with a tab and letters beyond ASCII", "X-Note", "a\tä", ""},
	} {
		change, credentials := add(h.header, h.value)
		rows = append(rows, row{h.name, change, nil, h.text}, row{h.name + ", by the credentials function", nil,
			credentials, h.text})
	}
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			srv, st := servertest.New(t), openStore(t)
			opts := []redo.Option{redo.WithStore(st), quick}
			if c.credentials != nil {
				opts = append(opts, redo.WithCredentials(c.credentials))
			}
			client := connect(t, fresh(t), opts...)
			req := named(t, srv, "op", payment)
			if c.change != nil {
				c.change(req)
			}
			if c.text == "" {
				succeed(t, client, req)
				require.Len(t, srv.Requests(), 1)
				return
			}
			e := fail(t, client, req)
			require.True(t, e.Code.In(taxonomy.Validation) || e.Code.In(taxonomy.Auth), e.Code)
			require.Equal(t, redo.NotApplied, e.Effect)
			require.False(t, redo.SafeToRetry(e))
			require.Contains(t, e.Error(), c.text)
			require.NotContains(t, e.Error(), "s3cr3t")
			require.LessOrEqual(t, len(e.Attempts), 1)
			for _, a := range e.Attempts {
				require.Zero(t, a.WireSends)
			}
			require.Empty(t, srv.Requests())
			if c.change != nil {
				require.Empty(t, e.Attempts)
				require.Equal(t, 1, strings.Count(e.Error(), "redo: ")-1, "one clear message: %s", e.Error())
				requireAbsent(t, st, "op")
			}
		})
	}
}

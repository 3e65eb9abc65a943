package redo_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

// headed returns a POST of the operation "op" with the headers, as names and values in turn.
func headed(t *testing.T, srv *servertest.Server, header ...string) *http.Request {
	t.Helper()
	req := named(t, srv, "op", payment)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header[header[i]] = append(req.Header[header[i]], header[i+1])
	}
	return req
}

func TestStoredHeaderIsPartOfThePayload(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second []string
		same          bool
	}{
		{"another account", []string{"Stripe-Account", "acct_1"}, []string{"Stripe-Account", "acct_2"}, false},
		{"no account any more", []string{"Stripe-Account", "acct_1"}, nil, false},
		{"an account that was not there", nil, []string{"Stripe-Account", "acct_1"}, false},
		{
			"another version of the API",
			[]string{"Stripe-Version", "2024-06-20"}, []string{"Stripe-Version", "2025-01-27"}, false,
		},
		{"a precondition", []string{"If-Match", `"1"`}, []string{"If-Match", `"2"`}, false},
		{
			"another type of content",
			[]string{"Content-Type", "application/json"}, []string{"Content-Type", "text/plain"}, false,
		},
		{
			"another boundary of a form",
			[]string{"Content-Type", "multipart/form-data; boundary=a"}, []string{"Content-Type",
				"multipart/form-data; boundary=b"}, true,
		},
		{"the same account", []string{"Stripe-Account", "acct_1"}, []string{"Stripe-Account", "acct_1"}, true},
		{
			"the same account in lower case", []string{"Stripe-Account", "acct_1"},
			[]string{"stripe-account", "acct_1"}, true,
		},
		{"another trace", []string{"Traceparent", "00-1"}, []string{"Traceparent", "00-2"}, true},
		{"fresh credentials", []string{"Authorization", "Bearer 1"}, []string{"Authorization", "Bearer 2"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, st := servertest.NewInMemory(t), openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProfile(profile.Stripe))
				_, body := succeed(t, client, headed(t, srv, c.first...))
				if c.same {
					_, again := succeed(t, client, headed(t, srv, c.second...))
					require.Equal(t, body, again)
				} else {
					e := fail(t, client, headed(t, srv, c.second...))
					require.Equal(t, taxonomy.PayloadMismatch, e.Code)
					require.Equal(t, redo.NotApplied, e.Effect)
				}
				require.Len(t, srv.Requests(), 1)
			})
		})
	}
}

func TestResumeSendsTheStoredHeadersOrNothing(t *testing.T) {
	authorize := redo.WithCredentials(func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer fresh")
		return nil
	})
	for _, c := range []struct {
		name    string
		header  []string
		opts    []redo.Option
		refusal string // empty: it is sent
		code    taxonomy.Code
	}{
		{
			"a header that the profile does not store",
			[]string{"X-Tenant", "t1"}, nil, "does not hold the header X-Tenant: name it in Profile.StoredHeaders",
			taxonomy.BodyNotReplayable,
		},
		{
			"credentials that no function adds",
			[]string{"Authorization", "Bearer 1"}, nil,
			"the header Authorization is never stored: add it with WithCredentials",
			"AUTH.credentials",
		},
		{
			"credentials under another name",
			[]string{"X-Api-Key", "1"}, nil, "the header X-Api-Key is never stored", "AUTH.credentials",
		},
		{"an account", []string{"Stripe-Account", "acct_1"}, nil, "", ""},
		{"an account in lower case", []string{"stripe-account", "acct_1"}, nil, "", ""},
		{"a trace", []string{"Traceparent", "00-1", "User-Agent", "shop/1"}, nil, "", ""},
		{
			"credentials that the client adds",
			[]string{"Authorization", "Bearer 1", "Stripe-Account", "acct_1"}, []redo.Option{authorize}, "", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				st := openStore(t)
				opts := append(c.opts, redo.WithStore(st), redo.WithProfile(profile.Stripe))
				first := crash(t, srv, st, headed(t, srv, c.header...), opts...)
				client := connect(t, srv.Transport(), opts...)
				op := pending(t, client)[0]
				require.Equal(t, c.code != taxonomy.BodyNotReplayable, op.Resumable, "credentials can still be added")
				resp, err := client.Resume(t.Context(), op)
				if c.refusal != "" {
					e := failure(t, err)
					require.Equal(t, c.code, e.Code)
					require.ErrorContains(t, e, c.refusal)
					require.Len(t, srv.Requests(), 1)
					resp, err = client.Do(headed(t, srv, c.header...)) // the same code again
				}
				require.NoError(t, err)
				drain(t, resp)
				sent := srv.Requests()
				require.Len(t, sent, 2)
				require.Equal(t, []string{first.Key, first.Key}, keys(srv))
				require.Equal(t, sent[0].Header.Values("Stripe-Account"), sent[1].Header.Values("Stripe-Account"))
				srv.Ledger().AssertEffects(t, first.Key, 1)
			})
		})
	}
}

// Parts of a name are no evidence of a secret: whole names are.
func TestHeaderNamesThatOnlyLookLikeSecretsAreAllowed(t *testing.T) {
	for _, c := range []struct {
		name    string
		header  string
		stored  []string
		refused bool
	}{
		{"Twilio's key header", "I-Twilio-Idempotency-Token", nil, false},
		{"an author", "", []string{"X-Author-Id"}, false},
		{"both", "I-Twilio-Idempotency-Token", []string{"X-Author-Id", "X-Tokenizer", "X-Secretary"}, false},
		{"credentials as the key", "Authorization", nil, true},
		{"a cookie, in lower case", "", []string{"cookie"}, true},
		{"an API key", "", []string{"X-Author-Id", "X-Api-Key"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := redo.RedoProfile()
				p.Header, p.StoredHeaders = c.header, c.stored
				if c.refused {
					_, err := redo.New(redo.WithProfile(p))
					require.ErrorContains(t, err, "carries credentials")
					return
				}
				header := "Idempotency-Key"
				if c.header != "" {
					header = c.header
				}
				srv := servertest.NewInMemory(t, servertest.KeyHeader(header),
					servertest.ScriptNext(servertest.ResetAfterEffect()))
				st := openStore(t)
				author := make([]string, 0, 2*len(c.stored))
				for _, name := range c.stored {
					author = append(author, name, "7")
				}
				first := crash(t, srv, st, headed(t, srv, author...), redo.WithProfile(p))
				client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProfile(p))
				resp, err := client.Resume(t.Context(), pending(t, client)[0])
				require.NoError(t, err)
				drain(t, resp)
				require.Equal(t, []string{first.Key, first.Key}, keys(srv))
				for _, name := range c.stored {
					require.Equal(t, "7", srv.Requests()[1].Header.Get(name))
				}
			})
		})
	}
}

// The credentials function's headers are known by difference, with any names and any way of adding them.
func TestAddedCredentialsStayAtTheirOriginAndOutOfTheStore(t *testing.T) {
	const target = "http://other.test/there"
	for _, c := range []struct {
		name string
		add  func(http.Header)
	}{
		{"a new header", func(h http.Header) { h.Set("User-Agent", "s3cr3t") }},
		{"a replaced value", func(h http.Header) { h.Set("Accept", "s3cr3t") }},
		{"a second value", func(h http.Header) { h.Add("Accept", "s3cr3t") }},
		{"a replaced second value", func(h http.Header) { h["Accept-Language"] = []string{"de", "s3cr3t"} }},
		{"an unknown name", func(h http.Header) { h.Set("X-Jwt-Assertion-2", "s3cr3t") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := openStore(t)
				srv := servertest.NewInMemory(t, servertest.Script("", servertest.Redirect(302, target)),
					servertest.ScriptNext(servertest.Status(503)))
				client := connect(t, srv.Transport(), redo.WithStore(st),
					redo.WithCredentials(func(r *http.Request) error {
						c.add(r.Header)
						return nil
					}), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
				get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/here", nil)
				require.NoError(t, err)
				get.Header = http.Header{
					"Accept": {"text/csv"}, "Accept-Language": {"de", "en"}, "Accept-Encoding": {"identity"},
				}
				succeed(t, client, get)
				at, next := srv.Requests()[0], srv.Requests()[1]
				require.Equal(t, "other.test", next.Host)
				require.Contains(t, headerText(at.Header), "s3cr3t", "the origin gets it")
				require.NotContains(t, headerText(next.Header), "s3cr3t")
				require.Equal(t, "identity", next.Header.Get("Accept-Encoding"),
					"and the other headers go on")

				fail(t, client, headed(t, srv, "Accept", "text/csv"))
				require.NotContains(t, string(record(t, st, "op").Meta), "s3cr3t")
			})
		})
	}
}

func headerText(h http.Header) string {
	var b strings.Builder
	_ = h.Write(&b)
	return b.String()
}

// The user of a URL becomes an Authorization header, as http.Client does it. A header of the caller's own wins.
func TestTheUserOfAURLIsSentInTheHeader(t *testing.T) {
	for _, c := range []struct{ name, user, own, want string }{
		{"a user and a password", "user:hunter2@", "", "Basic dXNlcjpodW50ZXIy"},
		{"a user alone", "user@", "", "Basic dXNlcjo="},
		{"a header of the caller's own", "user:hunter2@", "Bearer t", "Bearer t"},
		{"no user", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				got = append(got, r.Header.Get("Authorization"))
				return answer(r, 503, ""), nil
			}), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 2, Jitter: redo.NoDelay}))
			req := post(t, t.Context(), "http://"+c.user+"api.test/refunds", payment)
			if c.own != "" {
				req.Header.Set("Authorization", c.own)
			}
			fail(t, client, req)
			require.Equal(t, []string{c.want, c.want}, got, "on each attempt")
		})
	}
}

package redo_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// atRest is everything that the record holds, with the bytes that its JSON holds as base64.
func atRest(t *testing.T, rec store.Record) string {
	t.Helper()
	var meta struct{ Body, Rest []byte }
	require.NoError(t, json.Unmarshal(rec.Meta, &meta))
	return string(rec.Meta) + string(meta.Body) + string(meta.Rest) + string(rec.Result)
}

// A query parameter with credentials is sent, and is in no record.
func TestCredentialsInTheQueryAreNotAtRest(t *testing.T) {
	for _, c := range []struct {
		name, query string
		secret      bool
	}{
		{"an API key", "api_key=s3cr3t", true},
		{"an API key among others", "a=1&API_KEY=s3cr3t&b=2", true},
		{"an escaped name", "a=1&api%5Fkey=s3cr3t", true},
		{"a token", "access_token=s3cr3t", true},
		{"a signature", "X-Amz-Signature=s3cr3t&x=1", true},
		{"no credentials", "author_id=7&monkey=1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)))
				st := openStore(t)
				req := func(query string) *http.Request {
					return post(t, redo.WithOperation(t.Context(), "op"), srv.URL+"/refunds?"+query, payment)
				}
				crash(t, srv, st, req(c.query))
				rec := record(t, st, "op")
				require.NotContains(t, atRest(t, rec), "s3cr3t")
				client := connect(t, srv.Transport(), redo.WithStore(st))
				op := pending(t, client)[0]
				require.Equal(t, !c.secret, op.Resumable, "half a URL is no request")
				require.NotContains(t, op.URL, "s3cr3t")

				// The same code is run again, with a fresh API key.
				_, body := succeed(t, client, req(strings.ReplaceAll(c.query, "s3cr3t", "r0tated")))
				require.JSONEq(t, `{"id":"rf_1"}`, body)
				sent := srv.Requests()
				require.Equal(t, sent[0].Key, sent[1].Key)
				if c.secret {
					require.Contains(t, sent[0].Query.Encode(), "s3cr3t", "the server gets it")
				}
				rec = record(t, st, "op")
				require.NotContains(t, atRest(t, rec), "r0tated")
			})
		})
	}
}

// A response marked Cache-Control: no-store is the caller's alone. Another call sends the request to the server.
func TestResponseMarkedNoStoreIsNotAtRest(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []string
		kept   bool
	}{
		{"no-store", []string{"Cache-Control", "no-store"}, false},
		{"no-store among others", []string{"Cache-Control", "private, No-Store ,max-age=0"}, false},
		{"no-store on a second line", []string{"Cache-Control", "private", "Cache-Control", "no-store"}, false},
		{"no-cache", []string{"Cache-Control", "no-cache"}, true},
		{"another directive with the word in it", []string{"Cache-Control", `x="no-store-2"`}, true},
		{"none", nil, true},
	} {
		for _, kind := range []string{"a token", "a stream", "a refusal", "a final failure"} {
			t.Run(c.name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sent, st := 0, openStore(t)
					client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
						sent++
						resp := answer(r, map[string]int{"a refusal": 422, "a final failure": 500}[kind],
							`{"access_token":"t0ken"}`, c.header...)
						switch kind {
						case "a token":
							resp.StatusCode = 200
						case "a stream":
							resp.StatusCode, resp.ContentLength = 200, -1
							resp.Header.Set("Content-Type", "application/x-ndjson")
						case "a final failure":
							resp.Header.Set("Idempotency-Status", "stored")
						}
						resp.Header.Set("X-Session-Hint", "t0ken")
						return resp, nil
					}), redo.WithStore(st))
					call := func() string {
						resp, err := client.Do(post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/token",
							payment))
						if err != nil {
							resp = failure(t, err).Response
						}
						if resp == nil {
							return ""
						}
						return drain(t, resp)
					}
					require.Contains(t, call(), "t0ken", "the caller gets it")
					rec := record(t, st, "op")
					require.Equal(t, c.kept, strings.Contains(atRest(t, rec), "t0ken"))
					if kind == "a token" || kind == "a stream" {
						require.Equal(t, store.StateComplete, rec.State)
						require.Contains(t, call(), "t0ken")
						require.Equal(t, map[bool]int{true: 1, false: 2}[c.kept], sent)
					}
				})
			})
		}
	}
}

func TestFindingsResponseMarkedNoStoreIsNotAtRest(t *testing.T) {
	for _, directive := range []string{"no-store", "private"} {
		t.Run(directive, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
				st := openStore(t)
				crash(t, srv, st, named(t, srv, "op", payment))
				client := connect(t, srv.Transport(), redo.WithStore(st))
				require.NoError(t, client.Settle(t.Context(), "op", redo.Finding{
					Effect: redo.Applied, Evidence: "read back", By: "ann",
					Response: &http.Response{StatusCode: 200, Header: http.Header{"Cache-Control": {directive}},
						Body: io.NopCloser(strings.NewReader("t0ken"))},
				}))
				require.Equal(t, directive != "no-store", strings.Contains(string(record(t, st, "op").Result), "t0ken"))
				resp, err := client.Do(named(t, srv, "op", payment))
				if directive == "no-store" {
					e := failure(t, err)
					require.Equal(t, taxonomy.ResultNotStored, e.Code)
					require.Equal(t, redo.Applied, e.Effect)
				} else {
					require.NoError(t, err)
					require.Equal(t, "t0ken", drain(t, resp))
				}
				require.Len(t, srv.Requests(), 1)
			})
		})
	}
}

// The url.Error of a custom transport, a credentials function or a probe shows no query.
func TestQueryOfAURLErrorIsNotInTheMessage(t *testing.T) {
	broken := func() error {
		return &url.Error{
			Op: "Post", URL: "https://user:pa55w0rd@auth.test/t?client_secret=s3cr3t", Err: syscall.ECONNRESET,
		}
	}
	lost := tripper(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET })
	for _, c := range []struct {
		name string
		rt   tripper
		opts []redo.Option
	}{
		{"of a transport", func(*http.Request) (*http.Response, error) { return nil, broken() }, nil},
		{
			"of a transport, wrapped",
			func(*http.Request) (*http.Response, error) { return nil, errors.Join(errors.New("pool"), broken()) }, nil,
		},
		{"of a body", func(r *http.Request) (*http.Response, error) {
			resp := answer(r, 200, "")
			resp.Body = brokenAfter(3, broken())
			return resp, nil
		}, nil},
		{"of credentials", lost, []redo.Option{redo.WithCredentials(func(*http.Request) error { return broken() })}},
		{"of a probe", func(r *http.Request) (*http.Response, error) {
			return answer(r, 500, "", "Idempotency-Status", "stored"), nil
		},
			[]redo.Option{redo.WithProbe(func(_ context.Context, _ redo.Operation) (redo.Finding,
				error) {
				return redo.Finding{}, broken()
			})}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := connect(t, c.rt, append(c.opts, redo.WithStore(openStore(t)))...)
				for range 2 {
					e := fail(t, client,
						post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/?q=qu3ry", payment))
					text := e.Error()
					for _, a := range e.Attempts {
						if a.Err != nil {
							text += a.Err.Error()
						}
					}
					for _, secret := range []string{"s3cr3t", "pa55w0rd", "qu3ry", "client_secret"} {
						require.NotContains(t, text, secret)
					}
				}
			})
		})
	}
	t.Run("text that is no query stays", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := connect(t, tripper(func(*http.Request) (*http.Response, error) { return nil, broken() }))
			e := fail(t, client, post(t, t.Context(), "http://api.test/", payment))
			require.ErrorContains(t, e, `Post "https://auth.test/t": connection reset by peer`)
			require.ErrorIs(t, e, syscall.ECONNRESET)
		})
	})
}

// A program without the keyring, such as the command line, can't read the request. Its finding would replace it.
func TestASealedOperationIsNotSettledWithoutItsKeyring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		engine := openStore(t)
		keyring, err := store.NewKeyring(store.SealKeys{Seal: store.SealKey{
			ID: "2026-11", Secret: []byte(strings.Repeat("s", store.SealSecret)),
		}})
		require.NoError(t, err)
		sealed := store.Sealed(engine, keyring)
		crash(t, srv, sealed, named(t, srv, "op", payment))
		plain := connect(t, srv.Transport(), redo.WithStore(engine))
		require.ErrorContains(t, plain.Settle(t.Context(), "op", appliedBy("ana", nil)), "can't be read")
		require.ErrorContains(t, plain.Settle(t.Context(), "op", notAppliedBy("ana")), "can't be read")

		owner := connect(t, srv.Transport(), redo.WithStore(sealed))
		require.NoError(t, owner.Settle(t.Context(), "op", appliedBy("ana", nil)))
		op, err := owner.Find(t.Context(), "op")
		require.NoError(t, err)
		require.Equal(t, redo.Applied, op.Effect)
	})
}

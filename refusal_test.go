package redo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestBadRequestsAreRefusedBeforeAnythingIsSentOrStored(t *testing.T) {
	type change = func(*http.Request)
	operation := func(name string) change {
		return func(r *http.Request) { *r = *r.WithContext(redo.WithOperation(r.Context(), name)) }
	}
	key := func(k string) change {
		return func(r *http.Request) { *r = *r.WithContext(redo.WithKey(r.Context(), k)) }
	}
	header := func(lines ...string) change {
		return func(r *http.Request) { r.Header["Idempotency-Key"] = lines }
	}
	for _, c := range []struct {
		name   string
		change change
		code   taxonomy.Code
	}{
		{"no URL", func(r *http.Request) { r.URL = nil }, taxonomy.InvalidRequest},
		{"a method that is no token", func(r *http.Request) { r.Method = "PO ST" }, taxonomy.InvalidRequest},
		{
			"a header name that is no token", func(r *http.Request) { r.Header["X Y"] = []string{"1"} },
			taxonomy.InvalidRequest,
		},
		{
			"a header value with a line break", func(r *http.Request) { r.Header["X-Y"] = []string{"1\r\nHost: b"} },
			taxonomy.InvalidRequest,
		},
		{"an empty URL", func(r *http.Request) { r.URL = &url.URL{} }, taxonomy.BadURL},
		{"no host", func(r *http.Request) { r.URL.Host = "" }, taxonomy.BadURL},
		{"no scheme", func(r *http.Request) { r.URL.Scheme = "" }, taxonomy.BadURL},
		{"another scheme", func(r *http.Request) { r.URL.Scheme = "ftp" }, taxonomy.BadURL},
		{"an empty operation", operation(""), taxonomy.InvalidOperation},
		{
			"an operation that is too long", operation(strings.Repeat("o", redo.MaxOperation+1)),
			taxonomy.InvalidOperation,
		},
		{"an operation with a line break", operation("a\nb"), taxonomy.InvalidOperation},
		{"an operation with a NUL", operation("a\x00b"), taxonomy.InvalidOperation},
		{"an operation with a DEL", operation("a\x7f"), taxonomy.InvalidOperation},
		{"an operation that is not UTF-8", operation("a\xff"), taxonomy.InvalidOperation},
		{"an empty key", key(""), taxonomy.KeyMalformed},
		{"a key that is too long", key(strings.Repeat("k", 256)), taxonomy.KeyMalformed},
		{"a key with a letter beyond ASCII", key("käse"), taxonomy.KeyMalformed},
		{"a key with a line break", key("a\r\nHost: b"), taxonomy.KeyMalformed},
		{"a key with a NUL", key("a\x00"), taxonomy.KeyMalformed},
		{"an empty key header", header(""), taxonomy.KeyMalformed},
		{"a key header of spaces", header("  "), taxonomy.KeyMalformed},
		{"two keys", header("a", "b"), taxonomy.KeyMalformed},
		{"two keys on a line", header("a, b"), taxonomy.KeyMalformed},
		{"an unfinished quotation", header(`"abc`), taxonomy.KeyMalformed},
		{"a bad escape", header(`"a\c"`), taxonomy.KeyMalformed},
		{"a key header that is too long", header(strings.Repeat("k", 256)), taxonomy.KeyMalformed},
		{"a key header with a control byte", header("a\tb"), taxonomy.KeyMalformed},
	} {
		for _, face := range []string{"Do", "Transport"} {
			t.Run(c.name+", "+face, func(t *testing.T) {
				srv, st := servertest.NewInMemory(t), openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st))
				body := &watchedBody{Reader: strings.NewReader(payment)}
				req := named(t, srv, "op", payment)
				req.Body = body
				c.change(req)
				do := client.Do
				if face == "Transport" {
					do = client.Transport().RoundTrip
				}
				resp, err := do(req)
				require.Nil(t, resp)
				e := failure(t, err)
				require.Equal(t, c.code, e.Code)
				require.Equal(t, redo.NotApplied, e.Effect)
				require.False(t, redo.SafeToRetry(e))
				require.Empty(t, e.Attempts)
				require.Nil(t, e.Response)
				require.Empty(t, srv.Requests())
				require.Empty(t, pending(t, client))
				require.EqualValues(t, 1, body.closed.Load(), "its body is closed")
			})
		}
	}
}

func TestLongestOperationAndKeyAreTaken(t *testing.T) {
	srv, st := servertest.NewInMemory(t), openStore(t)
	name, key := strings.Repeat("ö", redo.MaxOperation/2), strings.Repeat("k", 255)
	ctx := redo.WithKey(redo.WithOperation(t.Context(), name), key)
	succeed(t, connect(t, srv.Transport(), redo.WithStore(st)), post(t, ctx, srv.URL, payment))
	require.Equal(t, key, srv.Requests()[0].Key)
	require.NotEmpty(t, record(t, st, name).Result)
}

func TestNilRequestIsAnError(t *testing.T) {
	client := connect(t, http.DefaultTransport)
	e := fail(t, client, nil)
	require.Equal(t, taxonomy.InvalidRequest, e.Code)
	_, err := client.Transport().RoundTrip(nil)
	require.Equal(t, taxonomy.InvalidRequest, failure(t, err).Code)
}

func TestRequestWithoutContextOrHeaderIsSent(t *testing.T) {
	srv := servertest.NewInMemory(t)
	u, err := url.Parse(srv.URL)
	require.NoError(t, err)
	req := &http.Request{Method: http.MethodPost, URL: u}
	resp, _ := succeed(t, connect(t, srv.Transport()), req)
	require.NotEmpty(t, redo.KeyOf(resp))
	require.Nil(t, req.Header, "the caller's request is not changed")
}

func TestClosedClientRefusesCallsAndLosesNothing(t *testing.T) {
	srv, st := servertest.NewInMemory(t), openStore(t)
	client := connect(t, srv.Transport(), redo.WithStore(st))
	require.NoError(t, client.Close())
	require.NoError(t, client.Close(), "closing again does nothing")
	body := &watchedBody{Reader: strings.NewReader(payment)}
	req := named(t, srv, "op", "")
	req.Body = body
	e := fail(t, client, req)
	require.Equal(t, taxonomy.ClientClosed, e.Code)
	require.ErrorIs(t, e, redo.ErrClosed)
	require.EqualValues(t, 1, body.closed.Load())
	require.Empty(t, srv.Requests())
	requireAbsent(t, st, "op")
	succeed(t, connect(t, srv.Transport(), redo.WithStore(st)), named(t, srv, "op", payment))
}

func TestCallerWhoHasGivenUpSendsNothing(t *testing.T) {
	srv := servertest.NewInMemory(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body := &watchedBody{Reader: strings.NewReader(payment)}
	req := post(t, ctx, srv.URL, "")
	req.Body = body
	e := fail(t, connect(t, srv.Transport()), req)
	require.Equal(t, taxonomy.CallerCanceled, e.Code)
	require.ErrorIs(t, e, context.Canceled)
	require.Equal(t, redo.NotApplied, e.Effect)
	require.Empty(t, srv.Requests())
	require.Positive(t, body.closed.Load())
}

func TestCredentialsThatFailCloseTheBody(t *testing.T) {
	srv := servertest.NewInMemory(t)
	body := &watchedBody{Reader: strings.NewReader(payment)}
	req := post(t, t.Context(), srv.URL, "")
	req.Body = body
	refused := errors.New("no token")
	e := fail(t, connect(t, srv.Transport(), redo.WithCredentials(func(*http.Request) error { return refused })), req)
	require.ErrorIs(t, e, refused)
	require.Positive(t, body.closed.Load())
	require.Empty(t, srv.Requests())
}

func TestStoreThatSpeaksAnotherVersionSendsNothing(t *testing.T) {
	srv, st := servertest.NewInMemory(t), openStore(t)
	req := named(t, srv, "op", payment)
	claim := claimOf(t, srv, req)
	for _, meta := range []string{"", "{", `{"v":2,"key":"k"}`} {
		t.Run(meta, func(t *testing.T) {
			claim.Meta = []byte(meta)
			grant, err := st.Reserve(t.Context(), claim)
			require.NoError(t, err)
			client := connect(t, srv.Transport(), redo.WithStore(st))
			e := fail(t, client, named(t, srv, "op", payment))
			require.Equal(t, taxonomy.Unavailable, e.Code)
			require.Equal(t, redo.EffectUnknown, e.Effect, "never a reason to run it anew")
			require.Empty(t, srv.Requests())
			n := 0
			for op, err := range client.Pending(t.Context()) {
				require.Error(t, err)
				require.Equal(t, "op", op.Name)
				n++
			}
			require.Equal(t, 1, n)
			rec := record(t, st, "op")
			require.GreaterOrEqual(t, rec.Fence, grant.Lease.Fence)
			require.NoError(t, st.Release(t.Context(), rec.Lease()))
		})
	}
}

// The store's state alone shows that the operation was not applied. A complete one may have been.
func TestOnlyAFailedRecordOfAnotherVersionStartsAnew(t *testing.T) {
	for _, failed := range []bool{true, false} {
		srv, st := servertest.NewInMemory(t), openStore(t)
		claim := claimOf(t, srv, named(t, srv, "op", payment))
		claim.Meta = []byte(`{"v":2,"key":"k"}`)
		grant, err := st.Reserve(t.Context(), claim)
		require.NoError(t, err)
		require.NoError(t, st.Complete(t.Context(), grant.Lease, store.Outcome{Failed: failed, Result: []byte{2}}))
		client := connect(t, srv.Transport(), redo.WithStore(st))
		if failed {
			succeed(t, client, named(t, srv, "op", payment))
		} else {
			require.Equal(t, taxonomy.Unavailable, fail(t, client, named(t, srv, "op", payment)).Code)
			require.Empty(t, srv.Requests())
		}
	}
}

// The second attempt needs another copy of the body.
func TestABodyThatCannotBeReadAgainEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)))
		gone := errors.New("the file is gone")
		req := keyed(t, srv, "k1")
		req.GetBody = func() (io.ReadCloser, error) { return nil, gone }
		e := fail(t, connect(t, srv.Transport()), req)
		require.Equal(t, []any{taxonomy.BodyNotReplayable, redo.EffectUnknown}, []any{e.Code, e.Effect})
		require.ErrorIs(t, e, gone)
		require.Len(t, srv.Requests(), 1)
	})
}

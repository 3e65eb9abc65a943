package redo_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

const (
	cutRefusal = "HTTP/1.1 422 Unprocessable Entity\r\nContent-Type: text/plain\r\nContent-Length: " +
		"100\r\n\r\nthe amount is"
	wholeRefusal = "HTTP/1.1 422 Unprocessable Entity\r\nContent-Type: text/plain\r\nContent-Length: " +
		"13\r\n\r\nthe amount is"
	chunkedStart = "HTTP/1.1 422 Unprocessable Entity\r\nContent-Type: text/plain\r\nTransfer-Encoding: " +
		"chunked\r\n\r\nd\r\nthe amount is\r\n"
)

// An SDK above must not take half an error document for a whole one.
func TestTruncatedErrorBodyUnderTransportEndsWithAnError(t *testing.T) {
	long := strings.Repeat("x", 100<<10) // beyond the part of an error that the client reads
	for _, c := range []struct {
		name, response, body string
		cut                  bool
	}{
		{"a body shorter than its length", cutRefusal, "the amount is", true},
		{"chunks without an end", chunkedStart, "the amount is", true},
		{"a long body shorter than its length", "HTTP/1.1 422 No\r\nContent-Length: 200000\r\n\r\n" + long, long, true},
		{"a whole body", wholeRefusal, "the amount is", false},
		{"chunks with an end", chunkedStart + "0\r\n\r\n", "the amount is", false},
	} {
		for _, kind := range []string{"a plain request", "a stored operation"} {
			t.Run(c.name+", "+kind, func(t *testing.T) {
				srv, st := serveRaw(t, c.response), openStore(t)
				ctx := t.Context()
				if kind == "a stored operation" {
					ctx = redo.WithOperation(ctx, "op")
				}
				resp, err := under(connect(t, fresh(t), quick, redo.WithStore(st))).Do(post(t, ctx, srv.url, payment))
				require.NoError(t, err)
				require.Equal(t, 422, resp.StatusCode)
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, c.body, string(b))
				require.Equal(t, c.cut, err != nil)
				if c.cut {
					require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				}
				if kind == "a stored operation" {
					rec := record(t, st, "op")
					require.Equal(t, store.StateFailed, rec.State)
					require.Equal(t, !c.cut, strings.Contains(atRest(t, rec), "the amount is"),
						"half a body is not recorded as a whole one")
				}
			})
		}
	}
}

// A header map may be written to by hand, in any spelling. There is one key on the wire.
func TestKeyHeaderInAnotherSpellingIsOneKey(t *testing.T) {
	for _, spelling := range []string{"idempotency-key", "IDEMPOTENCY-KEY", "Idempotency-Key"} {
		for _, c := range []struct {
			name  string
			given string // WithKey
			want  string
		}{
			{"the header's key is sent", "", "k2"},
			{"a given key replaces it", "k1", "k1"},
		} {
			for _, face := range []string{"Do", "Transport"} {
				t.Run(spelling+", "+c.name+", "+face, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						srv := servertest.NewInMemory(t, servertest.Script(c.want, servertest.Status(503)))
						client := connect(t, srv.Transport(), redo.WithProfile(redo.RedoProfile()))
						ctx := t.Context()
						if c.given != "" {
							ctx = redo.WithKey(ctx, c.given)
						}
						req := post(t, ctx, srv.URL, payment)
						req.Header[spelling] = []string{"k2"}
						do := client.Do
						if face == "Transport" {
							do = under(client).Do
						}
						resp, err := do(req)
						require.NoError(t, err)
						drain(t, resp)
						require.Equal(t, []string{c.want, c.want}, keys(srv))
						for _, r := range srv.Requests() {
							require.Equal(t, []string{c.want}, r.Header.Values("Idempotency-Key"))
						}
						require.Equal(t, []string{"k2"}, req.Header[spelling], "the caller's request is not changed")
					})
				})
			}
		}
	}
	t.Run("an SDK's own key goes as it is", func(t *testing.T) {
		for _, spelling := range []string{"idempotency-key", "Idempotency-Key"} {
			srv := servertest.NewInMemory(t)
			req := post(t, t.Context(), srv.URL, payment)
			req.Header[spelling] = []string{"k2"}
			resp, err := under(connect(t, srv.Transport())).Do(req)
			require.NoError(t, err)
			drain(t, resp)
			require.Equal(t, []string{"k2"}, srv.Requests()[0].Header.Values("Idempotency-Key"), spelling)
		}
	})
	t.Run("a safe request has none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
			require.NoError(t, err)
			req.Header["idempotency-key"] = []string{"k2"}
			succeed(t, connect(t, srv.Transport()), req)
			require.Empty(t, srv.Requests()[0].Header.Values("Idempotency-Key"))
		})
	})
}

// Some SDKs set Accept-Encoding, so net/http leaves the body packed. Its words count all the same.
func TestAnErrorInGzipIsReadAndReturnedAsItIs(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, `{"code":"CONFLICT.idempotency.in_flight"}`)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 {
			return
		}
		w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write(packed.Bytes())
	}))
	t.Cleanup(srv.Close)
	client := connect(t, fresh(t), quick)
	send := func() (*http.Response, error) {
		req := post(t, redo.WithKey(t.Context(), "k1"), srv.URL, payment)
		req.Header.Set("Accept-Encoding", "gzip")
		return client.Do(req)
	}
	resp, err := send()
	require.NoError(t, err, "the operation was still running, so the client waited")
	require.NoError(t, resp.Body.Close())

	_, err = send()
	e := failure(t, err)
	require.Equal(t, taxonomy.InFlight, e.Code)
	require.Equal(t, packed.String(), drain(t, e.Response))
}

package servertest_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo/servertest"
	"github.com/stretchr/testify/require"
)

func TestLedgerEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Bare(), servertest.Principal(func(r *http.Request) string {
			return r.Header.Get("X-Tenant")
		}))
		time.Sleep(time.Hour)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, srv.URL+"/refunds/7?dry=no",
			strings.NewReader("abc"))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", `"k1"`)
		req.Header.Set("X-Tenant", "acme")
		resp, err := srv.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []servertest.Entry{{
			ID: "rf_1", Key: "k1", Principal: "acme", Method: "PATCH", Path: "/refunds/7", Request: 1, At: time.Now(),
			PayloadHash: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", // of "abc", FIPS 180-2
		}}, srv.Ledger().Entries())
	})
}

func TestLedgerCounts(t *testing.T) {
	srv := servertest.NewInMemory(t, servertest.Bare(),
		servertest.Principal(func(r *http.Request) string { return r.URL.Path }),
		servertest.Script("refused", servertest.Status(503)))
	for _, sent := range []struct{ path, key string }{
		{"/b", "twice"}, {"/a", "once"}, {"/a", "shared"}, {"/b", "shared"}, {"/b", "twice"}, {"/a", "refused"},
		{"/a", ""}, {"/a", ""},
	} {
		resp, err := post(t, srv.Client(), srv.URL+sent.path, sent.key)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	l := srv.Ledger()
	for key, want := range map[string]struct{ effects, requests int }{
		"once": {1, 1}, "twice": {2, 2}, "shared": {2, 2}, "refused": {0, 1}, "": {2, 2}, "never": {0, 0},
	} {
		require.Equal(t, want.effects, l.Effects(key), key)
		require.Equal(t, want.requests, l.Requests(key), key)
	}
	require.Equal(t, 7, l.Total())
	require.Equal(t, []string{"twice"}, l.Duplicates(),
		"a key of two principals, and requests without one, are no duplicates")
}

func TestSafeMethodsMakeNoEffect(t *testing.T) {
	for method, want := range map[string]struct{ status, effects int }{
		"GET": {204, 0}, "OPTIONS": {204, 0}, "QUERY": {204, 0}, "POST": {201, 1}, "DELETE": {201, 1},
	} {
		t.Run(method, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.Bare())
			req, err := http.NewRequestWithContext(t.Context(), method, srv.URL, nil)
			require.NoError(t, err)
			resp, err := srv.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want.status, resp.StatusCode)
			require.Equal(t, want.effects, srv.Ledger().Total())
			require.Equal(t, 1, srv.Ledger().Requests(""))
		})
	}
}

func TestAssertEffectsTellsTheKeysHistory(t *testing.T) {
	srv := servertest.NewInMemory(t, servertest.Bare(), servertest.Script("k1", servertest.StatusAfterEffect(502)))
	statuses(t, srv, "k1", "other", "k1")
	fake := &fakeTB{TB: t}
	srv.Ledger().AssertEffects(fake, "k1", 2)
	srv.Ledger().AssertEffects(fake, `"k1"`, 2) // the same key
	require.Equal(t, 2, srv.Ledger().Requests(`"k1"`))
	require.Empty(t, fake.errors)
	srv.Ledger().AssertEffects(fake, "k1", 1)
	require.Equal(t, []string{`servertest: key "k1" had 2 effects, want 1
	request 1: POST /, step "StatusAfterEffect(502)"
	request 3: POST /, step ""
	effect rf_1: by request 1
	effect rf_3: by request 3
`}, fake.errors)
}

func TestRequestsAreWhatWasSent(t *testing.T) {
	onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
		srv := start(t, servertest.Bare(),
			servertest.Script("k1", servertest.ResetBeforeRead(), servertest.Status(503)))
		_, err := post(t, srv.Client(), srv.URL+"/refunds?a=1", "k1")
		require.Error(t, err)
		resp, err := post(t, srv.Client(), srv.URL+"/refunds?a=1", "k1")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())

		sent := srv.Requests()
		require.Len(t, sent, 2)
		require.Nil(t, sent[0].Body, "it was reset before its body was read")
		require.Equal(t, "ResetBeforeRead()", sent[0].Step)
		require.Equal(t, `{"charge":"ch_9ab"}`, string(sent[1].Body))
		require.Equal(t, "Status(503)", sent[1].Step)
		require.Equal(t, "POST", sent[1].Method)
		require.Equal(t, "/refunds", sent[1].Path)
		require.Equal(t, "1", sent[1].Query.Get("a"))
		require.Equal(t, "k1", sent[1].Header.Get("Idempotency-Key"))
		require.Equal(t, strings.TrimPrefix(srv.URL, "http://"), sent[1].Host)
		require.Equal(t, []int{1, 2}, []int{sent[0].Number, sent[1].Number})

		sent[1].Header.Set("Idempotency-Key", "changed")
		sent[1].Body[0] = 'X'
		again := srv.Requests()
		require.Equal(t, "k1", again[1].Header.Get("Idempotency-Key"), "Requests returns a copy")
		require.Equal(t, byte('{'), again[1].Body[0])
	})
}

func TestMalformedKeysAreKeptAsTheyCame(t *testing.T) {
	srv := servertest.NewInMemory(t, servertest.Bare(), servertest.Script("a, b", servertest.Status(400)),
		servertest.Script(`"open`, servertest.Status(400)))
	for _, lines := range [][]string{{"a", "b"}, {`"open`}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, http.NoBody)
		require.NoError(t, err)
		req.Header["Idempotency-Key"] = lines
		resp, err := srv.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 400, resp.StatusCode)
	}
}

func TestEffectNeedsTheServersContext(t *testing.T) {
	entry, err := servertest.Effect(t.Context())
	require.ErrorIs(t, err, servertest.ErrNoRequest)
	require.Zero(t, entry)
}

func TestConcurrentUse(t *testing.T) {
	const keys, times = 16, 4
	onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
		srv := start(t, servertest.Bare(),
			servertest.ScriptEach(servertest.Status(503), servertest.ResetAfterEffect(), servertest.OK()))
		var group sync.WaitGroup
		for k := range keys {
			for range times {
				group.Go(func() {
					resp, err := post(t, srv.Client(), srv.URL, fmt.Sprint("k", k))
					if err == nil {
						_ = resp.Body.Close()
					}
					srv.Ledger().Duplicates()
					srv.Requests()
				})
			}
		}
		group.Wait()
		ids := make(map[string]bool)
		for _, e := range srv.Ledger().Entries() {
			ids[e.ID] = true
		}
		require.Len(t, ids, srv.Ledger().Total(), "every effect has a different id")
		for k := range keys {
			key := fmt.Sprint("k", k)
			require.Equal(t, srv.Ledger().Requests(key)-1, srv.Ledger().Effects(key), "only the 503 made no effect")
		}
	})
}

package reference

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/memstore"
)

func start(t *testing.T, cfg Config) *servertest.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv, err := Serve(l, cfg, nil)
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	return srv
}

func TestServerConformsAsItsTargetSays(t *testing.T) {
	for _, profile := range Profiles() {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Profile: profile}
			srv := start(t, cfg)
			report, err := conformance.Run(t.Context(), Target(srv.URL, cfg))
			require.NoError(t, err)
			var text strings.Builder
			require.NoError(t, report.WriteText(&text))
			require.Zero(t, report.ExitCode(true), text.String())
			var skipped []string
			for _, res := range report.Results {
				require.NotEqual(t, conformance.Inconclusive, res.Verdict, "%s: %s", res.Slug, res.Reason)
				if res.Verdict == conformance.Skip {
					skipped = append(skipped, res.Slug)
				}
			}
			// Keys are required, and no command can restart the server. Stripe has no problem documents.
			want := []string{"key-optional", "restart-durable"}
			if profile == "stripe" {
				want = []string{"key-optional", "mismatch-problem", "restart-durable"}
			}
			require.Equal(t, want, skipped)
		})
	}
}

// The description of the target suffices to find a server without the rules.
func TestServerThatForgetsKeysDoesNot(t *testing.T) {
	cfg := Config{Bare: true}
	srv := start(t, cfg)
	report, err := conformance.Run(t.Context(), Target(srv.URL, cfg), conformance.Only("replay-effect", "mismatch-body",
		"key-missing"))
	require.NoError(t, err)
	require.Equal(t, conformance.ExitFailed, report.ExitCode(false))
	for _, slug := range []string{"replay-effect", "mismatch-body"} {
		res, _ := report.Result(slug)
		require.Equal(t, conformance.Fail, res.Verdict, slug)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close() })
	for want, cfg := range map[string]Config{
		`there is no profile "ours"`: {Profile: "ours"},
		"a bare server forgets keys": {Bare: true, Store: st},
		"Wait: -1ns is negative":     {Wait: -1},
		"a script contains the zero Fault": {Script: []servertest.Option{servertest.Script("k",
			servertest.Fault{})}},
		"a script makes the store fail": {Bare: true, Script: []servertest.Option{servertest.Script("k",
			servertest.StoreFailsAtReserve())}},
		"the status is 42, it must be in [200, 999]": {Script: []servertest.Option{servertest.Script("k",
			servertest.Status(42))}},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_, err = Serve(l, cfg, nil)
		require.ErrorContains(t, err, want)
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed, "the listener is left open")
	}
}

func TestMismatchHasOneStatusInItsDocumentToo(t *testing.T) {
	srv := start(t, Config{Profile: "stripe"})
	send := func(body string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/orders", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := srv.Client().Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	require.Equal(t, http.StatusCreated, send(`{"amount":1}`).StatusCode)
	resp := send(`{"amount":2}`)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Equal(t, "CONFLICT.idempotency.payload_mismatch", resp.Header.Get("Error-Code"))
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"status":400`)
}

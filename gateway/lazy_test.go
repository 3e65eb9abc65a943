package gateway_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/boltstore"
)

// lingering opens a file whose lazy changes wait until another change is durable.
func lingering(t *testing.T, path string) *boltstore.Store {
	t.Helper()
	st, err := boltstore.Open(path, boltstore.WithLazyDelay(time.Hour))
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func TestRequestWaitsForOneCommit(t *testing.T) {
	up := servertest.New(t)
	st := lingering(t, filepath.Join(t.TempDir(), "gateway.redo"))
	gw, _ := open(t, up.URL, st)
	send(t, gw.URL, tap{"ann", "first", "{}"}) // its commit also reserves fences
	for _, c := range []struct {
		what    string
		commits uint64
		tap     tap
	}{
		{"a success", 1, tap{"ann", "k1", "{}"}},
		{"its repetition", 0, tap{"ann", "k1", "{}"}},
		{"the request of another phone", 1, tap{"ben", "k1", "{}"}},
	} {
		before := st.Stats().Commits
		status, _, _ := send(t, gw.URL, c.tap)
		require.Equal(t, http.StatusCreated, status, c.what)
		require.Equal(t, before+c.commits, st.Stats().Commits, c.what)
	}
}

// A power cut comes right after the response, before the lazy changes are on the disk.
func TestLostSuccessIsReplayedByTheUpstream(t *testing.T) {
	up := servertest.New(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.redo")
	gw, _ := open(t, up.URL, lingering(t, path))
	send(t, gw.URL, tap{"ann", "first", "{}"})
	status, _, first := send(t, gw.URL, tap{"ann", "k1", `{"amount":10}`})
	require.Equal(t, http.StatusCreated, status)

	after := filepath.Join(dir, "after.redo")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(after, content, 0o600))
	gw, _ = open(t, up.URL, lingering(t, after))
	requests := len(up.Requests())
	status, _, again := send(t, gw.URL, tap{"ann", "k1", `{"amount":10}`})
	require.Equal(t, http.StatusCreated, status)
	require.Equal(t, first, again)
	require.Equal(t, requests+1, len(up.Requests()), "the upstream is asked again")
	status, _, _ = send(t, gw.URL, tap{"ann", "k1", `{"amount":11}`})
	require.Equal(t, http.StatusConflict, status, "the claim survives with the request")
	require.Empty(t, up.Ledger().Duplicates())
}

// The upstream does not keep a refusal, so a repetition after a power cut would run.
func TestRefusalIsDurableBeforeItsResponse(t *testing.T) {
	up := servertest.New(t, servertest.ScriptNext(servertest.Status(http.StatusPaymentRequired)))
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.redo")
	gw, _ := open(t, up.URL, lingering(t, path))
	status, _, first := send(t, gw.URL, tap{"ann", "k1", "{}"})
	require.Equal(t, http.StatusPaymentRequired, status)

	after := filepath.Join(dir, "after.redo")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(after, content, 0o600))
	gw, _ = open(t, up.URL, lingering(t, after))
	status, _, again := send(t, gw.URL, tap{"ann", "k1", "{}"})
	require.Equal(t, http.StatusPaymentRequired, status)
	require.Equal(t, first, again)
	require.Zero(t, up.Ledger().Total())
}

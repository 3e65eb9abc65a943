package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

// http.Server.Shutdown does not wait for the handlers of an HTTP/2 connection that the client has closed. The effects of
// such a handler must not come after the store is closed.
func TestShutdownWaitsForAHandlerWhoseConnectionIsGone(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=1,http2server=1") // the environment may switch HTTP/2 off
	begun, release := make(chan struct{}), make(chan struct{})
	st := newFaults(nil)
	g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		created(w, r)
	})
	srv := httptest.NewUnstartedServer(g)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	gone := make(chan error)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/refunds/1", strings.NewReader("{}"))
		if err == nil {
			req.Header.Set("Idempotency-Key", "k1")
			_, err = srv.Client().Do(req) //nolint:bodyclose // there is no response
		}
		gone <- err
	}()
	<-begun
	srv.CloseClientConnections()
	require.Error(t, <-gone)
	require.NoError(t, srv.Config.Shutdown(t.Context()))
	ended := make(chan error)
	go func() { ended <- g.background.Shutdown(t.Context()) }()
	select {
	case <-ended:
		require.Fail(t, "the handler is still running")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-ended)
	require.Equal(t, 1, st.count("Complete"))
}

func TestShutdownWhileAHandlerRuns(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * time.Second)
		created(w, r)
	}
	// begin returns a rig whose handler has begun, and the response's channel.
	begin := func(t *testing.T, st store.Store, opts ...server.Option) (*rig, chan *httptest.ResponseRecorder) {
		g, done := newRig(t, st, slow, opts...), make(chan *httptest.ResponseRecorder, 1)
		go func() { done <- g.do() }()
		synctest.Wait()
		return g, done
	}
	t.Run("waits for its outcome", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, done := begin(t, newFaults(nil))
			start := time.Now()
			require.NoError(t, g.background.Shutdown(t.Context()))
			require.Equal(t, 10*time.Second, time.Since(start))
			requireStored(t, <-done, 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("keeps its outcome while the store is down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(failing("Complete", store.ErrUnavailable))
			g, done := begin(t, st)
			time.AfterFunc(time.Minute, st.heal)
			require.NoError(t, g.background.Shutdown(t.Context()))
			requireProblem(t, <-done, 503, "DEPENDENCY.unavailable")
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("ends with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			g, done := begin(t, newFaults(failing("Complete", store.ErrUnavailable)), logger)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err := g.background.Shutdown(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "1 requests are running")
			requireProblem(t, <-done, 503, "DEPENDENCY.unavailable")
			require.Zero(t, g.background.Len(), "nothing is kept after Shutdown")
			require.Contains(t, log.String(), "msg=\"idempotent outcome not recorded\" idempotency_key=k1")
			require.NoError(t, g.background.Shutdown(t.Context()))
		})
	})
}

package servertest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResetAfterBytesOfAnAnswerHasNotFired(t *testing.T) {
	late := newFault(func(x *exchange) {
		_, _ = x.conn.Write([]byte("HTTP/1.1 "))
		x.reset()
	}, "Late()")
	srv := NewInMemory(t, Bare(), Lenient(), Script("k1", late))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k1")
	_, err = srv.Client().Do(req)
	require.Error(t, err)
	srv.Close()
	require.Equal(t, []string{`key "k1", step 1, Late(): taken by request 1, but it did not reach the wire: ` +
		"servertest: 9 bytes of a response were written before the connection ended"}, srv.scripts.unfired())
}

func TestResetOfAnUnknownConnectionIsRefused(t *testing.T) {
	a, b := net.Pipe()
	t.Cleanup(func() { require.NoError(t, errors.Join(a.Close(), b.Close())) })
	conn := &wireConn{Conn: a, forget: func(*wireConn) {}}
	require.EqualError(t, conn.Reset(), "servertest: a *net.pipe can't be reset")
	_, err := b.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the peer does not wait")
}

func TestCloseEndsConnectionsThatWereTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewInMemory(t, Bare(), Script("", SlowHeaders(time.Hour)))
		failed := make(chan error, 1)
		go func() {
			_, err := srv.Client().Post(srv.URL, "text/plain", strings.NewReader("x"))
			failed <- err
		}()
		synctest.Wait()
		srv.Close()
		require.ErrorIs(t, <-failed, io.ErrUnexpectedEOF)
		require.Empty(t, srv.listener.open)
	})
}

func TestSlowBodyEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewInMemory(t, Bare(), Script("", SlowBody(time.Hour)))
		began := time.Now()
		resp, err := srv.Client().Post(srv.URL, "text/plain", strings.NewReader("x"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		synctest.Wait()
		require.Empty(t, srv.listener.open)
		require.Zero(t, time.Since(began))
	})
}

func TestCloseEndsAWriteThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 4*pipeBuffer))
		})
		srv := NewInMemory(t, Bare(), Lenient(), Handler(large), Script("", TruncatedBody(3*pipeBuffer)))
		resp, err := srv.Client().Post(srv.URL, "text/plain", strings.NewReader("x"))
		require.NoError(t, err)
		defer resp.Body.Close()
		synctest.Wait()
		srv.Close()
		require.Empty(t, srv.listener.open)
	})
}

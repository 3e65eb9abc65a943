package servertest

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPipe(t *testing.T) {
	t.Run("bytes written before a close are read, then io.EOF", func(t *testing.T) {
		a, b := newPipe("memory:1", "memory:0")
		_, err := a.Write([]byte("hello"))
		require.NoError(t, err)
		require.NoError(t, a.Close())
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
	})
	t.Run("bytes written before a reset are read, then ECONNRESET", func(t *testing.T) {
		a, b := newPipe("memory:1", "memory:0")
		_, err := a.Write([]byte("hello"))
		require.NoError(t, err)
		require.NoError(t, a.Reset())
		got, err := io.ReadAll(b)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, "hello", string(got))
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
	t.Run("writing to a closed peer is EPIPE", func(t *testing.T) {
		a, b := newPipe("memory:1", "memory:0")
		require.NoError(t, b.Close())
		_, err := a.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
	})
	t.Run("a closed end refuses everything with net.ErrClosed", func(t *testing.T) {
		a, _ := newPipe("memory:1", "memory:0")
		require.NoError(t, a.Close())
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, a.SetDeadline(time.Time{}), net.ErrClosed)
		require.ErrorIs(t, a.Close(), net.ErrClosed)
		require.ErrorIs(t, a.Reset(), net.ErrClosed)
	})
	t.Run("the two ends know each other's address", func(t *testing.T) {
		a, b := newPipe("memory:1", "memory:0")
		require.Equal(t, "memory:1", a.LocalAddr().String())
		require.Equal(t, a.LocalAddr(), b.RemoteAddr())
		require.Equal(t, "memory", b.LocalAddr().Network())
	})
}

func TestPipeFlow(t *testing.T) {
	t.Run("a full buffer makes the writer wait for the reader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := newPipe("memory:1", "memory:0")
			sent := bytes.Repeat([]byte("0123456789"), 3*pipeBuffer/10)
			wrote := make(chan error, 1)
			go func() {
				_, err := a.Write(sent)
				wrote <- err
			}()
			synctest.Wait()
			require.Empty(t, wrote)
			got := make([]byte, len(sent))
			_, err := io.ReadFull(b, got)
			require.NoError(t, err)
			require.NoError(t, <-wrote)
			require.True(t, bytes.Equal(sent, got))
		})
	})
	t.Run("a reset wakes a writer and a reader that wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := newPipe("memory:1", "memory:0")
			failed := make(chan error, 2)
			go func() {
				_, err := a.Write(make([]byte, 2*pipeBuffer))
				failed <- err
			}()
			go func() {
				_, err := a.Read(make([]byte, 1))
				failed <- err
			}()
			synctest.Wait()
			require.NoError(t, b.Reset())
			require.ErrorIs(t, <-failed, syscall.ECONNRESET)
			require.ErrorIs(t, <-failed, syscall.ECONNRESET)
		})
	})
}

func TestPipeDeadlines(t *testing.T) {
	t.Run("a waiting read ends at its deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, _ := newPipe("memory:1", "memory:0")
			start := time.Now()
			require.NoError(t, a.SetReadDeadline(start.Add(3*time.Second)))
			_, err := a.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Equal(t, 3*time.Second, time.Since(start))
			var timeout net.Error
			require.ErrorAs(t, err, &timeout)
			require.True(t, timeout.Timeout())
		})
	})
	t.Run("a waiting write ends at its deadline and reports its length", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, _ := newPipe("memory:1", "memory:0")
			require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Second)))
			n, err := a.Write(make([]byte, pipeBuffer+1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Equal(t, pipeBuffer, n)
		})
	})
	t.Run("a deadline in the past wakes a read that waits, and lifting it lets the next one wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := newPipe("memory:1", "memory:0")
			failed := make(chan error, 1)
			go func() {
				_, err := a.Read(make([]byte, 1))
				failed <- err
			}()
			synctest.Wait()
			require.NoError(t, a.SetReadDeadline(time.Unix(1, 0)))
			require.ErrorIs(t, <-failed, os.ErrDeadlineExceeded)

			require.NoError(t, a.SetDeadline(time.Time{}))
			_, err := b.Write([]byte("x"))
			require.NoError(t, err)
			n, err := a.Read(make([]byte, 1))
			require.NoError(t, err)
			require.Equal(t, 1, n)
		})
	})
	t.Run("a deadline that was replaced does not fire", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, _ := newPipe("memory:1", "memory:0")
			start := time.Now()
			require.NoError(t, a.SetReadDeadline(start.Add(time.Second)))
			require.NoError(t, a.SetReadDeadline(start.Add(5*time.Second)))
			_, err := a.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Equal(t, 5*time.Second, time.Since(start))
		})
	})
}

func TestMemListener(t *testing.T) {
	t.Run("a closed listener refuses with ECONNREFUSED", func(t *testing.T) {
		l := newMemListener()
		require.NoError(t, l.Close())
		_, err := l.Dial(t.Context())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	})
	t.Run("a dial that no listener accepts ends with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := newMemListener().Dial(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
}

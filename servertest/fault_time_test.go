package servertest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo/servertest"
	"github.com/stretchr/testify/require"
)

func TestDelaysTakeExactlyAsLongAsTheySay(t *testing.T) {
	for _, test := range []struct {
		rule   string
		fault  servertest.Fault
		header time.Duration // until the client has the header
		whole  time.Duration // until it has the body
	}{
		{"OK takes no time", servertest.OK(), 0, 0},
		{"Delay holds the request", servertest.Delay(2 * time.Second), 2 * time.Second, 2 * time.Second},
		{
			"DelayInHandler holds the handler", servertest.DelayInHandler(3 * time.Second), 3 * time.Second,
			3 * time.Second,
		},
		{"DelayAfterEffect holds the response", servertest.DelayAfterEffect(time.Minute), time.Minute, time.Minute},
		{"SlowHeaders holds the header", servertest.SlowHeaders(time.Second), time.Second, time.Second},
		{"SlowBody holds each of four parts", servertest.SlowBody(time.Second), 0, 4 * time.Second},
	} {
		t.Run(test.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Bare(), servertest.Script("k1", test.fault))
				began := time.Now()
				resp, err := post(t, srv.Client(), srv.URL, "k1")
				require.NoError(t, err)
				require.Equal(t, test.header, time.Since(began))
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, test.whole, time.Since(began))
				require.Equal(t, 201, resp.StatusCode)
				require.Equal(t, "{\"id\":\"rf_1\"}\n", string(body))
				srv.Ledger().AssertEffects(t, "k1", 1)
			})
		})
	}
}

func TestDelaysFireOnASocket(t *testing.T) {
	for _, fault := range []servertest.Fault{
		servertest.Delay(time.Millisecond), servertest.DelayInHandler(time.Millisecond),
		servertest.DelayAfterEffect(time.Millisecond),
		servertest.SlowHeaders(time.Millisecond), servertest.SlowBody(time.Millisecond),
	} {
		t.Run(fault.String(), func(t *testing.T) {
			srv := servertest.New(t, servertest.Bare(), servertest.Script("k1", fault))
			status, body := answerTo(t, srv, "k1")
			require.Equal(t, 201, status)
			require.JSONEq(t, `{"id":"rf_1"}`, body)
			srv.Ledger().AssertEffects(t, "k1", 1)
		})
	}
}

func TestDelayOutlivesItsClient(t *testing.T) {
	for _, test := range []struct {
		rule          string
		fault         servertest.Fault
		before, after int // effects when the client gives up, and when the delay is over
	}{
		{"a delayed request is processed although its client has gone", servertest.Delay(5 * time.Second), 0, 1},
		{
			"a handler that was held finishes although its client has gone",
			servertest.DelayInHandler(5 * time.Second), 0, 1,
		},
		{"a response that is held back leaves one effect", servertest.DelayAfterEffect(5 * time.Second), 1, 1},
	} {
		t.Run(test.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Bare(), servertest.Script("k1", test.fault))
				client := srv.Client()
				client.Timeout = time.Second
				began := time.Now()
				_, err := post(t, client, srv.URL, "k1")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Second, time.Since(began))
				synctest.Wait()
				srv.Ledger().AssertEffects(t, "k1", test.before)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				srv.Ledger().AssertEffects(t, "k1", test.after)
			})
		})
	}
}

func TestSlowBodyPaces(t *testing.T) {
	for _, test := range []struct {
		body string
		want []int // when each byte comes
	}{
		{"ab", []int{1, 2}},
		{"abcd", []int{1, 2, 3, 4}},
		{"abcdefgh", []int{1, 1, 2, 2, 3, 3, 4, 4}},
	} {
		t.Run(test.body, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Bare(), servertest.Handler(text(test.body)),
					servertest.Script("k1", servertest.SlowBody(time.Second)))
				began := time.Now()
				resp, err := post(t, srv.Client(), srv.URL, "k1")
				require.NoError(t, err)
				defer resp.Body.Close()
				for _, at := range test.want {
					_, err := io.ReadFull(resp.Body, make([]byte, 1))
					require.NoError(t, err)
					require.Equal(t, time.Duration(at)*time.Second, time.Since(began))
				}
				_, err = resp.Body.Read(make([]byte, 1))
				require.Equal(t, io.EOF, err)
			})
		})
	}
}

// text responds with a body.
func text(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader(body)) })
}

func TestRetryAfterDateIsTheServersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Script("k1",
			servertest.Delay(time.Second), servertest.RateLimited(servertest.RetryAfterDate(30*time.Second))))
		answerTo(t, srv, "k1")
		resp, err := post(t, srv.Client(), srv.URL, "k1")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		at, err := http.ParseTime(resp.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, time.Until(at))
	})
}

func TestClose(t *testing.T) {
	t.Run("a closed server refuses", func(t *testing.T) {
		onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
			srv := start(t)
			srv.Close()
			srv.Close()
			_, err := post(t, srv.Client(), srv.URL, "k1")
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		})
	})
	t.Run("closing breaks off held requests, which then make no effect", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.Delay(time.Hour)))
			began := time.Now()
			failed := make(chan error, 1)
			go func() {
				_, err := post(t, srv.Client(), srv.URL, "k1")
				failed <- err
			}()
			synctest.Wait()
			srv.Close()
			require.Error(t, <-failed)
			require.Zero(t, time.Since(began))
			require.Zero(t, srv.Ledger().Total())
		})
	})
}

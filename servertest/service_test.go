package servertest_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo/servertest"
	"github.com/stretchr/testify/require"
)

func TestHandlerPanicIsToldAndBreaksTheConnection(t *testing.T) {
	for _, test := range []struct {
		rule  string
		fault servertest.Fault
		errs  []string
	}{
		{"a request that is served plainly", servertest.OK(), []string{
			`servertest: key "k1", step 1, OK(): taken by request 1, but it did not reach the wire: servertest: the handler panicked`,
		}},
		{"a request that is held before", servertest.Delay(time.Millisecond), []string{
			`servertest: key "k1", step 1, Delay(1ms): taken by request 1, but it did not reach the wire: servertest: the handler panicked`,
		}},
		{"a request that is held in front of the handler", servertest.DelayInHandler(time.Millisecond), []string{
			`servertest: key "k1", step 1, DelayInHandler(1ms): taken by request 1, but it did not reach the wire: servertest: the handler panicked`,
		}},
		{"a request that meets a fault", servertest.CloseAfterEffect(), []string{
			`servertest: key "k1", step 1, CloseAfterEffect(): taken by request 1, but it did not reach the wire: servertest: the handler panicked`,
		}},
		{"a request that is delivered twice", servertest.DuplicateAtOnce(), []string{
			`servertest: key "k1", step 1, DuplicateAtOnce(): taken by request 1, but it did not reach the wire: servertest: the handler panicked`,
		}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
				fake := newFakeTB(t)
				srv := start(fake, servertest.Bare(), servertest.Script("k1", test.fault),
					servertest.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
						panic("no money")
					})))
				_, err := post(t, srv.Client(), srv.URL, "k1")
				require.ErrorIs(t, err, io.EOF)
				fake.end()
				require.Equal(t, test.errs, fake.errors)
				require.NotEmpty(t, fake.logs)
				for _, line := range fake.logs {
					require.True(t, strings.HasPrefix(line, "servertest: the handler panicked: no money\n"), line)
				}
			})
		})
	}
}

func TestFaultThatMissesItsClientHasNotFired(t *testing.T) {
	for _, fault := range []servertest.Fault{
		servertest.StatusAfterEffect(502), servertest.ResetAfterEffect(), servertest.CloseAfterEffect(),
		servertest.TruncatedBody(1), servertest.SlowHeaders(time.Second), servertest.SlowBody(time.Second),
		servertest.StaleKeepAlive(),
	} {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeTB(t)
				slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(5 * time.Second)
					_, _ = io.WriteString(w, "done")
				})
				srv := servertest.NewInMemory(fake, servertest.Bare(), servertest.Handler(slow),
					servertest.Script("k1", fault))
				client := srv.Client()
				client.Timeout = time.Second
				_, err := post(t, client, srv.URL, "k1")
				require.Error(t, err)
				time.Sleep(5 * time.Second)
				fake.end()
				require.Equal(t, []string{`servertest: key "k1", step 1, ` + fault.String() +
					`: taken by request 1, but it did not reach the wire: servertest: the client had gone`},
					fake.errors)
			})
		})
	}
}

func TestFaultsOfBodiesNeedOne(t *testing.T) {
	empty := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for name, test := range map[string]struct {
		fault servertest.Fault
		why   string
	}{
		"SlowBody":      {servertest.SlowBody(time.Second), "could be slow"},
		"TruncatedBody": {servertest.TruncatedBody(0), "could be truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakeTB(t)
			srv := servertest.NewInMemory(fake, servertest.Bare(), servertest.Handler(empty),
				servertest.Script("k1", test.fault))
			status, body := answerTo(t, srv, "k1")
			require.Equal(t, 204, status, "the response is sent as it is")
			require.Empty(t, body)
			fake.end()
			require.Len(t, fake.errors, 1)
			require.Contains(t, fake.errors[0], "the response has no body that "+test.why)
		})
	}
}

func TestServiceSeesTheRequestAsItCame(t *testing.T) {
	for _, fault := range []servertest.Fault{servertest.OK(), servertest.DelayAfterEffect(0)} {
		t.Run(fault.String(), func(t *testing.T) {
			seen := make(chan *http.Request, 1)
			bodies := make(chan string, 1)
			srv := servertest.NewInMemory(t, servertest.Bare(), servertest.Script("k1", fault),
				servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					seen <- r
					bodies <- string(body)
					w.Header().Add("X-Many", "1")
					w.Header().Add("X-Many", "2")
					w.WriteHeader(http.StatusEarlyHints)
					w.WriteHeader(http.StatusAccepted)
					w.(http.Flusher).Flush()
					_, _ = io.WriteString(w, "<p>ok</p>")
				})))
			resp, err := post(t, srv.Client(), srv.URL+"/x?a=1", "k1")
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())

			r := <-seen
			require.Equal(t, "/x?a=1", r.URL.RequestURI())
			require.Equal(t, int64(19), r.ContentLength)
			require.Equal(t, `{"charge":"ch_9ab"}`, <-bodies)
			require.Equal(t, 202, resp.StatusCode)
			require.Equal(t, []string{"1", "2"}, resp.Header.Values("X-Many"))
			require.Equal(t, "<p>ok</p>", string(body))
		})
	}
}

func TestServiceSeesABrokenBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := make(chan error, 1)
		srv := servertest.NewInMemory(t, servertest.Bare(),
			servertest.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				errs <- err
			})))
		body, feed := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, body)
		require.NoError(t, err)
		go func() {
			_, _ = io.WriteString(feed, "half")
			_ = feed.CloseWithError(io.ErrNoProgress)
		}()
		_, err = srv.Client().Do(req)
		require.ErrorIs(t, err, io.ErrNoProgress)
		require.ErrorIs(t, <-errs, io.ErrUnexpectedEOF)
		require.Equal(t, "half", string(srv.Requests()[0].Body))
	})
}

func TestCopyThatPanicsHasNotFired(t *testing.T) {
	var n atomic.Int32
	fake := newFakeTB(t)
	srv := servertest.New(fake, servertest.Bare(), servertest.Script("k1", servertest.DuplicateAtOnce()),
		servertest.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if n.Add(1) == 1 { // almost always the second copy, which comes while the first is held
				panic("no money")
			}
		})))
	_, _ = post(t, srv.Client(), srv.URL, "k1") // its error depends on which copy panics
	fake.end()
	require.Equal(t, []string{`servertest: key "k1", step 1, DuplicateAtOnce(): taken by request 1, but it did not ` +
		`reach the wire: servertest: the handler panicked`}, fake.errors)
}

// net/http removes the files of its own request only, and the service gets a copy.
func TestTheFilesOfAFormAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // on Windows
	s := servertest.New(t, servertest.Bare(), servertest.Handler(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(1); err != nil || len(r.MultipartForm.File) != 1 {
				w.WriteHeader(http.StatusBadRequest)
			}
		})))
	resp, err := s.Client().Post(s.URL, "multipart/form-data; boundary=b", strings.NewReader(
		"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nreceipt\r\n--b--\r\n"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	s.Close()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

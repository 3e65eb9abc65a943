package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dropping is a front that closes the connections of some requests with a key, after the request has had its effect. A
// request is the n-th one of its key, both counted from 1.
func dropping(drops func(key, n int) bool) func(http.Handler) http.Handler {
	var mu sync.Mutex
	keys, sent := map[string]int{}, map[string]int{}
	return around(func(w http.ResponseWriter, r *http.Request, _ []byte, next http.Handler) {
		key := r.Header.Get("Idempotency-Key")
		mu.Lock()
		if keys[key] == 0 {
			keys[key] = len(keys) + 1
		}
		sent[key]++
		drop := drops(keys[key], sent[key])
		mu.Unlock()
		if !drop || r.Header.Get("X-Fault") == "crash" {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(newRecorder(discard{http.Header{}}), r)
		panic(http.ErrAbortHandler)
	})
}

// A dropped connection is no verdict: the request is sent again under its key.
func TestServerThatDropsAConnectionNowAndThenConforms(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	var targets []Target
	for _, which := range []int{1, 2} { // the first response of a key is lost, or that of its retry
		b := benign{name: "drops", front: dropping(func(key, n int) bool { return key%5 == 2 && n == which })}
		targets = append(targets, b.start(t))
		l := newLab(t)
		l.front = b.front
		targets = append(targets, l.start().target())
	}
	for _, report := range runAll(t, targets, Seed(1)) {
		require.Empty(t, broken(report), "%s", texts(report))
		require.Zero(t, report.ExitCode(true), "%s", texts(report))
	}
}

// A server that loses one response in five loses those of two runs of a case now and then.
func TestOracleTakesAnotherKeyWhenTheFirstResponseIsLost(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	for _, c := range []struct {
		rule    string
		lost    func(key int) bool // the baseline's key is 1
		verdict Verdict
	}{
		{"each second one is lost", func(key int) bool { return key%2 == 0 }, Pass},
		{"two of three are lost", func(key int) bool { return key%3 != 1 }, Pass},
		{"all are lost", func(key int) bool { return key > 1 }, Inconclusive},
	} {
		b := benign{name: "drops first", front: dropping(func(key, n int) bool { return n == 1 && c.lost(key) })}
		report, err := Run(t.Context(), b.start(t), Only(slugOracle), Seed(1))
		require.NoError(t, err)
		res, _ := report.Result(slugOracle)
		require.Equal(t, c.verdict, res.Verdict, "%s: %s", c.rule, res)
	}
}

func TestServerThatDropsEachRetryIsNotShownToConform(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	b := benign{name: "drops retries", front: dropping(func(_, n int) bool { return n > 1 })}
	report, err := Run(t.Context(), b.start(t), Only("ctl", "replay", "conc-inflight", "conc-one-effect",
		"fault-lost-response"))
	require.NoError(t, err)
	require.Empty(t, broken(report), "%s", texts(report))
	for _, slug := range []string{slugOracle, slugEffect, "conc-one-effect", "fault-lost-response"} {
		res, _ := report.Result(slug)
		require.Equal(t, Inconclusive, res.Verdict, "%s", res)
	}
	res, _ := report.Result(slugEffect)
	require.Contains(t, res.Reason, "the connection was closed before a response, twice")
	require.Equal(t, Unproven, report.Outcome(false))
	require.Equal(t, ExitFailed, report.ExitCode(false))
}

func TestServerThatDropsEachConnectionFailsTheBaseline(t *testing.T) {
	b := benign{name: "drops all", front: dropping(func(int, int) bool { return true })}
	report, err := Run(t.Context(), b.start(t))
	require.NoError(t, err)
	require.Equal(t, []string{slugBaseline}, broken(report))
	require.Equal(t, ExitUnreachable, report.ExitCode(false))
}

// droppingDialer is a dialer whose server sends each text in turn and closes the connection.
func droppingDialer(texts ...string) (d *dialer, sent func() []string) {
	var requests []string
	return &dialer{host: "drop.test", timeout: time.Minute, connect: func(context.Context) (net.Conn, error) {
		if len(texts) == 0 {
			return nil, errors.New("refused")
		}
		client, server := net.Pipe()
		text := texts[0]
		texts = texts[1:]
		go func() {
			defer server.Close()
			b := make([]byte, 4096)
			n, _ := server.Read(b)
			requests = append(requests, string(b[:n]))
			_, _ = io.WriteString(server, text)
		}()
		return client, nil
	}}, func() []string { return requests }
}

func TestRequestWhoseConnectionIsDroppedIsSentOnceMore(t *testing.T) {
	const created, cut = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nhalf"
	keyed := request{method: "POST", path: "/x"}.with("Idempotency-Key", "k1")
	for _, c := range []struct {
		rule    string
		request request
		answers []string
		status  int
		sent    int
		dropped bool
	}{
		{"a response is taken as it is", keyed, []string{created}, 201, 1, false},
		{"a dropped request is sent again under its key", keyed, []string{"", created}, 201, 2, false},
		{"a response that is cut off too", keyed, []string{cut, created}, 201, 2, false},
		{"it is sent once more and not twice", keyed, []string{"", "", created}, 0, 2, true},
		{"a response that is cut off twice is a wrong response", keyed, []string{cut, cut}, 201, 2, false},
		{"a response that is no HTTP is a wrong response", keyed, []string{"SMTP ready\r\n\r\n"}, 0, 1, false},
		{"a request without a key may have its effect again", request{method: "POST", path: "/x"}, []string{"", created},
			0, 1, true},
		{"a GET has no effect", request{method: "GET", path: "/x"}, []string{"", created}, 201, 2, false},
		{"a key in the body is a key", request{method: "POST", path: "/x", key: "k1"}, []string{"", created}, 201, 2,
			false},
	} {
		d, sent := droppingDialer(c.answers...)
		a := new(runner).exchange(t.Context(), d, c.request)
		require.Equal(t, c.status, a.status, c.rule)
		require.Len(t, sent(), c.sent, c.rule)
		require.Equal(t, c.dropped, a.dropped(), c.rule)
		require.Equal(t, c.sent > 1, a.resent, c.rule)
		for _, text := range sent()[1:] {
			require.Equal(t, sent()[0], text, c.rule)
		}
		require.True(t, strings.HasPrefix(sent()[0], c.request.method), c.rule)
	}
}

// A process that is down shows nothing about its keys.
func TestServerThatIsLongDownAfterACrashBreaksNoRule(t *testing.T) {
	// It is not parallel to the other tests: their load moves the last retry, which must find the server down.
	for _, c := range []struct {
		rule   string
		down   time.Duration // zero is for ever
		result string
		died   bool
	}{
		{"it is never up again", 0, "the target died during the run", true},
		// The last retry is 2.3 s after the crash, and the wait for the server ends 4.3 s after it.
		{"it is up again after the lease", 3300 * time.Millisecond,
			"the target accepted no connection within 2.001s after the crash: a longer lease covers its restart", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel() // both spend their time waiting
			l := newLab(t)
			var down sync.Mutex
			l.front = around(func(w http.ResponseWriter, r *http.Request, _ []byte, next http.Handler) {
				if r.Header.Get("X-Fault") != "crash" {
					next.ServeHTTP(w, r)
					return
				}
				down.Lock()
				go func() {
					defer down.Unlock()
					l.stop()
					if c.down > 0 {
						time.Sleep(c.down)
						l.listen(l.address)
					}
				}()
				panic(http.ErrAbortHandler)
			})
			target := l.start().target()
			target.Crash.Lease = Duration(time.Millisecond)
			report, err := Run(t.Context(), target, Only("fault-crash"))
			down.Lock()
			require.Equal(t, c.died, err != nil, "%v", err)
			require.Empty(t, broken(report), "%s", texts(report))
			res, _ := report.Result("fault-crash")
			require.Equal(t, c.result, res.Reason)
			require.Equal(t, c.died, report.ExitCode(false) == ExitUnreachable)
		})
	}
}

package conformance

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// answering is a dialer whose server sends each text in turn, and then repeats the last one.
func answering(texts ...string) *dialer {
	n := 0
	return &dialer{host: "busy.test", timeout: time.Minute, connect: func(context.Context) (net.Conn, error) {
		client, server := net.Pipe()
		text := texts[min(n, len(texts)-1)]
		n++
		go func() {
			if _, err := server.Read(make([]byte, 4096)); err == nil {
				_, _ = io.WriteString(server, "HTTP/1.1 "+text+"\r\nContent-Length: 0\r\n\r\n")
			}
		}()
		return client, nil
	}}
}

func TestBusyTargetIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		rule     string
		answers  []string
		status   int
		refusals int
		overload bool
		took     time.Duration
	}{
		{"a success is taken as it is", []string{"201 Created"}, 201, 0, false, 0},
		{"429 is waited for", []string{"429 No\r\nRetry-After: 3", "201 Created"}, 201, 1, false, 3 * time.Second},
		{"429 without a hint too", []string{"429 No", "429 No", "201 Created"}, 201, 2, false, 150 * time.Millisecond},
		{"503 with a hint is waited for", []string{"503 No\r\nRetry-After: 1", "201 Created"}, 201, 1, false,
			time.Second},
		{"503 without one too", []string{"503 No", "503 No", "201 Created"}, 201, 2, false, 150 * time.Millisecond},
		{"503 without one is a result if it stays", []string{"503 No"}, 503, 5, false, 1550 * time.Millisecond},
		{"a wait of minutes is none", []string{"429 No\r\nRetry-After: 120"}, 429, 0, true, 0},
		{"patience ends", []string{"429 No\r\nRetry-After: 10"}, 429, 3, true, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			a := new(runner).exchange(t.Context(), answering(c.answers...), request{method: http.MethodPost,
				path: "/x"})
			require.NoError(t, a.err, c.rule)
			require.Equal(t, c.status, a.status, c.rule)
			require.Equal(t, c.refusals, a.refusals, c.rule)
			require.Equal(t, c.overload, a.overload, c.rule)
			require.Equal(t, c.took, time.Since(start), c.rule)
		})
	}
}

func TestGateSpacesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		g := gate{interval: 50 * time.Millisecond}
		for range 5 {
			require.True(t, g.pass(t.Context(), 1))
		}
		require.Equal(t, 200*time.Millisecond, time.Since(start))
		require.True(t, g.pass(t.Context(), 10)) // ten together, and then the pause for ten
		require.Equal(t, 250*time.Millisecond, time.Since(start))
		require.True(t, g.pass(t.Context(), 1))
		require.Equal(t, 750*time.Millisecond, time.Since(start))

		g.hold(3 * time.Second)
		g.hold(time.Second) // the longer wait holds
		require.True(t, g.pass(t.Context(), 1))
		require.Equal(t, 3750*time.Millisecond, time.Since(start))

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.False(t, g.pass(ended, 1))
	})
}

func TestRateIsChecked(t *testing.T) {
	target, _ := forgetful(t, constant)
	for _, rate := range []float64{-1, 2e6} {
		_, err := Run(t.Context(), target, Rate(rate))
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "requests a second")
	}
}

// A target that is always too busy is no target that breaks rules.
func TestTargetThatIsAlwaysBusyFailsTheBaselineAlone(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(srv.Close)
	report, err := Run(t.Context(), Target{BaseURL: srv.URL, Operation: Operation{Method: "POST", Path: "/"}})
	require.NoError(t, err)
	require.Equal(t, []string{slugBaseline}, broken(report))
	require.Equal(t, ExitUnreachable, report.ExitCode(false))
	require.Equal(t, NotTried, report.Outcome(false))
}

func TestDifferenceIsShownAndNotMeasured(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{`{"id":"a","n":1}`, `{"id":"b","n":1}`, `"id" is "b" instead of "a"`},
		{`{"id":"a","n":1}`, `{"id":"a"}`, `without the member "n"`},
		{`{"id":"a"}`, `{"id":"a","at":3}`, `with a member "at" more`},
		{`{"id":"a"}`, `{"id": "a"}`, "the same JSON in other bytes"},
		{"hello", "hell", "a body of 4 bytes instead of 5"},
		{"the order was made at 10:00", "the order was made at 10:07",
			`the body differs from byte 26: "de at 10:07" instead of "de at 10:00"`},
	} {
		require.Equal(t, c.want, difference(c.was, c.is), fmt.Sprintf("%s, %s", c.was, c.is))
	}
}

package redo

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// learning returns a client for an API whose retention is in a header, and a function that gets a response with a header.
func learning(t *testing.T, name string) (func(http.Header), *Client) {
	header := make(chan http.Header, 8)
	client := open(t, WithProfile(Profile{LifetimeHeader: name}), WithTransport(roundTrip(
		func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: <-header, Body: http.NoBody, Request: r}, nil
		})))
	return func(h http.Header) {
		header <- h
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test/", nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}, client
}

// The API's own retention replaces a longer one of the profile's (trap 58).
func TestTheRetentionIsLearned(t *testing.T) {
	const header = "X-Key-Lifetime"
	for _, c := range []struct {
		name   string
		header string // the profile's
		values []string
		want   time.Duration
	}{
		{"nothing is known", header, nil, 23 * time.Hour},
		{"a shorter one", header, []string{"14400"}, 3*time.Hour + 30*time.Minute},
		{"an ISO 8601 duration", header, []string{"PT4H"}, 3*time.Hour + 30*time.Minute},
		{"a longer one changes nothing", header, []string{"P7D"}, 23 * time.Hour},
		{"the shortest of several", header, []string{"PT8H", "PT4H", "PT6H"}, 3*time.Hour + 30*time.Minute},
		{
			"one that can't be read changes nothing", header, []string{"soon", "", "0", "-5", "PT0S", "PT4H"},
			3*time.Hour + 30*time.Minute,
		},
		{"only unreadable values", header, []string{"soon", "", "0", "-5", "PT0S"}, 23 * time.Hour},
		{"the name however it is written", "x-key-lifetime", []string{"14400"}, 3*time.Hour + 30*time.Minute},
		{"a header that the profile does not name", "", []string{"14400"}, 23 * time.Hour},
		{"another header", "X-Other", []string{"14400"}, 23 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			learn, client := learning(t, c.header)
			for _, v := range c.values {
				learn(http.Header{header: {v}})
			}
			require.Equal(t, c.want, client.retention.Usable())
		})
	}
}

func TestTheRetentionIsLearnedUnderConcurrency(t *testing.T) {
	learn, client := learning(t, "X-Lifetime")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				learn(http.Header{"X-Lifetime": {fmt.Sprint(8000 - 100*i - j)}})
			}
		})
	}
	wg.Wait()
	require.Equal(t, (8000-799)*time.Second*7/8, client.retention.Usable())
}

// A key that is older than the learned retention is not sent again, in this call or in a later one.
func TestALearnedRetentionBoundsTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &scripted{statuses: []int{503}, header: http.Header{"X-Lifetime": {"PT8M"}}, hint: "1"}
		client := open(t, WithTransport(rt), WithStore(memstore.New()),
			WithProfile(Profile{LifetimeHeader: "X-Lifetime"}),
			WithRetry(RetryPolicy{MaxAttempts: 2, Jitter: NoDelay}))
		ctx := WithOperation(t.Context(), "refund:1")
		require.ErrorIs(t, send(ctx, t, client), ErrAttempts)
		require.EqualValues(t, 2, rt.sent.Load())

		time.Sleep(6 * time.Minute)
		require.ErrorIs(t, send(ctx, t, client), ErrAttempts)
		require.EqualValues(t, 4, rt.sent.Load(), "the key is young enough")

		time.Sleep(time.Minute)
		err := send(ctx, t, client)
		require.ErrorIs(t, err, taxonomy.KeyExpired)
		require.ErrorContains(t, err, "known to remember (8m0s)", "and not the 24 hours of the profile")
		require.EqualValues(t, 4, rt.sent.Load(), "8 minutes less a margin of one are over")
	})
}

// The retry of the call that learns the retention would be a new request to the server.
func TestARetentionThatIsLearnedDuringACallBoundsItsRetries(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored %v", stored), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := &scripted{statuses: []int{503}, header: http.Header{"X-Lifetime": {"PT8M"}}, hint: "240"}
				opts, ctx := []Option{}, t.Context()
				if stored {
					opts, ctx = append(opts, WithStore(memstore.New())), WithOperation(ctx, "refund:1")
				}
				client := open(t, append(opts, WithTransport(rt), WithProfile(Profile{LifetimeHeader: "X-Lifetime"}),
					WithRetry(RetryPolicy{MaxElapsed: time.Hour, Jitter: NoDelay}))...)
				require.ErrorIs(t, send(ctx, t, client), ErrTooLate)
				require.EqualValues(t, 2, rt.sent.Load(), "8 minutes less a margin of one are over")
			})
		})
	}
}

func TestClassifiers(t *testing.T) {
	to := func(v taxonomy.Verdict) Classifier {
		return func(*http.Response, []byte, taxonomy.Verdict) taxonomy.Verdict { return v }
	}
	transient := taxonomy.Verdict{Code: taxonomy.Unavailable, Class: taxonomy.ClassTransient}
	terminal := taxonomy.Verdict{Code: "PROVIDER.refused", Effect: NotApplied}
	success := taxonomy.Verdict{Class: taxonomy.ClassSuccess}
	mismatch := taxonomy.Verdict{Code: taxonomy.PayloadMismatch, Effect: NotApplied}
	expired := taxonomy.Verdict{Code: taxonomy.KeyExpired}
	applied := taxonomy.Verdict{Code: terminal.Code, Class: taxonomy.ClassSuccess, Effect: Applied}
	for _, c := range []struct {
		name         string
		from         taxonomy.Verdict
		profile, own Classifier
		want         taxonomy.Verdict
	}{
		{"none changes nothing", terminal, nil, nil, terminal},
		{"the profile's", terminal, to(transient), nil, transient},
		{"the client's", terminal, nil, to(transient), transient},
		{"the client's comes after the profile's", terminal, to(transient), to(terminal), terminal},
		{"a success has its effect, and an error its code", terminal, nil, to(success), applied},
		{"a mismatch is never made transient", mismatch, to(transient), to(transient), mismatch},
		{"an expired key is never made transient", expired, to(transient), to(transient), expired},
		{"a mismatch may be made another failure", mismatch, nil, to(terminal), terminal},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := open(t, WithProfile(Profile{Classifier: c.profile}), WithClassifier(c.own))
			r := result{resp: &http.Response{StatusCode: 409}, verdict: c.from}
			r.classify(&call{client: client})
			require.Equal(t, c.want, r.verdict)
		})
	}
	t.Run("sees the profile's verdict and the body, which stays readable", func(t *testing.T) {
		var got []byte
		var saw taxonomy.Verdict
		client := open(t, WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
			body := io.NopCloser(strings.NewReader(`{"ok":false}`))
			return &http.Response{
				StatusCode: 200, Header: http.Header{}, Body: body, ContentLength: -1, Request: r,
			}, nil
		})), WithClassifier(func(_ *http.Response, body []byte, v taxonomy.Verdict) taxonomy.Verdict {
			got, saw = body, v
			return v
		}))
		resp, err := client.Do(build(t, t.Context(), "POST"))
		require.NoError(t, err)
		read, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, `{"ok":false}`, string(got))
		require.Equal(t, `{"ok":false}`, string(read))
		require.Equal(t, Applied, saw.Effect)
	})
}

func TestStreams(t *testing.T) {
	for _, c := range []struct {
		name, contentType string
		length            int64
		want              bool
	}{
		{"events", "text/event-stream", -1, true},
		{"events with a parameter", "Text/Event-Stream; charset=utf-8", -1, true},
		{"lines of JSON", "application/x-ndjson", -1, true},
		{"gRPC", "application/grpc+proto", -1, true},
		{"events of a known length", "text/event-stream", 10, false},
		{"JSON", "application/json", -1, false},
		{"no type", "", -1, false},
		{"a type that does not parse", "text/event-stream/x", -1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := &http.Response{ContentLength: c.length, Header: http.Header{"Content-Type": {c.contentType}}}
			require.Equal(t, c.want, wire.Streams(resp))
		})
	}
}

package outbox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

// once makes one attempt and no second.
func once(t *testing.T, opts ...redo.Option) *redo.Client {
	t.Helper()
	c, err := redo.New(append([]redo.Option{redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func publisher(t *testing.T, c *redo.Client, opts ...outbox.HTTPOption) outbox.Publisher {
	t.Helper()
	p, err := outbox.HTTP(c, opts...)
	require.NoError(t, err)
	return p
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestHTTPSendsTheEventUnderItsOwnID(t *testing.T) {
	var got []*http.Request
	var bodies []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got, bodies = append(got, r), append(bodies, string(body))
		w.WriteHeader(http.StatusAccepted)
	})
	ev := outbox.Event{
		ID: "refund-re_1", Destination: url + "/hooks?a=b",
		Header: http.Header{"Content-Type": {"application/json"}, "X-Many": {"1", "2"}}, Payload: []byte(`{"a":1}`),
	}
	p := publisher(t, once(t))
	for range 2 {
		require.NoError(t, p.Publish(t.Context(), ev))
	}
	require.Len(t, got, 2)
	for i, r := range got {
		require.Equal(t, "POST /hooks?a=b", r.Method+" "+r.RequestURI)
		require.Equal(t, []string{"refund-re_1"}, r.Header["Idempotency-Key"])
		require.Equal(t, []string{"1", "2"}, r.Header["X-Many"])
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		require.Equal(t, `{"a":1}`, bodies[i])
	}
	require.Len(t, ev.Header, 2, "the event itself is not changed")
}

func TestHTTPAnswers(t *testing.T) {
	for _, c := range []struct {
		rule   string
		status int
		header map[string]string
		body   string
		code   taxonomy.Code // empty: acknowledged
		retry  bool
	}{
		{rule: "204 acknowledges", status: 204},
		{rule: "the last 2xx acknowledges", status: 299},
		{rule: "a replay acknowledges", status: 200, header: map[string]string{"Idempotency-Status": "replayed"}},
		{
			rule: "a duplicate acknowledges", status: 409,
			header: map[string]string{"Error-Code": string(taxonomy.Duplicate)},
		},
		{
			rule: "a result that was not stored acknowledges", status: 409,
			header: map[string]string{"Error-Code": string(taxonomy.ResultNotStored)},
		},
		{rule: "503 is tried again", status: 503, code: taxonomy.Unavailable, retry: true},
		{rule: "429 is tried again", status: 429, code: taxonomy.RateLimited, retry: true},
		{
			rule: "an event that is being handled is tried again", status: 409,
			header: map[string]string{"Error-Code": string(taxonomy.InFlight)}, code: taxonomy.InFlight, retry: true,
		},
		{rule: "401 is tried again", status: 401, code: taxonomy.Unauthenticated, retry: true},
		{rule: "404 is tried again", status: 404, code: taxonomy.NotFound, retry: true},
		{rule: "400 is tried again", status: 400, code: taxonomy.BadRequest, retry: true},
		{rule: "501 is tried again", status: 501, code: taxonomy.NotImplemented, retry: true},
		{rule: "410 disables the destination, and the event waits", status: 410, code: taxonomy.Gone, retry: true},
		{
			rule: "another payload under the id is tried again", status: 409,
			header: map[string]string{"Error-Code": string(taxonomy.PayloadMismatch)}, code: taxonomy.PayloadMismatch,
			retry: true,
		},
		{rule: "304 is no acknowledgement", status: 304, code: taxonomy.RedirectNotFollowed, retry: true},
		{rule: "101 is no acknowledgement", status: 101, code: taxonomy.Transient, retry: true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range c.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.status)
			})
			err := publisher(t, once(t)).Publish(t.Context(), outbox.Event{ID: "k", Destination: url})
			require.Equal(t, c.status == 410, outbox.IsGone(err))
			o := outbox.Judge(err)
			require.Equal(t, c.code, o.Failure.Code)
			if c.code != "" {
				require.Equal(t, c.status, o.Failure.Status)
			}
			want := outbox.Dead
			if c.retry {
				want = outbox.Waiting
			}
			if c.code == "" {
				want = outbox.Sent
			}
			require.Equal(t, want, o.Result)
		})
	}
	t.Run("an event that can't be signed is final, and not sent", func(t *testing.T) {
		secret, err := webhook.NewSecret(nil)
		require.NoError(t, err)
		signer, err := webhook.NewSigner([]webhook.Secret{secret})
		require.NoError(t, err)
		url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the event was sent") })
		client := once(t, redo.WithTransport(signer.Transport(http.DefaultTransport)))
		o := outbox.Judge(publisher(t, client).Publish(t.Context(), outbox.Event{ID: "refund.1", Destination: url}))
		require.Equal(t, outbox.Dead, o.Result)
		require.Equal(t, webhook.Unsigned, o.Failure.Code)
	})
	t.Run("an attempt without a connection is not counted", func(t *testing.T) {
		srv := httptest.NewServer(nil)
		srv.Close()
		o := outbox.Judge(publisher(t, once(t)).Publish(t.Context(), outbox.Event{ID: "k", Destination: srv.URL}))
		require.Equal(t, outbox.Released, o.Result)
	})
	t.Run("an attempt without a connection below another transport is not counted", func(t *testing.T) {
		// A signer's transport is one: the client does not know if it has sent the request.
		below := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no route to it")
		}}
		client := once(t, redo.WithTransport(roundTripper(below.RoundTrip)))
		o := outbox.Judge(publisher(t, client).Publish(t.Context(), outbox.Event{ID: "k", Destination: "http://a.test"}))
		require.Equal(t, outbox.Released, o.Result)
	})
	t.Run("an attempt that ends while it connects timed out", func(t *testing.T) {
		below := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		client := once(t, redo.WithTransport(roundTripper(below.RoundTrip)))
		err := publisher(t, client).Publish(ctx, outbox.Event{ID: "k", Destination: "http://a.test"})
		code, o := outbox.JudgedCode(err), outbox.Judge(err)
		require.Equal(t, outbox.Released, o.Result)
		require.Equal(t, taxonomy.Timeout, code)
	})
	t.Run("Retry-After is waited for, up to the cap", func(t *testing.T) {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "604800")
			w.WriteHeader(503)
		})
		o := outbox.Judge(publisher(t, once(t)).Publish(t.Context(), outbox.Event{ID: "k", Destination: url}))
		require.Equal(t, outbox.Waiting, o.Result)
		require.Equal(t, outbox.DefaultHintCap, o.Wait)
	})
	t.Run("a destination that is no URL is final, and is not shown", func(t *testing.T) {
		for _, to := range []string{"https://u:secret@h/%zz?secret", "https://u:secret/@h/", "https://u:secret?@h/"} {
			err := publisher(t, once(t)).Publish(t.Context(), outbox.Event{ID: "k", Destination: to})
			require.NotContains(t, err.Error(), "secret")
			o := outbox.Judge(err)
			require.Equal(t, outbox.Dead, o.Result)
			require.Equal(t, taxonomy.BadURL, o.Failure.Code)
		}
	})
	t.Run("a destination whose port can't be is final", func(t *testing.T) {
		o := outbox.Judge(publisher(t, once(t)).Publish(t.Context(),
			outbox.Event{ID: "k", Destination: "http://127.0.0.1:99999"}))
		require.Equal(t, outbox.Dead, o.Result)
		require.Equal(t, taxonomy.BadURL, o.Failure.Code)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The attempt's timeout does not end the reading of a connection that a 101 has handed over.
func TestHTTPDoesNotWaitForTheEndOfASwitchedConnection(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	})
	o := outbox.Judge(publisher(t, once(t)).Publish(t.Context(), outbox.Event{ID: "k", Destination: url}))
	require.Equal(t, outbox.Waiting, o.Result)
	require.Equal(t, 101, o.Failure.Status)
	require.Contains(t, o.Failure.Reason, "status 101")
}

func TestHTTPResolvesDestinations(t *testing.T) {
	asked := ""
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.Path })
	p := publisher(t, once(t), outbox.Resolve(func(ev outbox.Event) (string, error) {
		if ev.Type == "unknown" {
			return "", outbox.Reject(errors.New("no hook for it"))
		}
		return url + "/" + ev.Type, nil
	}))
	require.NoError(t, p.Publish(t.Context(), outbox.Event{ID: "k", Type: "refund.created"}))
	require.Equal(t, "/refund.created", asked)
	require.Equal(t, outbox.Rejected,
		outbox.Judge(p.Publish(t.Context(), outbox.Event{ID: "k", Type: "unknown"})).Failure.Code)
}

func TestHTTPRefusesWhatItCantUse(t *testing.T) {
	_, err := outbox.HTTP(nil)
	require.ErrorContains(t, err, "client is nil")
	_, err = outbox.HTTP(once(t), nil)
	require.ErrorContains(t, err, "an option is nil")
	_, err = outbox.HTTP(once(t), outbox.Resolve(nil))
	require.ErrorContains(t, err, "function is nil")
}

// A delivery whose acknowledgement was lost is made again, under the same id: the consumer replays its record.
func TestEventThatIsDeliveredTwiceHasOneEffect(t *testing.T) {
	effects := 0
	consumer := server.Middleware(memstore.New(), server.Required(),
		server.SharedKeys())(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		effects++
		w.WriteHeader(http.StatusCreated)
	}))
	url := serve(t, consumer.ServeHTTP)
	p := publisher(t, once(t))
	ev := outbox.Event{ID: "k", Destination: url, Payload: []byte("body")}
	require.NoError(t, p.Publish(t.Context(), ev))
	require.NoError(t, p.Publish(t.Context(), ev))
	require.Equal(t, 1, effects)
}

// With a store in the client the delivery is an operation there too, and one that is complete is not sent again.
func TestHTTPThroughAClientWithAStore(t *testing.T) {
	sent, status := 0, 503
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		sent++
		w.WriteHeader(status)
	})
	p := publisher(t, once(t, redo.WithStore(memstore.New())))
	ev := outbox.Event{ID: "k", Destination: url, Payload: []byte("body")}
	require.Equal(t, outbox.Waiting, outbox.Judge(p.Publish(t.Context(), ev)).Result)
	status = 200
	for range 2 {
		require.NoError(t, p.Publish(context.Background(), ev))
	}
	require.Equal(t, 2, sent)
}

// An event for several destinations has one id, and a corrected URL belongs to an event that was sent before.
func TestHTTPThroughAClientWithAStoreToSeveralURLs(t *testing.T) {
	var asked []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if asked = append(asked, r.URL.Path); r.URL.Path == "/wrong" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	path := "/wrong"
	p := publisher(t, once(t, redo.WithStore(memstore.New())), outbox.Resolve(func(ev outbox.Event) (string, error) {
		if ev.Destination == "shop" {
			return url + path, nil
		}
		return url + "/" + ev.Destination, nil
	}))
	evs, err := outbox.FanOut(outbox.Event{ID: "k"}, "bank", "ledger", "shop")
	require.NoError(t, err)
	require.NoError(t, p.Publish(t.Context(), evs[0]))
	require.NoError(t, p.Publish(t.Context(), evs[1]))
	require.Equal(t, outbox.Waiting, outbox.Judge(p.Publish(t.Context(), evs[2])).Result)
	path = "/right"
	require.NoError(t, p.Publish(t.Context(), evs[2]))
	require.Equal(t, []string{"/bank", "/ledger", "/wrong", "/right"}, asked)
}

func TestAnEventThatCannotBeSignedIsDeadAtOnce(t *testing.T) {
	secret, err := webhook.NewSecret(nil)
	require.NoError(t, err)
	signer, err := webhook.NewSigner([]webhook.Secret{secret}, webhook.MaxBody(3))
	require.NoError(t, err)
	p := publisher(t, once(t, redo.WithTransport(signer.Transport(http.DefaultTransport))))
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	for rule, c := range map[string]struct {
		ev   outbox.Event
		want outbox.Result
	}{
		"it can":                     {outbox.Event{ID: "a-b", Payload: []byte("123")}, outbox.Sent},
		"a full stop in its id":      {outbox.Event{ID: "a.b", Payload: []byte("123")}, outbox.Dead},
		"a payload over the maximum": {outbox.Event{ID: "a-b", Payload: []byte("1234")}, outbox.Dead},
	} {
		t.Run(rule, func(t *testing.T) {
			c.ev.Destination = url
			o := outbox.Judge(p.Publish(t.Context(), c.ev))
			require.Equal(t, c.want, o.Result, o.Failure.Reason)
			if c.want == outbox.Dead {
				require.Equal(t, webhook.Unsigned, o.Failure.Code)
				require.Contains(t, o.Failure.Reason, "webhook: ")
			}
		})
	}
}

// The connection survives a response whose body the publisher does not need.
func TestHTTPKeepsItsConnection(t *testing.T) {
	connections := map[string]bool{}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		_, _ = io.WriteString(w, strings.Repeat("x", 4000))
	})
	p := publisher(t, once(t))
	for i := range 3 {
		require.NoError(t, p.Publish(t.Context(), outbox.Event{ID: strconv.Itoa(i), Destination: url}))
	}
	require.Len(t, connections, 1)
}

package outbox_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
)

// openBody is the body of a response that the server does not end.
type openBody struct{ ctx context.Context }

func (b openBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (openBody) Close() error { return nil }

// An event is acknowledged by the response's status. A consumer that keeps the response open must not delay the next
// event of its line by the timeout of an attempt.
func TestAnOpenResponseDelaysNoAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := redo.New(redo.WithTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return &http.Response{
				StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
				ContentLength: -1, Body: openBody{r.Context()}, Request: r,
			}, nil
		})))
		require.NoError(t, err)
		defer client.Close()
		publisher, err := outbox.HTTP(client)
		require.NoError(t, err)
		ctx, done := context.WithTimeout(t.Context(), outbox.DefaultAttemptTimeout)
		defer done()
		start := time.Now()
		require.NoError(t, publisher.Publish(ctx, outbox.Event{ID: "k", Destination: "https://shop.example/hooks"}))
		require.LessOrEqual(t, time.Since(start), time.Second)
	})
}

// The header of a refusal requests the wait. A consumer that does not end the body must not be hammered.
func TestARefusalThatStallsKeepsItsWait(t *testing.T) {
	for status, rests := range map[int]bool{429: true, 503: false} {
		inBubble(t, func(g *rig) {
			client, err := redo.New(redo.WithTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
				_, _ = io.Copy(io.Discard, r.Body)
				return &http.Response{
					StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
					Header: http.Header{"Retry-After": {"600"}}, ContentLength: -1, Body: openBody{r.Context()}, Request: r,
				}, nil
			})))
			require.NoError(g, err)
			defer client.Close()
			publisher, err := outbox.HTTP(client)
			require.NoError(g, err)
			var begun record
			g.enqueue(outbox.Event{ID: "1", Destination: "https://shop.example/hooks"})
			defer g.relay(g.queue, func(ctx context.Context, ev outbox.Event) error {
				begun.add(ev)
				return publisher.Publish(ctx, ev)
			})()
			time.Sleep(time.Minute)
			g.enqueue(outbox.Event{ID: "2", Destination: "https://shop.example/hooks"})
			time.Sleep(time.Minute)
			want := []string{"1", "2"}
			if rests {
				want = want[:1]
			}
			require.Equal(g, want, begun.all(), "status %d", status)
			time.Sleep(5 * time.Minute)
			require.Equal(g, want, begun.all(), "status %d", status)
		})
	}
}

package sim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

// events makes worlds with many events and repeated deliveries.
func events(p *plan) {
	p.mode, p.relays, p.consumers, p.apps, p.ops = transactional, 2, 2, 3, 4
	p.lostResponse, p.twice, p.sick, p.phones = 300, 200, 200, 0
	p.window = max(p.window, 2*time.Minute)
}

// published wraps a publisher.
func published(
	f func(context.Context, outbox.Publisher, outbox.Event) error,
) func(*world, outbox.Publisher) outbox.Publisher {
	return func(_ *world, p outbox.Publisher) outbox.Publisher {
		return outbox.PublisherFunc(func(ctx context.Context, ev outbox.Event) error { return f(ctx, p, ev) })
	}
}

// eventDefects are in the outbox, relays and consumers.
var eventDefects = []defect{
	{
		name: "an event is acknowledged after any response", breaks: []rule{settles}, plan: events,
		publisher: published(func(ctx context.Context, p outbox.Publisher, ev outbox.Event) error {
			_ = p.Publish(ctx, ev)
			return nil
		}),
	},
	{
		name: "an event has an id per delivery", breaks: []rule{stableKey, oneDelivery}, plan: events,
		publisher: func() func(*world, outbox.Publisher) outbox.Publisher {
			var n atomic.Int64
			return published(func(ctx context.Context, p outbox.Publisher, ev outbox.Event) error {
				ev.ID += "-" + strconv.FormatInt(n.Add(1), 10)
				return p.Publish(ctx, ev)
			})
		}(),
	},
	{
		name: "an event is announced in front of the commit", breaks: []rule{noOrphan, inOrder},
		plan: func(p *plan) {
			events(p)
			p.unmade, p.down = 200, 100
		},
		event: func(w *world, m message) func() {
			w.announce(m, m.Principal)
			return func() {}
		},
	},
	{
		name: "an event is not announced", breaks: []rule{settles}, plan: events,
		event: func(*world, message) func() { return func() {} },
	},
	{
		name: "an event is announced after the commit", breaks: []rule{settles, inOrder},
		plan: func(p *plan) {
			events(p)
			p.kills, p.window, p.servers = 20, 20*time.Second, 1
		},
		event: func(w *world, m message) func() {
			p := w.net.hosts[serviceHost][0]
			return func() {
				go func() {
					if p.wait(context.Background(), time.Second) == nil {
						w.announce(m, m.Principal)
					}
				}()
			}
		},
	},
	{
		name: "events have no ordering key", breaks: []rule{inOrder}, plan: events,
		event: func(w *world, m message) func() { return func() { w.announce(m, "") } },
	},
	{
		name: "a consumer does not deduplicate", breaks: []rule{oneDelivery}, plan: events,
		identify: func() func(*world, inbox.Identify) inbox.Identify {
			var n atomic.Int64
			return func(_ *world, f inbox.Identify) inbox.Identify {
				return func(r *http.Request) (inbox.Event, error) {
					ev, err := f(r)
					ev.ID += strconv.FormatInt(n.Add(1), 10)
					return ev, err
				}
			}
		}(),
	},
	{
		name: "a consumer forgets too early", breaks: []rule{oneDelivery}, plan: events,
		inbox: []inbox.Option{inbox.Retention(50 * time.Millisecond), inbox.LeaseTTL(50 * time.Millisecond)},
	},
	{
		name: "a consumer's effect and record are two commits", breaks: []rule{oneDelivery}, plainInbox: true,
		plan: func(p *plan) {
			events(p)
			p.down, p.unmade = 200, 200
		},
	},
	{
		name: "a consumer acknowledges first", breaks: []rule{settles}, plan: events,
		consumer: func(_ *world, h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body) // of a buffer
				later := r.Clone(context.WithoutCancel(r.Context()))
				later.Body = io.NopCloser(bytes.NewReader(b))
				go h.ServeHTTP(httptest.NewRecorder(), later)
				rw.WriteHeader(http.StatusOK)
			})
		},
	},
	{
		name: "a consumer's failure is acknowledged", breaks: []rule{settles}, plan: events,
		consumer: func(_ *world, h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(httptest.NewRecorder(), r)
				rw.WriteHeader(http.StatusOK)
			})
		},
	},
}

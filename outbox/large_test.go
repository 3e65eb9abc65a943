package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// A weighed queue records the largest number of payload bytes that were claimed and not settled.
type weighed struct {
	outbox.Queue
	mu         sync.Mutex
	sizes      map[outbox.Lease]int
	held, most int
	claims     int
}

func (w *weighed) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	ds, err := w.Queue.Claim(ctx, c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims++
	for _, d := range ds {
		w.sizes[d.Lease] = len(d.Event.Payload)
		w.held += len(d.Event.Payload)
	}
	w.most = max(w.most, w.held)
	return ds, err
}

func (w *weighed) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	lost, err := w.Queue.Settle(ctx, ended...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range ended {
		w.held -= w.sizes[s.Lease]
		delete(w.sizes, s.Lease)
	}
	return lost, err
}

// A backlog of large events for many destinations must not fill the memory of a relay.
func TestARelayClaimsFewerLargeEvents(t *testing.T) {
	for _, c := range []struct {
		name         string
		size, events int
		most, claims int // bytes, claims
	}{
		{"the largest events", outbox.MaxPayload, 150, 100 * outbox.MaxPayload, 30},
		{"small events", 64, 2000, 2000 * 64, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				payload := make([]byte, c.size)
				for i := range c.events {
					g.enqueue(outbox.Event{ID: "e", Destination: fmt.Sprint("d", i), Payload: payload})
				}
				w := &weighed{Queue: g.queue, sizes: map[outbox.Lease]int{}}
				stop := g.relay(w, func(context.Context, outbox.Event) error {
					time.Sleep(10 * time.Millisecond)
					return nil
				}, outbox.PollInterval(time.Hour))
				time.Sleep(time.Minute)
				stop()
				g.stats(0, 0)
				t.Log(w.most>>20, "MiB,", w.claims, "claims")
				require.LessOrEqual(t, w.most, c.most)
				require.LessOrEqual(t, w.claims, c.claims)
			})
		})
	}
}

package outbox

import (
	"context"
	"time"

	"github.com/redo-go/redo/store"
)

// beat renews all leases together, every third of a lease, until done is closed.
func (r *run) beat(done <-chan struct{}) {
	tick := time.NewTicker(max(r.lease/3, time.Microsecond))
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			r.renew()
		}
	}
}

func (r *run) renew() {
	r.mu.Lock()
	leases := make([]Lease, 0, len(r.held))
	for l := range r.held {
		leases = append(leases, l)
	}
	r.mu.Unlock()
	if len(leases) == 0 {
		return
	}
	start := time.Now()
	ctx, done := context.WithTimeout(r.base, min(r.queueTimeout, r.lease/3))
	lost, err := r.queue.Extend(ctx, r.lease, leases...)
	done()
	r.observeQueue(r.base, "Extend", start, len(leases), err)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range leases {
		if it := r.held[l]; it != nil {
			if err == nil {
				it.renewed = start
			} else if time.Since(it.renewed) >= r.lease {
				lost = append(lost, l)
			}
		}
	}
	for _, l := range lost {
		if it := r.held[l]; it != nil {
			it.lost = true
			if it.cancel != nil {
				it.cancel(store.ErrLost)
			}
		}
	}
}

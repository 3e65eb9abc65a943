package outbox

import (
	"context"
	"time"

	"github.com/redo-go/redo/store"
)

// beat renews all leases together, every third of a lease, until done is closed.
func (r *run) beat(done <-chan struct{}) {
	t := time.NewTimer(r.lease / 3)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			t.Reset(r.renew())
		}
	}
}

// renew gives up the deliveries whose leases have ended, and renews the other leases. It returns the time until the
// next call.
func (r *run) renew() time.Duration {
	start := time.Now()
	leases, end := r.owned(start)
	if len(leases) == 0 {
		return r.lease / 3
	}
	ctx, done := context.WithTimeout(r.base, min(r.queueTimeout, r.lease/3, end.Sub(start)))
	lost, err := r.queue.Extend(ctx, r.lease, leases...)
	done()
	r.observeQueue(r.base, "Extend", start, len(leases), err)
	r.mu.Lock()
	for _, l := range leases {
		if it := r.held[l]; it != nil && err == nil {
			it.renewed = start
		}
	}
	for _, l := range lost {
		r.lose(r.held[l])
	}
	r.mu.Unlock()
	if err == nil {
		end = start.Add(r.lease)
	}
	return min(time.Until(start.Add(r.lease/3)), time.Until(end))
}

// owned returns the leases that have not ended, and the first time at which one ends.
func (r *run) owned(now time.Time) (leases []Lease, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end = now.Add(r.lease)
	for l, it := range r.held {
		switch ends := it.renewed.Add(r.lease); {
		case it.lost:
		case !now.Before(ends):
			r.lose(it)
		default:
			leases = append(leases, l)
			if ends.Before(end) {
				end = ends
			}
		}
	}
	return leases, end
}

// lose cancels the delivery of an event whose lease is lost. The caller holds the mutex.
func (r *run) lose(it *item) {
	if it == nil {
		return
	}
	it.lost = true
	if it.cancel != nil {
		it.cancel(store.ErrLost)
	}
}

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
	if err == nil {
		end = start.Add(r.lease)
		for _, l := range leases {
			if it := r.held[l]; it != nil {
				it.renewed = start
			}
		}
	}
	for _, l := range lost {
		r.lose(r.held[l])
	}
	r.mu.Unlock()
	return min(time.Until(start.Add(r.lease/3)), time.Until(end))
}

// owned returns the leases that have not ended, and the first time at which one ends.
func (r *run) owned(now time.Time) (leases []Lease, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := now
	for l, it := range r.held {
		if r.over(it, now) {
			r.lose(it)
			continue
		}
		leases = append(leases, l)
		if it.renewed.Before(oldest) {
			oldest = it.renewed
		}
	}
	return leases, oldest.Add(r.lease)
}

// over reports whether the lease is lost or has ended. The relay may have been stopped since its renewal.
func (r *run) over(it *item, now time.Time) bool { return it.lost || now.Sub(it.renewed) >= r.lease }

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

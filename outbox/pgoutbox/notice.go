package pgoutbox

import (
	"context"
	"sync"
	"time"
)

// Postgres commits transactions that notify one after the other, in the whole database. So a process notifies rarely
// when it enqueues much.
const (
	// noticePause is the mean time between two notifications of a process.
	noticePause = 8 * time.Millisecond
	// noticeBurst is the number of notifications that a process may save up.
	noticeBurst = 20
	// noticeTimeout bounds a notification outside of the caller's transactions.
	noticeTimeout = 5 * time.Second
)

// notices decides which transactions of a process notify the relays.
type notices struct {
	send func(ctx context.Context) // notifies in a separate transaction; nil: never notify

	mu   sync.Mutex
	full time.Time // when all of the burst is saved up
	late bool      // a notification outside of the transactions is planned
}

// inside reports whether the transaction at hand notifies. If it does not, a notification follows soon.
func (n *notices) inside() bool {
	if n.send == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.allow(time.Now()) {
		return true
	}
	n.plan(noticePause)
	return false
}

// outside notifies soon, in a separate transaction.
func (n *notices) outside() {
	if n.send == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.allow(time.Now()) {
		n.plan(0)
	} else {
		n.plan(noticePause)
	}
}

// plan sends a notification after d, unless one is planned. The caller holds the lock.
func (n *notices) plan(d time.Duration) {
	if n.late {
		return
	}
	n.late = true
	time.AfterFunc(d, func() {
		n.mu.Lock()
		n.late = false
		n.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), noticeTimeout)
		defer cancel()
		n.send(ctx)
	})
}

// allow takes a notification from the burst if one is left.
func (n *notices) allow(now time.Time) bool {
	if n.full.Before(now) {
		n.full = now
	}
	if n.full.Sub(now) > (noticeBurst-1)*noticePause {
		return false
	}
	n.full = n.full.Add(noticePause)
	return true
}

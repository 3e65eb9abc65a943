package pgstore

import (
	"sync"

	"github.com/redo-go/redo/store"
)

// A registry knows which IDs the open transactions of one store hold, and answers for them without a connection: a
// pool that is full of running handlers still answers their duplicates at once. An ID is in it from when its record has
// been written until its transaction is over. What it doesn't know, another process's transactions above all, the
// database does.
type registry struct {
	mu     sync.Mutex
	by     map[store.ID]*holding
	open   int // transactions, those that are being opened included
	closed bool
}

// A holding is one open transaction's.
type holding struct {
	id          store.ID
	fingerprint store.Fingerprint
}

// grant returns the grant of a claim whose ID is held.
func (r *registry) grant(c store.Claim) (store.Grant, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.by[c.ID]
	if h == nil {
		return store.Grant{}, false
	}
	return unseen(c, h.fingerprint != c.Fingerprint), true
}

// enter counts a transaction that is about to be opened, unless the registry is closed.
func (r *registry) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.open++
	return true
}

// hold is called when the transaction has written its record. It may replace a holding whose connection was lost
// before its owner has noticed.
func (r *registry) hold(c store.Claim) *holding {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = make(map[store.ID]*holding)
	}
	h := &holding{c.ID, c.Fingerprint}
	r.by[c.ID] = h
	return h
}

// leave ends what enter began; h is nil where nothing was held. It reports whether this was the last transaction of a
// closed registry.
func (r *registry) leave(h *holding) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h != nil && r.by[h.id] == h {
		delete(r.by, h.id)
	}
	r.open--
	return r.closed && r.open == 0
}

// close lets no more transactions in and reports whether none is open.
func (r *registry) close() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.open == 0
}

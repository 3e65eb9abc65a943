package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/store"
)

// unbound holds the keys of all middlewares without RunIn, so that those over one store know of each other's runs.
var unbound registry

// A registry holds keys whose handlers run, or have run without their outcome being recorded. Other requests with such
// a key are excluded after its lease may have ended in the store.
type registry struct {
	mu   sync.Mutex
	keys map[runningKey]run
	n    atomic.Int32 // len(keys)
}

type runningKey struct {
	records any // of the gate
	id      store.ID
}

// A run is the handler of a key, or its outcome that is not recorded yet.
type run struct {
	fence       uint64
	fingerprint store.Fingerprint
	renews      *execution // renews the lease; nil if other requests are excluded whatever the store says
}

// excludes reports whether the store is not asked. It may have given up a lease whose renewal is late, as in a process
// that was paused, and the handler still runs.
func (is run) excludes() bool {
	return is.renews == nil || time.Since(is.renews.renewed()) >= is.renews.leaseTTL/2
}

// add adds a key.
func (r *registry) add(g *gate, id store.ID, is run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = map[runningKey]run{}
	}
	r.keys[runningKey{g.records, id}] = is
	r.n.Store(int32(len(r.keys)))
}

// remove removes the key that add added for the lease, if it did.
func (r *registry) remove(g *gate, l store.Lease) {
	if r.n.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := runningKey{g.records, l.ID}
	if is, ok := r.keys[key]; ok && is.fence == l.Fence {
		delete(r.keys, key)
		r.n.Store(int32(len(r.keys)))
	}
}

// judge returns the verdict on a claim of a key that add has added. It reports false if the store decides.
func (r *registry) judge(g *gate, c store.Claim) (store.Grant, bool) {
	if r.n.Load() == 0 {
		return store.Grant{}, false
	}
	r.mu.Lock()
	is, ok := r.keys[runningKey{g.records, c.ID}]
	r.mu.Unlock()
	if !ok || !is.excludes() {
		return store.Grant{}, false
	}
	now := time.Now()
	rec := store.Record{
		ID: c.ID, Fingerprint: is.fingerprint, State: store.StatePending, Fence: is.fence,
		ReadAt: now, LeaseUntil: now.Add(g.leaseTTL),
	}
	return store.Grant{Verdict: store.Judge(rec, c, now), Record: rec}, true
}

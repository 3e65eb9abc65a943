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
// a key are excluded, even after its lease has ended in the store.
type registry struct {
	mu   sync.Mutex
	keys map[runningKey]store.Record
	n    atomic.Int32 // len(keys)
}

type runningKey struct {
	records any // of the gate
	id      store.ID
}

// add adds a key.
func (r *registry) add(g *gate, rec store.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = map[runningKey]store.Record{}
	}
	r.keys[runningKey{g.records, rec.ID}] = rec
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
	if rec, ok := r.keys[key]; ok && rec.Fence == l.Fence {
		delete(r.keys, key)
		r.n.Store(int32(len(r.keys)))
	}
}

// judge returns the verdict on a claim of a key that add has added. It reports false for other keys.
func (r *registry) judge(g *gate, c store.Claim) (store.Grant, bool) {
	if r.n.Load() == 0 {
		return store.Grant{}, false
	}
	r.mu.Lock()
	rec, ok := r.keys[runningKey{g.records, c.ID}]
	r.mu.Unlock()
	if !ok {
		return store.Grant{}, false
	}
	rec.ReadAt = time.Now()
	rec.LeaseUntil = rec.ReadAt.Add(g.leaseTTL)
	return store.Grant{Verdict: store.Judge(rec, c, rec.ReadAt), Record: rec}, true
}

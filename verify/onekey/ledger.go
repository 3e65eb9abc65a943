package onekey

import (
	"slices"
	"sync"
)

// A ledger is the service's database. Its effects are made in order of the fences of their owners.
type ledger struct {
	mu      sync.Mutex
	newest  uint64
	effects []string
}

// enter reports whether no later owner of the key has come, and shuts earlier owners out.
func (l *ledger) enter(fence uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest = max(l.newest, fence)
	return fence == l.newest
}

// apply makes the effect id, unless a later owner has come.
func (l *ledger) apply(fence uint64, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fence < l.newest {
		return false
	}
	l.effects = append(l.effects, id)
	return true
}

func (l *ledger) has(id string) bool { return slices.Contains(l.all(), id) }

func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.effects)
}

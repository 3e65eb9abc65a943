package boltoutbox

import (
	"context"
	"sync"
)

// bell wakes watchers. Its zero value has none.
type bell struct {
	mu       sync.Mutex
	watchers map[*func()]struct{}
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.watchers {
		(*w)()
	}
}

// Watch implements [outbox.Watcher]. It reports changes by this Queue only.
func (q *Queue) Watch(ctx context.Context, wake func()) error {
	b := &q.bell
	b.mu.Lock()
	if b.watchers == nil {
		b.watchers = make(map[*func()]struct{})
	}
	b.watchers[&wake] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, &wake)
	}()
	wake()
	<-ctx.Done()
	return nil
}

package server

import (
	"strings"
	"sync"

	"github.com/redo-go/redo/store"
)

// A seats counts the requests that wait, in all, by principal and by key. The zero value has none.
type seats struct {
	mu          sync.Mutex
	taken       int
	byPrincipal map[string]int
	byKey       map[store.ID]int
}

// sit takes a seat for the request, which waits for the key of this ID. It reports false if a limit is reached.
func (c *execution) sit(id store.ID) bool {
	s := &c.seats
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= c.maxWaiters || s.byKey[id] >= c.maxWaitersPerKey ||
		c.principal != nil && s.byPrincipal[c.caller] >= c.maxWaitersPerPrincipal {
		return false
	}
	if s.byKey == nil {
		s.byPrincipal, s.byKey = map[string]int{}, map[store.ID]int{}
	}
	s.taken++
	c.caller = strings.Clone(c.caller) // it outlives the request here, and fasthttp uses a request's memory again
	s.byPrincipal[c.caller]++
	s.byKey[id]++
	return true
}

// stand gives back the seat that sit took.
func (c *execution) stand(id store.ID) {
	s := &c.seats
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.byPrincipal[c.caller]--; s.byPrincipal[c.caller] == 0 {
		delete(s.byPrincipal, c.caller)
	}
	if s.byKey[id]--; s.byKey[id] == 0 {
		delete(s.byKey, id)
	}
}

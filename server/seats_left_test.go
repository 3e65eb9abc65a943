package server

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// Keys and principals are not remembered for longer than their requests wait.
func TestSeatsAreGivenBack(t *testing.T) {
	g := &gate{config: config{maxWaiters: 10, maxWaitersPerKey: 1, maxWaitersPerPrincipal: 1}}
	id := store.ID{Scope: "s", Key: "k"}
	c := &execution{route: &route{gate: g}, caller: "a"}
	for range 3 {
		require.True(t, c.sit(id))
		require.False(t, c.sit(id))
		c.stand(id)
	}
	require.Zero(t, g.seats.taken)
	require.Empty(t, g.seats.byKey)
	require.Empty(t, g.seats.byPrincipal)
}

// fasthttp uses the memory of a request's strings again after the request. Another request of the principal may still
// wait then.
func TestSeatsOutliveTheStringsOfARequest(t *testing.T) {
	g := &gate{config: config{maxWaiters: 10, maxWaitersPerKey: 2, maxWaitersPerPrincipal: 2}}
	id := store.ID{Scope: "s", Key: "k"}
	memory := []byte("ann")
	first := &execution{route: &route{gate: g}, caller: unsafe.String(&memory[0], len(memory))}
	second := &execution{route: &route{gate: g}, caller: "ann"}
	require.True(t, first.sit(id))
	require.True(t, second.sit(id))
	first.stand(id)
	copy(memory, "bob")
	second.stand(id)
	require.Empty(t, g.seats.byPrincipal)
}

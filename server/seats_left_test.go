package server

import (
	"testing"

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

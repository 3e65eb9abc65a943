package pebblestore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A half that is full stays until the next one is.
func TestRecentForgetsTheOldHalfOnly(t *testing.T) {
	c := newRecent()
	full := &record{Record: store.Record{Result: make([]byte, recentSize)}}
	c.put("a", full)
	require.EqualValues(t, 1, c.turns)
	c.put("b", nil)
	for key, want := range map[string]*record{"a": full, "b": nil} {
		r, ok := c.get([]byte(key))
		require.True(t, ok, key)
		require.Same(t, want, r, key)
	}
	c.put("c", full)
	require.EqualValues(t, 2, c.turns)
	_, ok := c.get([]byte("a"))
	require.False(t, ok)
	_, ok = c.get([]byte("b"))
	require.True(t, ok)
}

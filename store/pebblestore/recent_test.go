package pebblestore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// fill puts as many records as a half of a recent takes.
func fill(c *recent) {
	r := &record{Record: store.Record{Result: make([]byte, recentMax-2*headerSize-1)}}
	for range recentSize/recentMax + 1 {
		c.put("f", r)
	}
}

// A half that is full stays until the next one is.
func TestRecentForgetsTheOldHalfOnly(t *testing.T) {
	c := newRecent()
	first := &record{}
	c.put("a", first)
	require.Zero(t, c.turns)
	fill(&c)
	require.EqualValues(t, 1, c.turns)
	c.put("b", nil)
	for key, want := range map[string]*record{"a": first, "b": nil} {
		r, ok := c.get([]byte(key))
		require.True(t, ok, key)
		require.Same(t, want, r, key)
	}
	fill(&c)
	require.EqualValues(t, 2, c.turns)
	_, ok := c.get([]byte("a"))
	require.False(t, ok)
	_, ok = c.get([]byte("b"))
	require.True(t, ok)
}

// A half has its size at most: the key and an absent record count too.
func TestRecentCountsAllOfARecord(t *testing.T) {
	c := newRecent()
	c.put("key", nil)
	require.Equal(t, 3+headerSize, c.size)
	c.put("key", &record{Record: store.Record{Owner: "o", Meta: []byte("me"), Result: []byte("res")}})
	require.Equal(t, 2*(3+headerSize)+headerSize+6, c.size)
	c.size = recentSize - 1 - headerSize
	c.put("k", nil)
	require.Zero(t, c.turns, "a half takes its size")
	c.put("k", nil)
	require.EqualValues(t, 1, c.turns)
	require.Zero(t, c.size)
}

// Two results of a gigabyte would otherwise stay in memory until many other records have changed.
func TestRecentKeepsNoLargeRecord(t *testing.T) {
	c := newRecent()
	c.put("k", &record{})
	fill(&c)
	c.put("k", &record{Record: store.Record{Result: make([]byte, recentMax-2*headerSize-1)}})
	_, ok := c.get([]byte("k"))
	require.True(t, ok, "it is not too large yet")
	turns := c.turns
	c.put("k", &record{Record: store.Record{Result: make([]byte, recentMax-2*headerSize)}})
	_, ok = c.get([]byte("k"))
	require.False(t, ok)
	require.Equal(t, turns+1, c.turns, "a read that began before is repeated")
}

func TestLargeResultIsReadAgain(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	s.helpers.Wait()
	result := make([]byte, recentMax)
	for i := range 3 {
		key := fmt.Sprint(i)
		l := mustSettle(t, s, key, store.Outcome{Result: result})
		_, ok := s.recent.get(envelope.AppendKey(nil, l.ID))
		require.False(t, ok)
		require.Len(t, mustReserve(t, s, claim(key), store.Complete).Record.Result, len(result))
	}
}

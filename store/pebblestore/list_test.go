package pebblestore

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
)

const listedRecords = scanned + 44 // more than a page

func fillPages(t *testing.T, s *Store) {
	t.Helper()
	for i := range listedRecords {
		c := unleased(i)
		c.Lazy = true
		mustReserve(t, s, c, store.Acquired)
	}
}

func unleased(i int) store.Claim {
	c := claim(fmt.Sprint(i))
	c.Lease = 0
	return c
}

func TestAListOfSeveralPagesEndsAlthoughItsLoopMakesRecords(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	fillPages(t, s)
	seen := 0
	for _, err := range s.Pending(t.Context(), "") {
		require.NoError(t, err)
		seen++
		require.LessOrEqual(t, seen, 2*listedRecords, "the list goes on")
		mustReserve(t, s, unleased(listedRecords+seen), store.Acquired)
	}
	require.Equal(t, listedRecords, seen)
}

// An open iterator keeps files that Pebble has compacted.
func TestAListIsReadInPages(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	fillPages(t, s)
	require.NoError(t, s.writeClaims(t.Context()))
	page := pendingPage{}
	require.NoError(t, s.scanPending(&page))
	require.Len(t, page.entries, scanned)
	require.True(t, page.more)
	require.NoError(t, s.scanPending(&page))
	require.Len(t, page.entries, listedRecords-scanned)
	require.False(t, page.more)
}

func TestARecordThatIsMadeAnewIsNotListedTwice(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	fillPages(t, s)
	remade := unleased(5)
	seen := map[string]bool{}
	for r, err := range s.Pending(t.Context(), "") {
		require.NoError(t, err)
		if len(seen) == 0 {
			l := mustReserve(t, s, remade, store.TakenOver).Lease
			require.NoError(t, s.Release(t.Context(), l))
			mustReserve(t, s, remade, store.Acquired)
		}
		require.False(t, seen[r.ID.Key], r.ID)
		seen[r.ID.Key] = true
	}
	require.Len(t, seen, listedRecords-1)
	require.Len(t, pendingKeys(t, s, ""), listedRecords)
}

func TestAListIsWholeAlthoughTheClockWasSetBackBeforeARestart(t *testing.T) {
	now := time.Now()
	path := tempDir(t)
	s := mustOpen(t, path, withClock(fakeclock.At(now.Add(time.Hour).UnixNano()).Read))
	fillPages(t, s)
	require.NoError(t, s.Close())
	s = mustOpen(t, path, withClock(fakeclock.At(now.UnixNano()).Read))
	mustReserve(t, s, claim("later"), store.Acquired)
	require.Len(t, pendingKeys(t, s, ""), listedRecords+1)
}

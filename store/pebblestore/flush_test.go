package pebblestore

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
)

// A disk without space takes writes to logs that Pebble uses again, and no table. Pebble then holds each write until a
// table can be made.
func TestAFlushThatFailsWhileWritesWaitForItEndsTheStore(t *testing.T) {
	racetest.Repeats(t)
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	disk.fails(".sst")
	var err error
	acknowledged := 0
	for ; err == nil; acknowledged++ {
		require.Less(t, acknowledged, 20, "Pebble holds no write")
		g := mustReserve(t, s, claim(fmt.Sprint(acknowledged)), store.Acquired)
		err = hangtest.Within(t, func() error {
			return s.Complete(t.Context(), g.Lease, store.Outcome{Result: make([]byte, memTableSize/2)})
		})
	}
	require.ErrorIs(t, err, ErrBroken)
	require.ErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, err, errDisk)
	broken(t, s.Check(t.Context()))
	require.NoError(t, hangtest.Within(t, s.Close), "no lazy outcome is lost")

	again := mustOpen(t, "/data/x", withFS(disk.mem.CrashClone(vfs.CrashCloneCfg{})))
	for i := range acknowledged - 1 {
		mustReserve(t, again, claim(fmt.Sprint(i)), store.Complete)
	}
}

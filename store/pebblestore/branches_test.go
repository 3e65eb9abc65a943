package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
)

// The checksum of a record proves its bytes, not their meaning.
func TestRecordWithAStateThatDoesNotExistIsDamaged(t *testing.T) {
	key := []byte("key")
	v := appendRecord(nil, key, sampleRecords()["full"])
	v[5] = byte(store.StateFailed) + 1
	binary.BigEndian.PutUint32(v[1:], checksum(key, v))
	r, err := decodeRecord(key, v)
	require.ErrorIs(t, err, ErrCorrupt)
	require.Nil(t, r)
}

func TestAnOptionThatIsNilHidesNoOther(t *testing.T) {
	c, err := newConfig([]Option{nil, WithLazyDelay(time.Minute)})
	require.NoError(t, err)
	require.Equal(t, time.Minute, c.lazyDelay)
}

// Two rows of a record would be written in any order.
func TestChangesOfARecordInAGroupAreOneRow(t *testing.T) {
	s := mustOpen(t, tempDir(t), WithLazyDelay(time.Hour))
	l := mustReserve(t, s, lazyClaim("k"), store.Acquired).Lease
	require.NoError(t, s.Complete(t.Context(), l, store.Outcome{Lazy: true}))
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.current.rows, 1)
	require.Nil(t, s.current.rows[0].was)
	require.Equal(t, store.StateComplete, s.current.rows[0].rec.State)
}

// Another goroutine may end the store between a group's sync and its settlement.
func TestAGroupIsSettledOnceWhenTheStoreBreaks(t *testing.T) {
	s := mustOpen(t, tempDir(t), WithLazyDelay(time.Hour))
	mustReserve(t, s, lazyClaim("k"), store.Acquired)
	s.mu.Lock()
	g := s.current
	s.unsettled, s.current = []*group{g}, newGroup()
	s.mu.Unlock()
	s.breakDown(errDisk)
	s.breakDown(errors.New("later"))
	require.NotPanics(t, func() { s.settle(g) })
	<-g.done
	require.ErrorIs(t, g.err, errDisk)
	require.NotContains(t, g.err.Error(), "later")
	require.ErrorIs(t, s.Close(), errDisk, "a lazy change is lost")
}

// An entry of the index that names no record is passed. The records behind it are purged.
func TestPurgePassesAMalformedEntry(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempDir(t), withClock(fake.Read))
	expire(t, s, fake)
	require.NoError(t, s.db.Set([]byte{expiryPrefix, 0x10}, nil, pebble.Sync)) // it sorts before the record's
	s.due.Store(0)
	b, g := s.db.NewBatch(), newGroup()
	g.now = s.clock.Now()
	s.free(s.db, b, g, 10)
	require.NoError(t, b.Close())
	require.Equal(t, 1, g.purged)
	require.ErrorIs(t, g.skipped, ErrCorrupt)
	require.ErrorContains(t, g.skipped, "malformed")
}

func TestCallsOfABrokenStoreReturnItsError(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	mustReserve(t, s, claim("k"), store.Acquired)
	s.breakDown(errDisk)
	id := claim("k").ID
	_, purged := s.Purge(t.Context(), 1)
	for name, err := range map[string]error{
		"Purge": purged, "Drop": s.Drop(t.Context(), id), "Verify": s.Verify(t.Context()), "Check": s.Check(t.Context()),
		"a page": s.scanPending(&pendingPage{}), "lazy claims": s.writeClaims(t.Context()),
	} {
		require.ErrorIs(t, err, ErrBroken, name)
		require.ErrorIs(t, err, errDisk, name)
	}
	_, first, err := s.drop(envelope.AppendKey(nil, id), nil, 0, true)
	require.ErrorIs(t, err, ErrBroken)
	require.False(t, first)
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	mustReserve(t, s, claim("k"), store.Acquired)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Verify(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, verify(t.Context(), damagedTable{}), pebble.ErrCorruption)
}

// A record that changed since it was read is read again.
func TestDropJudgesARecordThatChangedAgain(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	l := mustReserve(t, s, claim("k"), store.Acquired).Lease
	key := envelope.AppendKey(nil, l.ID)
	for name, drop := range map[string]func() (*group, bool, error){
		"it is alive":         func() (*group, bool, error) { return s.drop(key, nil, s.recent.turns, true) },
		"it was not absent":   func() (*group, bool, error) { return s.drop(key, nil, s.recent.turns, false) },
		"it may be forgotten": func() (*group, bool, error) { return s.drop([]byte("other"), nil, s.recent.turns+1, true) },
	} {
		g, first, err := drop()
		require.NoError(t, err, name)
		require.False(t, first, name)
		require.Nil(t, g, name)
	}
	require.ErrorIs(t, s.Drop(t.Context(), l.ID), store.ErrInvalid)
}

func TestAContextEndsDropsWaitForAnotherChange(t *testing.T) {
	dir := tempDir(t)
	s := mustOpen(t, dir)
	id := mustReserve(t, s, claim("damaged"), store.Acquired).Lease.ID
	require.NoError(t, s.Close())
	s = mustOpen(t, dir, WithLazyDelay(time.Hour))
	damage(t, s, "damaged")
	s.mu.Lock()
	s.put(envelope.AppendKey(nil, id), nil, nil, true)
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, s.Drop(awaited{ctx, cancel}, id), context.Canceled)
}

// Check ends at the first thing that is wrong.
func TestCheckReportsADirectoryThatCannotBeLookedAt(t *testing.T) {
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	require.NoError(t, s.Check(t.Context()))
	disk.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpStat {
			return errDisk
		}
		return nil
	})
	require.ErrorIs(t, s.Check(t.Context()), errDisk)
	require.ErrorIs(t, s.Check(t.Context()), store.ErrUnavailable)
	disk.on.Store(nil)
	s.failedFlush(errDisk)
	require.ErrorIs(t, s.Check(t.Context()), errDisk)
	s.worked(errDisk)
	require.ErrorIs(t, s.Check(t.Context()), errDisk, "a flush that failed mends nothing")
	s.worked(nil)
	require.NoError(t, s.Check(t.Context()))
}

// The state holds the fences. A Store that took a damaged one for none would give them out again.
func TestADamagedStateIsNeverTakenForNone(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, db *pebble.DB){
		"it is lost": func(t *testing.T, db *pebble.DB) { require.NoError(t, db.Delete(stateKey, pebble.Sync)) },
		"it is another one": func(t *testing.T, db *pebble.DB) {
			require.NoError(t, db.Set(stateKey, make([]byte, 20), pebble.Sync))
		},
	} {
		path := closed(t)
		db, err := pebble.Open(path, &pebble.Options{FormatMajorVersion: pebble.FormatWALSyncChunks})
		require.NoError(t, err)
		damage(t, db)
		require.NoError(t, db.Close())
		for range 2 { // the first one has closed the database
			_, err = Open(path)
			require.ErrorIs(t, err, ErrCorrupt, name)
			require.ErrorIs(t, err, store.ErrUnavailable, name)
			require.ErrorContains(t, err, path)
		}
	}
}

// A caller may use its bytes again.
func TestTheStoreSharesNoBytesWithItsCaller(t *testing.T) {
	s := mustOpen(t, tempDir(t), WithLazyDelay(time.Hour))
	c := lazyClaim("k")
	meta, result := bytes.Clone(c.Meta), []byte("result")
	g := mustReserve(t, s, c, store.Acquired)
	clear(c.Meta)
	clear(g.Record.Meta)
	r, err := s.Find(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, meta, r.Meta)
	extended := bytes.Clone(meta)
	require.NoError(t, s.Extend(t.Context(), g.Lease, time.Hour, extended))
	clear(extended)
	require.NoError(t, s.Complete(t.Context(), g.Lease, store.Outcome{Result: result, Lazy: true}))
	clear(result)
	for range 2 {
		r, err = s.Find(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, meta, r.Meta)
		require.Equal(t, "result", string(r.Result))
		clear(r.Result)
	}
}

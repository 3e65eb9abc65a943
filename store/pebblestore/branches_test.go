package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/internal/hangtest"
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

// listError returns the only error of a list.
func listError(t *testing.T, s *Store) error {
	t.Helper()
	var errs []error
	for _, err := range s.Pending(t.Context(), "") {
		errs = append(errs, err)
	}
	require.Len(t, errs, 1)
	return errs[0]
}

func TestDefaults(t *testing.T) {
	c, err := newConfig(nil)
	require.NoError(t, err)
	require.Equal(t, 10*time.Millisecond, c.lazyDelay)
	require.Equal(t, 64<<20, c.maxBatch)
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
		"a page": s.scanPending(&pendingPage{}), "lazy claims": s.writeClaims(t.Context()), "Pending": listError(t, s),
	} {
		require.ErrorIs(t, err, ErrBroken, name)
		require.ErrorIs(t, err, errDisk, name)
	}
	_, first := s.drop(envelope.AppendKey(nil, id), nil, 0, true)
	require.False(t, first)
}

// A waiter reads its record every ten seconds, so a failed write wakes it.
func TestAFailedWriteAnswersThoseWhoWait(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	_, done := waiting(t, s)
	s.breakDown(errDisk)
	require.ErrorIs(t, <-done, ErrBroken)
}

// A database that is only read refuses each batch.
func TestABatchThatPebbleRefusesIsAnError(t *testing.T) {
	fs := vfs.NewMem()
	db, err := pebble.Open("x", &pebble.Options{FS: fs})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	db, err = pebble.Open("x", &pebble.Options{FS: fs, ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	cfg, err := newConfig(nil)
	require.NoError(t, err)
	s := newStore("x", nil, cfg)
	s.db, s.maxBatch = db, -1 // no row fits the first batch
	for name, g := range map[string]*group{
		"a row": {rows: []*row{{key: "k"}}}, "a purge": {purge: 1}, "nothing": {},
	} {
		if name == "a row" {
			s.maxBatch = 0
			g.rows = append(g.rows, &row{key: "l"})
		}
		require.ErrorIs(t, s.apply(db, g), pebble.ErrReadOnly, name)
	}
	require.ErrorIs(t, s.load(false), pebble.ErrReadOnly)
	require.NoError(t, hangtest.Within(t, func() error {
		s.flush(db) // it has nothing to wait for
		return nil
	}))
}

func TestAPanicOfPebbleIsTheErrorOfOpenAndClose(t *testing.T) {
	cfg, err := newConfig(nil)
	require.NoError(t, err)
	require.EqualError(t, newStore("x", nil, cfg).guard(func() error { panic("damaged") }), "damaged")
}

// It would fail, or wait for a flush that fails for good.
func TestAStoreThatCannotFlushIsClosedWithout(t *testing.T) {
	cfg, err := newConfig(nil)
	require.NoError(t, err)
	failing, broken := newStore("x", nil, cfg), newStore("x", nil, cfg)
	failing.failedFlush(errDisk)
	broken.breakDown(errDisk)
	for _, s := range []*Store{failing, broken} {
		require.NotPanics(t, func() { s.flush(nil) })
	}
}

// A compaction that Close cancels has not failed.
func TestACanceledCompactionEndsNothing(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	s.stalled.Store(true)
	require.NoError(t, hangtest.Within(t, func() error {
		s.worked(pebble.ErrCancelledCompaction)
		return nil
	}))
	require.NoError(t, s.Check(t.Context()))
}

// The writer waits for the next signal when no group is due.
func TestTheWriterTakesEachSignal(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	for range 3 {
		s.signal()
		require.Eventually(t, func() bool { return len(s.wake) == 0 }, time.Minute, time.Millisecond)
	}
}

func TestACallThatWaitsForALazyChangeEndsWithItsContext(t *testing.T) {
	s, g := gated(t, WithLazyDelay(time.Hour))
	l := mustReserve(t, s, lazyClaim("k"), store.Acquired).Lease
	s.overdue()
	<-g.arrived
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Complete(awaited{ctx, cancel}, l, store.Outcome{})
	require.Equal(t, context.Canceled, err, "it has changed nothing")
	g.pass <- struct{}{}
	mustReserve(t, s, claim("k"), store.InFlight)
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
	for name, drop := range map[string]func() (*group, bool){
		"it is alive":         func() (*group, bool) { return s.drop(key, nil, s.recent.turns, true) },
		"it was not absent":   func() (*group, bool) { return s.drop(key, nil, s.recent.turns, false) },
		"it may be forgotten": func() (*group, bool) { return s.drop([]byte("other"), nil, s.recent.turns+1, true) },
	} {
		g, first := drop()
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

package pebblestore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
)

// damage changes the header of a record, which hides its places in the indexes. The store must have been opened anew,
// so that it reads the record.
func damage(t *testing.T, s *Store, key string) {
	t.Helper()
	k := append([]byte{recordsPrefix}, envelope.AppendKey(nil, claim(key).ID)...)
	v, closer, err := s.db.Get(k)
	require.NoError(t, err)
	v = bytes.Clone(v)
	require.NoError(t, closer.Close())
	v[10] ^= 1
	require.NoError(t, s.db.Set(k, v, pebble.Sync))
}

func TestDropRemovesTheIndexEntriesToo(t *testing.T) {
	dir := tempDir(t)
	s := mustOpen(t, dir)
	mustReserve(t, s, claim("damaged"), store.Acquired) // in the index of pending records and in that of expiries
	mustReserve(t, s, claim("sound"), store.Acquired)
	require.NoError(t, s.Close())

	s = mustOpen(t, dir)
	damage(t, s, "damaged")
	require.ErrorIs(t, s.Verify(t.Context()), ErrCorrupt)
	require.NoError(t, s.Drop(t.Context(), claim("damaged").ID))
	require.NoError(t, s.Verify(t.Context()))
	require.Equal(t, []string{"sound"}, pendingKeys(t, s, ""))
}

// A context whose Done is called by who waits.
type awaited struct {
	context.Context
	waits func()
}

func (c awaited) Done() <-chan struct{} {
	c.waits()
	return c.Context.Done()
}

// Another change of the ID may be under way. Drop judges the record again after it.
func TestDropGoesOnAfterAnotherChangeOfTheRecord(t *testing.T) {
	dir := tempDir(t)
	s := mustOpen(t, dir)
	id := mustReserve(t, s, claim("damaged"), store.Acquired).Lease.ID
	require.NoError(t, s.Close())

	s = mustOpen(t, dir, WithLazyDelay(time.Hour))
	damage(t, s, "damaged")
	key := envelope.AppendKey(nil, id)
	s.mu.Lock()
	s.put(key, nil, nil, true)
	s.mu.Unlock()
	waited := 0
	require.NoError(t, s.Drop(awaited{t.Context(), func() { waited++; s.overdue() }}, id))
	require.Equal(t, 2, waited, "for the other change, and for its own")
	left, err := s.entries(key)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, s.Verify(t.Context()))
}

// A record that never expires has one entry.
func TestDropRemovesAnEntryWithoutARecord(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	id := claim("k").ID
	key := envelope.AppendKey(nil, id)
	require.NoError(t, s.db.Set(appendIndexKey(nil, pendingPrefix, 1, key), nil, pebble.Sync))
	require.NoError(t, s.Drop(t.Context(), id))
	require.NoError(t, s.Verify(t.Context()))
	require.ErrorIs(t, s.Drop(t.Context(), id), store.ErrNotFound)
}

// manyEntries adds more entries than a block has, and as many keys behind them, so that Open and Find don't read all.
func manyEntries(t *testing.T, s *Store) {
	t.Helper()
	for at := range int64(1000) {
		for prefix := range byte(2) {
			k := appendIndexKey(nil, pendingPrefix+prefix, at+1, envelope.AppendKey(nil, claim("other").ID))
			require.NoError(t, s.db.Set(k, nil, pebble.NoSync))
		}
	}
	require.NoError(t, s.db.Flush())
	require.NoError(t, s.Close())
}

// readsTable reports whether an operation of the disk reads a table.
func readsTable(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst")
}

// once makes f run at the next read of a table, which fails with its error.
func (d *faultyDisk) once(f func() error) {
	var done atomic.Bool
	d.set(func(op errorfs.Op) error {
		if readsTable(op) && done.CompareAndSwap(false, true) {
			return f()
		}
		return nil
	})
}

// Records may be forgotten while Drop reads the indexes, or the store may break.
func TestDropAfterAChangeDuringItsSearch(t *testing.T) {
	for name, c := range map[string]struct {
		during func(s *Store)
		want   error
	}{
		"records were forgotten": {func(s *Store) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.recent.turns++
		}, nil},
		"the store is broken": {func(s *Store) { s.breakDown(errDisk) }, ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newFaultyDisk(t)
			s := mustOpen(t, "/data/x", withFS(disk))
			id := mustReserve(t, s, claim("damaged"), store.Acquired).Lease.ID
			damage(t, s, "damaged")
			manyEntries(t, s)
			s = mustOpen(t, "/data/x", withFS(disk))
			_, err := s.Find(t.Context(), id)
			require.ErrorIs(t, err, ErrCorrupt)
			s.helpers.Wait()
			searched := false
			disk.once(func() error {
				searched = true
				c.during(s)
				return nil
			})
			err = hangtest.Within(t, func() error { return s.Drop(t.Context(), id) })
			require.ErrorIs(t, err, c.want)
			require.True(t, searched)
		})
	}
}

// A list whose end is not known could go on for ever, or end too early.
func TestAListThatCannotReadItsLastInstantEnds(t *testing.T) {
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	manyEntries(t, s)
	s = mustOpen(t, "/data/x", withFS(disk))
	s.helpers.Wait()
	read := 0
	_, err := scan(s.db, pendingPrefix, nil, func([]byte) bool { // Pebble keeps what the first page needs
		read++
		return read < 2*scanned
	})
	require.NoError(t, err)
	disk.set(func(op errorfs.Op) error {
		if readsTable(op) {
			return errDisk
		}
		return nil
	})
	require.ErrorIs(t, listError(t, s), errDisk)
}

// Entries that can't be read would stay behind, and name a record that is not there.
func TestDropKeepsARecordWhoseEntriesCannotBeRead(t *testing.T) {
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	id := mustReserve(t, s, claim("damaged"), store.Acquired).Lease.ID
	damage(t, s, "damaged")
	manyEntries(t, s)
	s = mustOpen(t, "/data/x", withFS(disk))
	_, err := s.Find(t.Context(), id)
	require.ErrorIs(t, err, ErrCorrupt)
	disk.set(func(op errorfs.Op) error {
		if readsTable(op) {
			return errDisk
		}
		return nil
	})
	require.ErrorIs(t, s.Drop(t.Context(), id), errDisk)
	disk.on.Store(nil)
	_, err = s.Find(t.Context(), id)
	require.ErrorIs(t, err, ErrCorrupt)
	require.NoError(t, s.Drop(t.Context(), id))
	left, err := s.entries(envelope.AppendKey(nil, id))
	require.NoError(t, err)
	require.Empty(t, left)
}

// expire returns the ID of a record that has expired, of which the store knows the state before.
func expire(t *testing.T, s *Store, fake *fakeclock.Clock) store.ID {
	t.Helper()
	c := claim("expired")
	c.Lease, c.Retention = 0, time.Minute
	mustReserve(t, s, c, store.Acquired)
	fake.Wall.Add(int64(time.Hour))
	return c.ID
}

func TestDropRefusesAnExpiredRecordThatIsNotDamaged(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	dir := tempDir(t)
	s := mustOpen(t, dir, withClock(fake.Read))
	id := expire(t, s, fake)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.ErrorIs(t, s.Drop(ctx, id), store.ErrInvalid)
	require.NoError(t, s.Close())

	s = mustOpen(t, dir, withClock(fake.Read))
	require.ErrorIs(t, s.Drop(ctx, id), store.ErrInvalid)
	n, err := s.Purge(ctx, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.ErrorIs(t, s.Drop(ctx, id), store.ErrNotFound)
}

func TestDropRemovesAnExpiredRecordThatWasDamagedSince(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempDir(t), withClock(fake.Read))
	id := expire(t, s, fake)
	damage(t, s, id.Key)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.Drop(ctx, id))
	require.ErrorIs(t, s.Drop(ctx, id), store.ErrNotFound)
	require.NoError(t, s.Verify(ctx))
}

func TestDropKeepsAnExpiredRecordThatCannotBeRead(t *testing.T) {
	fake, disk := fakeclock.At(time.Now().UnixNano()), newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withClock(fake.Read), withFS(disk))
	id := expire(t, s, fake)
	require.NoError(t, s.db.Flush())
	var failed atomic.Bool
	disk.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && failed.CompareAndSwap(false, true) {
			return errDisk
		}
		return nil
	})
	require.ErrorIs(t, s.Drop(t.Context(), id), errDisk)
	require.ErrorIs(t, s.Drop(t.Context(), id), store.ErrInvalid)
}

func TestVerifyNoticesALostEntryOfEachIndex(t *testing.T) {
	for name, prefix := range map[string]byte{"pending records": pendingPrefix, "expiries": expiryPrefix} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, tempDir(t))
			mustReserve(t, s, claim("k"), store.Acquired)
			require.NoError(t, s.Verify(t.Context()))
			require.NoError(t, s.db.DeleteRange([]byte{prefix}, []byte{prefix + 1}, pebble.Sync))
			err := s.Verify(t.Context())
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "the index of "+name+" has 0 entries and the records have 1")
		})
	}
}

// Damage of one kind is often damage of many records.
func TestVerifyNamesTheFirstHundredDamagedRecords(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	for i := range maxProblems + 1 {
		key := append([]byte{recordsPrefix}, envelope.AppendKey(nil, claim(fmt.Sprintf("k%03d", i)).ID)...)
		require.NoError(t, s.db.Set(key, []byte("damaged"), pebble.NoSync))
	}
	err := s.Verify(t.Context())
	require.ErrorIs(t, err, ErrCorrupt)
	require.Equal(t, maxProblems, strings.Count(err.Error(), `"k`))
	require.ErrorContains(t, err, `"k099"`)
}

// An index entry without an ID hides no record.
func TestPendingPassesAnEntryThatNamesNoRecord(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	mustReserve(t, s, claim("k"), store.Acquired)
	for at, key := range map[int64]string{0: "", 1: "", math.MaxInt64: "\x00"} {
		require.NoError(t, s.db.Set(appendIndexKey(nil, pendingPrefix, at, []byte(key)), nil, pebble.Sync))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var keys []string
	var errs []error
	for r, err := range s.Pending(ctx, "") {
		keys, errs = append(keys, r.ID.Key), append(errs, err)
	}
	require.Equal(t, []string{"k", ""}, keys)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], ErrCorrupt)
}

// Each entry that is deleted without need stays in the index until Pebble compacts.
func TestAnEntryThatStaysIsNotWritten(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	b := s.db.NewBatch()
	move(b, expiryPrefix, []byte("k"), 1, 1)
	require.Zero(t, b.Count())
	move(b, expiryPrefix, []byte("k"), 1, 2)
	require.EqualValues(t, 2, b.Count())
	move(b, expiryPrefix, []byte("k"), 0, 1)
	require.EqualValues(t, 3, b.Count())
	move(b, expiryPrefix, []byte("k"), 1, 0)
	require.EqualValues(t, 4, b.Count())
	require.NoError(t, b.Close())
}

// A read that began before a change would otherwise return the record as it was.
func TestSettledChangeIsAmongTheRecentOnes(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	l := mustSettle(t, s, "k", store.Outcome{Result: []byte("done")})
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.recent.get(envelope.AppendKey(nil, l.ID))
	require.True(t, ok)
	require.Equal(t, "done", string(r.Result))
}

// A disk that can't be read damages nothing.
func TestFailedReadIsNoDamage(t *testing.T) {
	_, err := get(unreadable{err: errDisk}, envelope.AppendKey(nil, claim("k").ID))
	require.ErrorIs(t, err, errDisk)
	require.NotErrorIs(t, err, ErrCorrupt)
	require.NotErrorIs(t, err, store.ErrDamaged)
	_, err = get(unreadable{err: pebble.ErrCorruption}, envelope.AppendKey(nil, claim("k").ID))
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, err, store.ErrDamaged, "a block of a table is")
	_, err = lastInstant(damagedTable{}, pendingPrefix)
	require.ErrorIs(t, err, pebble.ErrCorruption)
}

// An operator would restore a backup in place of a directory that is sound.
func TestVerifyReportsAnErrorOfTheDiskAsSuch(t *testing.T) {
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", withFS(disk))
	for at := range int64(1000) { // more entries than a block has, so that Open does not read all
		require.NoError(t, s.db.Set(appendIndexKey(nil, pendingPrefix, at+1, []byte("other")), nil, pebble.NoSync))
	}
	require.NoError(t, s.Close())
	s = mustOpen(t, "/data/x", withFS(disk))
	disk.set(func(op errorfs.Op) error {
		if readsTable(op) {
			return &fs.PathError{Op: "read", Path: op.Path, Err: syscall.EIO}
		}
		return nil
	})
	err := s.Verify(t.Context())
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, ErrCorrupt)
	disk.on.Store(nil)
	require.ErrorIs(t, s.Verify(t.Context()), ErrCorrupt, "no record has the entries")
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Verify(t.Context()), store.ErrUnavailable)
	require.NotErrorIs(t, s.Verify(t.Context()), ErrCorrupt)
}

// The twin: the disk reads a block of a table, and its checksum does not match.
func TestVerifyFindsADamagedTable(t *testing.T) {
	path := tempDir(t)
	s := mustOpen(t, path)
	for i := range 200 {
		mustSettle(t, s, fmt.Sprint(i), store.Outcome{Result: make([]byte, 1024)})
	}
	require.NoError(t, s.Close())
	tables, err := filepath.Glob(filepath.Join(path, "*.sst"))
	require.NoError(t, err)
	require.Len(t, tables, 1)
	content, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	content[len(content)/2] ^= 1
	require.NoError(t, os.WriteFile(tables[0], content, 0o600))
	require.ErrorIs(t, mustOpen(t, path).Verify(t.Context()), ErrCorrupt)
}

type unreadable struct {
	pebble.Reader
	err error
}

func (u unreadable) Get([]byte) ([]byte, io.Closer, error) { return nil, nil, u.err }

package boltstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// A sample is a closed file of several pages and what it holds.
type sample struct {
	content  []byte
	pageSize int
	records  []store.Record
}

func newSample(t testing.TB, n int) sample {
	t.Helper()
	path := tempFile(t)
	s := mustOpen(t, path)
	var out sample
	for i := range n {
		c := claim(fmt.Sprintf("key %d", i))
		c.Lease = 0
		g := mustReserve(t, s, c, store.Acquired)
		if i%3 != 0 {
			result := make([]byte, i*7%600)
			require.NoError(t, s.Complete(t.Context(), g.Lease, store.Outcome{Result: result, Failed: i%2 == 0}))
		}
		r, err := s.Find(t.Context(), c.ID)
		require.NoError(t, err)
		out.records = append(out.records, r)
	}
	require.NoError(t, s.Close())
	out.content = readAll(t, path)
	out.pageSize = os.Getpagesize()
	return out
}

// consult opens the content as a file and reads all that the sample holds. Each record is right or an error;
// the file is untouched if it was refused. It reports whether the file was refused.
func (s sample) consult(t testing.TB, content []byte, opts ...Option) (wasRefused bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "damaged.redo")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	st, err := Open(path, opts...)
	if err != nil {
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, strconv.Quote(path))
		requireUnchanged(t, content, path)
		return true
	}
	for _, want := range s.records {
		got, err := st.Find(t.Context(), want.ID)
		if err != nil {
			require.NotErrorIs(t, err, store.ErrNotFound, "%v", want.ID)
			continue
		}
		want.ReadAt, got.ReadAt = time.Time{}, time.Time{}
		require.Equal(t, want, got)
	}
	require.NoError(t, st.Close())
	return false
}

func TestWholeSampleIsRead(t *testing.T) {
	s := newSample(t, 60)
	require.False(t, s.consult(t, s.content))
	require.False(t, s.consult(t, s.content, WithPageCheck(0)))
}

func TestTruncatedFileIsRefused(t *testing.T) {
	s := newSample(t, 60)
	used := usedPages(t, s)
	require.Greater(t, used, 10)
	for n := 1; n <= len(s.content)/s.pageSize; n++ {
		for _, cut := range []int{n * s.pageSize, n*s.pageSize - 1, n*s.pageSize - s.pageSize/2} {
			// What bbolt has allocated in advance may be missing.
			require.Equal(t, cut < used*s.pageSize, s.consult(t, s.content[:cut]), "%d bytes", cut)
			require.Equal(t, cut < used*s.pageSize, s.consult(t, s.content[:cut], WithPageCheck(0)), "%d bytes", cut)
		}
	}
	_, err := Open(writeFile(t, s.content[:4*s.pageSize]))
	require.ErrorContains(t, err, "cut short", "bbolt itself fails")
}

func usedPages(t testing.TB, s sample) (n int) {
	t.Helper()
	edit(t, writeFile(t, s.content), func(tx *bbolt.Tx) error {
		n = int(tx.Size()) / s.pageSize
		return nil
	})
	return n
}

// Every flip is found: by the check of the whole file, by a record's checksums, or by those of its
// neighbours.
func TestFlippedByteIsNeverAWrongResult(t *testing.T) {
	s := newSample(t, 30)
	step := 41 // a prime, so that every field of a page and of a record is met
	if testing.Short() {
		step = 409
	}
	var off int
	var mask byte
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("flipped by %#x: byte %d of page %d", mask, off%s.pageSize, off/s.pageSize)
		}
	})
	damaged := append([]byte(nil), s.content...)
	refusals := 0
	for off = 0; off < usedPages(t, s)*s.pageSize; off += step {
		for _, mask = range []byte{0x01, 0xff} {
			damaged[off] ^= mask
			if s.consult(t, damaged) {
				refusals++
			}
			damaged[off] = s.content[off]
		}
	}
	require.NotZero(t, refusals)
}

// Without that check bbolt meets the damage: it may panic and fault, which must become errors.
func TestDamageThatBboltMeetsIsAnError(t *testing.T) {
	s := newSample(t, 30)
	used := usedPages(t, s) * s.pageSize
	path := filepath.Join(t.TempDir(), "damaged.redo")
	damaged := append([]byte(nil), s.content...)
	for off := 2 * s.pageSize; off < used; off += 97 {
		damaged[off] ^= 0xff
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		damaged[off] = s.content[off]
		st, err := Open(path, WithPageCheck(0))
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
			continue
		}
		for _, r := range s.records {
			_, err := st.Find(t.Context(), r.ID)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				require.ErrorIs(t, err, store.ErrUnavailable)
			}
		}
		for _, err := range st.Pending(t.Context(), "") {
			if err != nil {
				require.ErrorIs(t, err, store.ErrUnavailable)
			}
		}
		for i := range 5 {
			if _, err := st.Reserve(t.Context(), claim(fmt.Sprint("new", i))); err != nil {
				require.ErrorIs(t, err, store.ErrUnavailable)
			}
		}
		_, _ = st.Purge(t.Context(), 10)
		_ = st.Close()
	}
}

func TestFileCutShortWhileOpenIsAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there an open file can't be cut short")
	}
	path := tempFile(t)
	s := mustOpen(t, path)
	for i := range 60 {
		mustSettle(t, s, fmt.Sprint(i), store.Outcome{Result: make([]byte, 500)})
	}
	require.NoError(t, os.Truncate(path, int64(2*os.Getpagesize())))
	_, err := s.Find(t.Context(), claim("7").ID)
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, err, store.ErrUnavailable)
	_, err = s.Reserve(t.Context(), claim("new"))
	require.ErrorIs(t, err, ErrCorrupt)
}

// A panic in the writer leaves bbolt's locks held, and must leave no caller waiting.
func TestPanicInACommitEndsTheStore(t *testing.T) {
	path := tempFile(t)
	panics := false
	s := mustOpen(t, path, withCommit(func(tx *bbolt.Tx) error {
		if panics {
			panic("page 7 already freed")
		}
		return tx.Commit()
	}))
	l := mustReserve(t, s, claim("k"), store.Acquired).Lease
	waiting := make(chan error, 1)
	go func() { waiting <- s.Wait(t.Context(), l.ID, l.Fence) }()
	panics = true
	_, err := s.Reserve(t.Context(), claim("new"))
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, <-waiting, store.ErrUnavailable)
	_, err = s.Find(t.Context(), claim("k").ID)
	require.ErrorIs(t, err, ErrCorrupt)
	require.NoError(t, s.Close())
	mustReserve(t, mustOpen(t, path), claim("k"), store.TakenOver)
}

// bbolt would use the older meta page, which lacks the last commit.
func TestDamagedMetaPageIsRefused(t *testing.T) {
	s := newSample(t, 3)
	used, unused := 0, 0
	for off := range 2 * s.pageSize {
		damaged := append([]byte(nil), s.content...)
		damaged[off] ^= 1
		at := off%s.pageSize - pageHeader
		if at < 0 || at >= metaSum+8 {
			if at >= 0 && at%97 == 0 {
				require.False(t, s.consult(t, damaged), "byte %d is not used", off)
				unused++
			}
			continue
		}
		path := writeFile(t, damaged)
		refused(t, path, ErrCorrupt)
		refused(t, path, ErrCorrupt, WithPageCheck(0))
		used++
	}
	require.Equal(t, 2*(metaSum+8), used)
	require.NotZero(t, unused)
}

func writeFile(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "written.redo")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestRecordOfALaterReleaseIsNeitherRunNorDeleted(t *testing.T) {
	path := tempFile(t)
	fake := fakeclock.At(1)
	s := mustOpen(t, path, withClock(fake.Read))
	c := claim("k")
	c.Lease, c.Retention = 0, time.Minute
	l := mustReserve(t, s, c, store.Acquired).Lease
	expired := claim("expired")
	expired.Lease, expired.Retention = 0, time.Minute
	mustReserve(t, s, expired, store.Acquired)
	require.NoError(t, s.Close())
	key := envelope.AppendKey(nil, c.ID)
	later := laterRecord(key)
	edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(rootName).Bucket(recordsName).Put(key, later) })

	fake.Wall.Add(int64(time.Hour))
	s = mustOpen(t, path, withClock(fake.Read))
	_, err := s.Reserve(t.Context(), c)
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorIs(t, err, store.ErrUnavailable, "a client retries, until it reaches the later release")
	require.NotErrorIs(t, err, store.ErrDamaged)
	require.ErrorContains(t, err, "version 3")
	require.ErrorIs(t, s.Complete(t.Context(), l, store.Outcome{Lazy: true}), ErrFormat)
	require.ErrorIs(t, s.Release(t.Context(), l), ErrFormat)
	require.ErrorIs(t, s.Verify(t.Context()), ErrFormat)
	n, err := s.Purge(t.Context(), 10)
	require.Equal(t, 1, n, "the one that can be read is purged")
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorIs(t, err, store.ErrUnavailable)
	mustReserve(t, s, claim("neighbour"), store.Acquired)
	require.NoError(t, s.Close())
	edit(t, path, func(tx *bbolt.Tx) error {
		require.Equal(t, later, tx.Bucket(rootName).Bucket(recordsName).Get(key))
		return nil
	})
}

func FuzzOpenCorrupt(f *testing.F) {
	s := newSample(f, 12)
	f.Add(uint(0), uint64(1), uint(0))
	f.Add(uint(3*s.pageSize+8), uint64(0xffff), uint(0))
	f.Add(uint(2*s.pageSize+16), uint64(1)<<63, uint(5*s.pageSize))
	f.Fuzz(func(t *testing.T, at uint, mask uint64, cut uint) {
		off, size := int(at%uint(len(s.content))), len(s.content)-int(cut%uint(len(s.content)))
		damaged := append([]byte(nil), s.content[:size]...)
		for i := 0; i < 8 && off+i < len(damaged); i++ {
			damaged[off+i] ^= byte(mask >> (8 * i))
		}
		s.consult(t, damaged)
	})
}

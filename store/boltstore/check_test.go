package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestReferenceToAPageThatIsNotInUseIsNamed(t *testing.T) {
	for _, id := range []uint64{1, 5} {
		err := (&tree{end: 5}).walk(id)
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, fmt.Sprintf("there is a reference to page %d, and pages 2 to 4 are in use", id))
	}
}

// pagesOf returns the pages of a type in the sample, by bbolt.
func pagesOf(t testing.TB, s sample, kind string) (pages []int) {
	t.Helper()
	edit(t, writeFile(t, s.content), func(tx *bbolt.Tx) error {
		for id := 2; id < usedPages(t, s); id++ {
			p, err := tx.Page(id)
			require.NoError(t, err)
			if p.Type == kind {
				pages = append(pages, id)
			}
		}
		return nil
	})
	return pages
}

func TestDamagedPageIsRefusedAtOpening(t *testing.T) {
	s := newSample(t, 60)
	branches, leaves := pagesOf(t, s, "branch"), pagesOf(t, s, "leaf")
	lists := pagesOf(t, s, "freelist")
	require.NotEmpty(t, branches)
	require.Greater(t, len(leaves), 3)
	adjacent := leaves[slices.IndexFunc(leaves, func(id int) bool { return slices.Contains(leaves, id+1) })]
	const count, overflow = 10, 12 // offsets in the header of a page
	add := func(c []byte, page, at, n int) {
		at += page * s.pageSize
		binary.NativeEndian.PutUint16(c[at:], uint16(int(binary.NativeEndian.Uint16(c[at:]))+n))
	}
	for name, damage := range map[string]func(c []byte){
		"a branch that has lost its last child": func(c []byte) { add(c, branches[0], count, -1) },
		"a page that overflows the file":        func(c []byte) { add(c, leaves[1], overflow+2, 1<<15) },
		"a page that overflows into another":    func(c []byte) { add(c, adjacent, overflow, 1) },
		"a branch that refers to itself": func(c []byte) {
			binary.NativeEndian.PutUint64(c[branches[0]*s.pageSize+pageHeader+8:], uint64(branches[0]))
		},
		"a branch with a key that is not in the page": func(c []byte) {
			c[branches[0]*s.pageSize+pageHeader+6] ^= 0x10
		},
		"a leaf with a value that is not in the page": func(c []byte) {
			c[leaves[1]*s.pageSize+pageHeader+14] ^= 0x10
		},
		"a branch that refers to no page": func(c []byte) {
			clear(c[branches[0]*s.pageSize+pageHeader+8:][:8])
		},
		"a page that is zero": func(c []byte) { clear(c[leaves[2]*s.pageSize:][:s.pageSize]) },
		"a leaf in place of another": func(c []byte) {
			copy(c[leaves[1]*s.pageSize:][:s.pageSize], c[leaves[2]*s.pageSize:][:s.pageSize])
		},
		"a free list of an unknown type":       func(c []byte) { c[lists[0]*s.pageSize+8] ^= 8 },
		"a free list that lacks its last page": func(c []byte) { add(c, lists[0], count, -1) },
		"a free list that overflows the file":  func(c []byte) { add(c, lists[0], overflow+2, 1<<15) },
		"a free list longer than its page":     func(c []byte) { add(c, lists[0], count, 0x7fff) },
	} {
		t.Run(name, func(t *testing.T) {
			content := bytes.Clone(s.content)
			damage(content)
			require.NotEqual(t, s.content, content)
			refused(t, writeFile(t, content), ErrCorrupt)
			refused(t, writeFile(t, content), ErrCorrupt, WithPageCheck(-1))
			refused(t, writeFile(t, content), ErrCorrupt, WithPageCheck(int64(len(content))))
		})
	}
}

func TestPageCheckIsNotMadeAboveItsLimit(t *testing.T) {
	s := newSample(t, 60)
	lists := pagesOf(t, s, "freelist")
	s.content[lists[0]*s.pageSize+10]-- // a leaked page, which only the check finds
	require.True(t, s.consult(t, s.content))
	require.False(t, s.consult(t, s.content, WithPageCheck(0)))
	st := mustOpen(t, writeFile(t, s.content), WithPageCheck(int64(len(s.content)-1)))
	require.ErrorIs(t, st.Verify(t.Context()), ErrCorrupt)
}

func TestBucketThatContainsItselfIsRefused(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		outer, err := tx.CreateBucket([]byte("outer"))
		require.NoError(t, err)
		_, err = outer.CreateBucket([]byte("inner"))
		return err
	}))
	require.NoError(t, s.Close())
	content, changed := readAll(t, path), 0
	for id := range len(content) / os.Getpagesize() {
		page := content[id*os.Getpagesize():][:os.Getpagesize()]
		if at := bytes.Index(page, []byte("inner")); at >= 0 { // its page follows its name
			binary.NativeEndian.PutUint64(page[at+len("inner"):], uint64(id))
			changed++
		}
	}
	require.NotZero(t, changed)
	refused(t, writeFile(t, content), ErrCorrupt)
}

func TestVerify(t *testing.T) {
	t.Run("accepts a sound file, and the application's buckets", func(t *testing.T) {
		sample := newSample(t, 60)
		s := mustOpen(t, writeFile(t, sample.content))
		require.NoError(t, s.Update(t.Context(), func(tx *Tx) error { return pay(tx, "k") }))
		mustSettle(t, s, "lasting", store.Outcome{Retention: store.Forever})
		require.NoError(t, s.Verify(t.Context()))
		mustReserve(t, s, claim("new"), store.Acquired)
	})
	t.Run("finds a page that has lost its count of records", func(t *testing.T) {
		sample := newSample(t, 60)
		found := 0
		for _, page := range pagesOf(t, sample, "leaf") {
			content := bytes.Clone(sample.content)
			at := page*sample.pageSize + 10
			if content[at] < 2 {
				continue
			}
			content[at]--
			refused(t, writeFile(t, content), ErrCorrupt)
			s, err := Open(writeFile(t, content), WithPageCheck(0))
			if err == nil {
				err = s.Verify(t.Context())
				require.NoError(t, s.Close())
			}
			require.ErrorIs(t, err, ErrCorrupt, "page %d", page)
			found++
		}
		require.Greater(t, found, 3)
	})
	for name, change := range map[string]func(b buckets, key []byte) error{
		"a damaged record":          func(b buckets, key []byte) error { return b.records.Put(key, []byte("damaged")) },
		"a record without an index": func(b buckets, key []byte) error { return b.pending.Delete(firstKey(b.pending)) },
		"a lost record":             func(b buckets, key []byte) error { return b.records.Delete(key) },
		"an entry too many": func(b buckets, key []byte) error {
			return b.expiry.Put(envelope.AppendIndexKey(nil, 1, key), nil)
		},
		"an entry of another instant": func(b buckets, key []byte) error {
			if err := b.expiry.Delete(firstKey(b.expiry)); err != nil {
				return err
			}
			return b.expiry.Put(envelope.AppendIndexKey(nil, 1, key), nil)
		},
	} {
		t.Run("finds "+name, func(t *testing.T) {
			s := damagedFile(t, change)
			err := s.Verify(t.Context())
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorIs(t, err, store.ErrDamaged)
			require.ErrorContains(t, err, strconv.Quote(s.path))
			if name == "a damaged record" {
				require.ErrorContains(t, err, claim("k").ID.String())
			}
			require.NoError(t, s.Update(t.Context(), func(tx *Tx) error { return pay(tx, "k") }), "the write lock is free")
		})
	}
	t.Run("finds a page that refers to itself, in a file that Open does not check", func(t *testing.T) {
		sample := newSample(t, 60)
		s := mustOpen(t, writeFile(t, sample.content), WithPageCheck(0))
		page := pagesOf(t, sample, "branch")[0]
		self := binary.NativeEndian.AppendUint64(nil, uint64(page))
		_, err := s.file.WriteAt(self, int64(page*sample.pageSize+pageHeader+8))
		require.NoError(t, err)
		require.ErrorIs(t, s.Verify(t.Context()), ErrCorrupt)
	})
	t.Run("waits for a transaction as long as its context lasts", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		done := make(chan error, 1)
		go func() { done <- s.Verify(t.Context()) }()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Verify(ctx), context.Canceled)
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, <-done)
	})
}

func firstKey(b *bbolt.Bucket) []byte {
	k, _ := b.Cursor().First()
	return bytes.Clone(k)
}

func TestBackupOfAStoreInUse(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	for i := range 20 {
		mustSettle(t, s, fmt.Sprint(i), store.Outcome{Result: make([]byte, 1000)})
	}
	tx, _ := mustBegin(t, s, claim("open"), store.Acquired)
	require.NoError(t, pay(tx.Tx(), "open"))
	path := tempFile(t)
	f, err := os.Create(path)
	require.NoError(t, err)
	n, err := s.Backup(t.Context(), f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, info.Size(), n)
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	mustReserve(t, s, claim("later"), store.Acquired)

	restored := mustOpen(t, path)
	require.NoError(t, restored.Verify(t.Context()))
	for i := range 20 {
		require.Len(t, find(t, restored, fmt.Sprint(i)).Result, 1000)
	}
	require.False(t, paid(t, restored, "open"), "what was not committed is not in the copy")
	mustReserve(t, restored, claim("later"), store.Acquired)
	mustReserve(t, restored, claim("open"), store.Acquired)

	_, err = s.Backup(t.Context(), failingWriter{})
	require.ErrorContains(t, err, errDisk.Error())
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errDisk }

package boltstore

import (
	"bytes"
	"testing"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// damagedFile holds the pending records "a", "k" and "z", and what change makes of it.
func damagedFile(t *testing.T, change func(b buckets, key []byte) error) *Store {
	t.Helper()
	path := tempFile(t)
	s := mustOpen(t, path)
	for _, key := range []string{"a", "k", "z"} {
		mustReserve(t, s, claim(key), store.Acquired)
	}
	require.NoError(t, s.Close())
	edit(t, path, func(tx *bbolt.Tx) error {
		b, err := open(tx)
		require.NoError(t, err)
		return change(b, envelope.AppendKey(nil, claim("k").ID))
	})
	return mustOpen(t, path)
}

// A found is what a list yields.
type found struct {
	keys, problems []string
	errs           []error
}

func list(t *testing.T, s *Store) (f found) {
	t.Helper()
	for r, err := range s.Pending(t.Context(), "") {
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.Equal(t, store.Record{ID: r.ID}, r)
			f.problems, f.errs = append(f.problems, r.ID.Key), append(f.errs, err)
			continue
		}
		require.NotContains(t, f.problems, "", "an error without a name is the last")
		f.keys = append(f.keys, r.ID.Key)
	}
	return f
}

func TestRecordUnderADamagedKeyIsListedAndDropped(t *testing.T) {
	damagedKey := claim("j").ID // what a flipped bit makes of k
	s := damagedFile(t, func(b buckets, key []byte) error {
		v := bytes.Clone(b.records.Get(key))
		require.NoError(t, b.records.Delete(key))
		return b.records.Put(envelope.AppendKey(nil, damagedKey), v)
	})
	f := list(t, s)
	require.Equal(t, []string{"a", "z"}, f.keys)
	require.Equal(t, []string{"k"}, f.problems, "by the name that the index has")
	require.ErrorIs(t, f.errs[0], store.ErrDamaged)

	// The record may be k's, so that k is not free. The error names the record to drop.
	_, err := s.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, damagedKey.String())
	require.NotErrorIs(t, err, store.ErrDamaged)
	_, err = s.Find(t.Context(), damagedKey)
	require.ErrorIs(t, err, store.ErrDamaged)

	require.NoError(t, s.Drop(t.Context(), claim("k").ID))
	require.Equal(t, found{keys: []string{"a", "z"}}, list(t, s))
	require.ErrorIs(t, s.Drop(t.Context(), claim("k").ID), ErrCorrupt, "its neighbour is still there")
	require.NoError(t, s.Drop(t.Context(), damagedKey))
	checkIndexes(t, s)
	require.ErrorIs(t, s.Drop(t.Context(), claim("k").ID), store.ErrNotFound)
	mustReserve(t, s, claim("k"), store.Acquired)
}

func TestRecordThatOnlyTheIndexHasIsListedAndDropped(t *testing.T) {
	s := damagedFile(t, func(b buckets, key []byte) error { return b.records.Delete(key) })
	f := list(t, s)
	require.Equal(t, []string{"a", "z"}, f.keys)
	require.Equal(t, []string{"k"}, f.problems)
	require.ErrorIs(t, f.errs[0], store.ErrDamaged)
	require.ErrorContains(t, f.errs[0], claim("k").ID.String())
	require.NoError(t, s.Drop(t.Context(), claim("k").ID))
	require.Equal(t, found{keys: []string{"a", "z"}}, list(t, s))
	checkIndexes(t, s)
}

// A damaged entry may be that of another record, which the list then lacks.
func TestIndexEntryThatDoesNotFitEndsTheList(t *testing.T) {
	s := damagedFile(t, func(b buckets, key []byte) error {
		return b.pending.Put(envelope.AppendIndexKey(nil, 1, key), nil)
	})
	f := list(t, s)
	require.Equal(t, []string{"a", "k", "z"}, f.keys, "and hides none")
	require.Equal(t, []string{""}, f.problems)
	require.ErrorIs(t, f.errs[0], ErrCorrupt)
	require.ErrorIs(t, s.Verify(t.Context()), ErrCorrupt)
	require.ErrorIs(t, s.Drop(t.Context(), claim("k").ID), store.ErrInvalid)
}

func TestRecordWithAnotherInstantInTheIndexIsListed(t *testing.T) {
	s := damagedFile(t, func(b buckets, key []byte) error {
		r, err := decodeHeader(key, b.records.Get(key))
		if err != nil {
			return err
		}
		if err := b.pending.Delete(envelope.AppendIndexKey(nil, envelope.Nanos(r.CreatedAt), key)); err != nil {
			return err
		}
		return b.pending.Put(envelope.AppendIndexKey(nil, envelope.Nanos(r.CreatedAt)+1, key), nil)
	})
	f := list(t, s)
	require.ElementsMatch(t, []string{"a", "k", "z"}, f.keys)
	require.Equal(t, []string{""}, f.problems)
	require.ErrorIs(t, f.errs[0], ErrCorrupt)
}

func TestIndexEntryWithoutANameEndsTheList(t *testing.T) {
	s := damagedFile(t, func(b buckets, _ []byte) error {
		return b.pending.Put(envelope.AppendIndexKey(nil, 1, []byte{9}), nil)
	})
	f := list(t, s)
	require.Equal(t, []string{"a", "k", "z"}, f.keys, "and hides none")
	require.Equal(t, []string{""}, f.problems)
	require.ErrorIs(t, f.errs[0], ErrCorrupt)
}

func TestRecordOfALaterReleaseIsListedAndNotDropped(t *testing.T) {
	var later []byte
	s := damagedFile(t, func(b buckets, key []byte) error {
		later = laterRecord(key)
		return b.records.Put(key, later)
	})
	f := list(t, s)
	require.Equal(t, []string{"a", "z"}, f.keys)
	require.Equal(t, []string{"k"}, f.problems)
	require.ErrorIs(t, f.errs[0], ErrFormat)
	require.NotErrorIs(t, f.errs[0], store.ErrDamaged)
	require.ErrorIs(t, s.Drop(t.Context(), claim("k").ID), ErrFormat)
	require.NoError(t, s.view(func(b buckets) error {
		require.Equal(t, later, b.records.Get(envelope.AppendKey(nil, claim("k").ID)))
		return nil
	}))
}

func TestDropOnAClosedStore(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Drop(t.Context(), claim("k").ID), store.ErrUnavailable)
}

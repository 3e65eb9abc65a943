package boltoutbox_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// spoil changes a byte of the event's entry in a bucket of the queue.
func spoil(t *testing.T, st *boltstore.Store, bucket string, seq uint64) {
	t.Helper()
	require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
		b := tx.Bucket([]byte("redo-outbox")).Bucket([]byte(bucket))
		key := binary.BigEndian.AppendUint64(nil, seq)
		v := append([]byte{}, b.Get(key)...)
		v[len(v)/2] ^= 1
		return b.Put(key, v)
	}))
}

func seqOf(t *testing.T, st *boltstore.Store, id, destination string) (seq uint64) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx *boltstore.Tx) error {
		v := tx.Bucket([]byte("redo-outbox")).Bucket([]byte("ids")).Get([]byte(id + "\x00" + destination + "\x00"))
		seq = binary.BigEndian.Uint64(v)
		return nil
	}))
	return seq
}

func TestUnreadableEventHidesNoOther(t *testing.T) {
	for _, of := range []struct {
		bucket string
		known  string // the id in the entry
	}{{"waiting", ""}, {"events", "a1"}} {
		t.Run("in the bucket "+of.bucket, func(t *testing.T) {
			st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
			q, err := boltoutbox.New(t.Context(), st)
			require.NoError(t, err)
			require.NoError(t, q.Append(t.Context(), many(3, "d", "a")...))
			require.NoError(t, q.Append(t.Context(), many(3, "d", "")...))
			spoil(t, st, of.bucket, 2) // a1
			spoil(t, st, of.bucket, 4) // 0

			_, ids := claim(t, q, outbox.Claim{Max: 2})
			require.Equal(t, []string{"a0", "1"}, ids)
			_, ids = claim(t, q, outbox.Claim{Max: 9})
			require.Equal(t, []string{"2"}, ids, "a2 waits for a1")

			var listed, broken []string
			for e, err := range q.Events(t.Context(), outbox.Selection{}) {
				require.Equal(t, outbox.StateWaiting, e.State)
				if err != nil {
					require.ErrorIs(t, err, boltoutbox.ErrCorrupt)
					require.ErrorIs(t, err, store.ErrUnavailable)
					broken = append(broken, e.Event.ID)
					continue
				}
				listed = append(listed, e.Event.ID)
			}
			require.Equal(t, []string{"a0", "a2", "1", "2"}, listed)
			require.Len(t, broken, 2)
			require.Equal(t, of.known, broken[0])
			for e := range q.Events(t.Context(), outbox.Selection{State: outbox.StateDead}) {
				require.Fail(t, "a list of dead letters reads the other events", "%+v", e)
			}
		})
	}
}

func TestUnreadableDeadLetterHidesNoOther(t *testing.T) {
	st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
	q, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, q.Append(t.Context(), many(3, "d", "")...))
	ds, _ := claim(t, q, outbox.Claim{Max: 9})
	settle(t, q, outbox.Outcome{Result: outbox.Dead}, ds...)
	spoil(t, st, "dead", 1)
	var ids []string
	errs := 0
	for e, err := range q.Events(t.Context(), outbox.Selection{State: outbox.StateDead}) {
		require.Equal(t, outbox.StateDead, e.State)
		if err != nil {
			errs++
			continue
		}
		ids = append(ids, e.Event.ID)
	}
	require.Equal(t, []string{"1", "2"}, ids)
	require.Equal(t, 1, errs)
	for e, err := range q.Events(t.Context(), outbox.Selection{ID: "0", Destination: "d"}) {
		require.ErrorIs(t, err, boltoutbox.ErrCorrupt)
		require.Equal(t, outbox.StateDead, e.State)
		errs++
	}
	require.Equal(t, 2, errs)
	require.ErrorIs(t, q.Redrive(t.Context(), "0", "d"), boltoutbox.ErrCorrupt)
	require.NoError(t, q.Redrive(t.Context(), "1", "d"))
}

// Keys that are no keys of this package are an error of every call, and end none in a panic.
func TestForeignKeysAreAnError(t *testing.T) {
	st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
	q, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, q.Append(t.Context(), many(1, "d", "")...))
	require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
		for _, bucket := range []string{"deaths", "waiting", "fronts"} {
			if err := tx.Bucket([]byte("redo-outbox")).Bucket([]byte(bucket)).Put([]byte{0, 1}, []byte{0}); err != nil {
				return err
			}
		}
		return nil
	}))
	_, err = q.Claim(t.Context(), outbox.Claim{Max: 1, Lease: 1e9})
	require.ErrorIs(t, err, boltoutbox.ErrCorrupt)
	for _, st := range []outbox.State{outbox.StateDead, outbox.StateWaiting} {
		for e, err := range q.Events(t.Context(), outbox.Selection{State: st}) {
			require.ErrorIs(t, err, boltoutbox.ErrCorrupt)
			require.Equal(t, outbox.Entry{}, e)
		}
	}
}

// spoiled puts an entry into a bucket of the queue.
func spoiled(t *testing.T, st *boltstore.Store, bucket string, key, value []byte) {
	t.Helper()
	require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
		return tx.Bucket([]byte("redo-outbox")).Bucket([]byte(bucket)).Put(key, value)
	}))
}

func TestDamagedNumberFailsItsOwnCallOnly(t *testing.T) {
	st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
	q, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, q.Append(t.Context(), many(2, "d", "")...))
	ds, _ := claim(t, q, outbox.Claim{Max: 9})
	settle(t, q, outbox.Outcome{Result: outbox.Dead}, ds...)
	spoiled(t, st, "ids", []byte("0\x00d\x00"), []byte{1})

	var group sync.WaitGroup
	errs := make([]error, 20) // those that wait for a commit share the next one
	for i := range errs {
		group.Go(func() {
			if i%2 == 0 {
				errs[i] = q.Redrive(t.Context(), "0", "d")
			} else {
				errs[i] = q.Append(t.Context(), outbox.Event{ID: fmt.Sprint("new", i), Destination: "d"})
			}
		})
	}
	group.Wait()
	for i, err := range errs {
		if i%2 == 0 {
			require.ErrorIs(t, err, boltoutbox.ErrCorrupt)
			require.ErrorIs(t, err, store.ErrUnavailable)
		} else {
			require.NoError(t, err)
		}
	}
	require.NoError(t, q.Redrive(t.Context(), "1", "d"))
}

func TestPurgePassesOverADamagedKey(t *testing.T) {
	st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
	q, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, q.Append(t.Context(), many(2, "d", "")...))
	ds, _ := claim(t, q, outbox.Claim{Max: 9})
	settle(t, q, outbox.Outcome{Result: outbox.Sent}, ds...)
	spoiled(t, st, "sent", []byte{0, 1}, []byte("0"))
	n, err := q.Purge(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = q.Purge(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

// bbolt refuses to write an entry whose key is a bucket's.
func TestEntryThatCannotBeWrittenChangesNothing(t *testing.T) {
	st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
	q, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
		_, err := tx.Bucket([]byte("redo-outbox")).Bucket([]byte("ids")).CreateBucket([]byte("k\x00\x00"))
		return err
	}))
	require.ErrorIs(t, q.Append(t.Context(), outbox.Event{ID: "k"}), store.ErrUnavailable)
	require.NoError(t, q.Append(t.Context(), outbox.Event{ID: "other"}))
	_, ids := claim(t, q, outbox.Claim{Max: 9})
	require.Equal(t, []string{"other"}, ids)
}

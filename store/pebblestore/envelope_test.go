package pebblestore

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
)

func sampleRecords() map[string]*record {
	full := &record{epoch: 7, Record: store.Record{
		Fingerprint: store.Raw("POST", "/", "", nil),
		State:       store.StateFailed,
		Fence:       math.MaxUint64,
		CreatedAt:   time.Unix(0, -1),
		LeaseUntil:  envelope.LastInstant,
		ExpiresAt:   time.Unix(0, 42),
		Owner:       strings.Repeat("o", store.MaxOwner),
		Meta:        []byte("meta"),
		Result:      []byte("result"),
	}}
	return map[string]*record{
		"full":          full,
		"nil content":   {Record: store.Record{State: store.StatePending}},
		"owner alone":   {Record: store.Record{State: store.StatePending, Owner: "nonce"}},
		"empty content": {Record: store.Record{State: store.StateComplete, Meta: []byte{}, Result: []byte{}}},
		"meta alone":    {Record: store.Record{State: store.StatePending, Meta: []byte("m")}},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for name, r := range sampleRecords() {
		t.Run(name, func(t *testing.T) {
			v := appendRecord([]byte("before"), []byte("key"), r)[len("before"):]
			require.Len(t, v, r.size())
			got, err := decodeRecord([]byte("key"), v)
			require.NoError(t, err)
			require.Equal(t, r, got)
		})
	}
}

func TestDamagedRecordIsNeverRead(t *testing.T) {
	key := []byte("key")
	for name, r := range sampleRecords() {
		v := appendRecord(nil, key, r)
		t.Run(name+", every bit flipped", func(t *testing.T) {
			for i := range v {
				for bit := range 8 {
					v[i] ^= 1 << bit
					_, err := decodeRecord(key, v)
					require.ErrorIs(t, err, ErrCorrupt, "bit %d of byte %d", bit, i)
					v[i] ^= 1 << bit
				}
			}
		})
		t.Run(name+", every length", func(t *testing.T) {
			for n := range v {
				_, err := decodeRecord(key, v[:n])
				require.ErrorIs(t, err, ErrCorrupt)
			}
			_, err := decodeRecord(key, append(v[:len(v):len(v)], 0))
			require.ErrorIs(t, err, ErrCorrupt)
		})
		t.Run(name+", another key", func(t *testing.T) {
			_, err := decodeRecord([]byte("kez"), v)
			require.ErrorIs(t, err, ErrCorrupt)
		})
	}
}

func TestRecordOfALaterVersionIsNotCorrupt(t *testing.T) {
	key := []byte("key")
	later := laterRecord(key)
	shortest := later[:5:5]
	for _, v := range [][]byte{later, shortest} {
		binary.BigEndian.PutUint32(v[1:], checksum(key, v))
		_, err := decodeRecord(key, v)
		require.ErrorIs(t, err, ErrFormat)
		require.NotErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "version 2, this release reads version 1")
	}
}

// Every release computes it like this.
func TestChecksum(t *testing.T) {
	v := []byte("6....789") // the four bytes of the sum do not count
	require.Equal(t, crc32.Checksum([]byte("123456"+"789"), crc32.MakeTable(crc32.Castagnoli)), checksum([]byte("12345"), v))
}

// laterRecord is a record that a later release might write.
func laterRecord(key []byte) []byte {
	v := []byte{envelopeVersion + 1, 0, 0, 0, 0, 'n', 'e', 'w'}
	binary.BigEndian.PutUint32(v[1:], checksum(key, v))
	return v
}

func TestRecordOfALaterReleaseIsNeitherRunNorDeleted(t *testing.T) {
	path := tempDir(t)
	fake := fakeclock.At(1)
	s := mustOpen(t, path, withClock(fake.Read))
	c := claim("k")
	c.Lease, c.Retention = 0, time.Minute
	l := mustReserve(t, s, c, store.Acquired).Lease
	expired := claim("expired")
	expired.Lease, expired.Retention = 0, time.Minute
	mustReserve(t, s, expired, store.Acquired)
	key := envelope.AppendKey(nil, c.ID)
	require.NoError(t, s.db.Set(append([]byte{recordsPrefix}, key...), laterRecord(key), pebble.Sync))
	require.NoError(t, s.Close())

	fake.Wall.Add(int64(time.Hour))
	s = mustOpen(t, path, withClock(fake.Read))
	_, err := s.Reserve(t.Context(), c)
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorIs(t, err, store.ErrUnavailable, "a client retries, until it reaches the later release")
	require.NotErrorIs(t, err, store.ErrDamaged)
	require.ErrorIs(t, s.Complete(t.Context(), l, store.Outcome{Lazy: true}), ErrFormat)
	require.ErrorIs(t, s.Drop(t.Context(), c.ID), ErrFormat)
	require.ErrorIs(t, s.Verify(t.Context()), ErrFormat)
	n, err := s.Purge(t.Context(), 10)
	require.Equal(t, 1, n, "the one that can be read is purged")
	require.ErrorIs(t, err, ErrFormat)
	mustReserve(t, s, claim("neighbour"), store.Acquired)
	_, err = s.Find(t.Context(), c.ID)
	require.ErrorIs(t, err, ErrFormat)
}

func FuzzRecordDecode(f *testing.F) {
	key := []byte("key")
	for _, r := range sampleRecords() {
		f.Add(key, appendRecord(nil, key, r))
	}
	f.Add([]byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, key, v []byte) {
		r, err := decodeRecord(key, v)
		if err != nil {
			return
		}
		require.Equal(t, v, appendRecord(nil, key, r), "a record that decodes is encoded again to the same bytes")
	})
}

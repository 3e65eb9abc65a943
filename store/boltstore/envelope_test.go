package boltstore

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
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
	full.metaSum, full.resultSum = checksum(full.Meta), checksum(full.Result)
	return map[string]*record{
		"full":          full,
		"nil content":   {Record: store.Record{State: store.StatePending}},
		"owner alone":   {Record: store.Record{State: store.StatePending, Owner: "nonce"}},
		"empty content": {Record: store.Record{State: store.StateComplete, Meta: []byte{}, Result: []byte{}}},
		"meta alone": {
			Record: store.Record{State: store.StatePending, Meta: []byte("m")}, metaSum: checksum([]byte("m")),
		},
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

func TestDecodedRecordSharesNoMemoryWithItsPage(t *testing.T) {
	for name, r := range sampleRecords() {
		v := appendRecord(nil, []byte("key"), r)
		got, err := decodeRecord([]byte("key"), v)
		require.NoError(t, err, name)
		clear(v) // as bbolt does when it uses the page again
		require.Equal(t, r, got, name)
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

// firstVersion is a record as version 1 wrote it.
func firstVersion(key []byte, r *record) []byte {
	v := appendRecord(nil, key, r)
	v[0] = 1
	binary.BigEndian.PutUint32(v[1:], headerSum(key, v))
	return v
}

func TestRecordOfTheFirstVersionIsRead(t *testing.T) {
	key := []byte("key")
	for name, r := range sampleRecords() {
		t.Run(name, func(t *testing.T) {
			r.Owner = ""
			got, err := decodeRecord(key, firstVersion(key, r))
			require.NoError(t, err)
			require.Equal(t, r, got)
		})
	}
}

func TestRecordOfALaterVersionIsNotCorrupt(t *testing.T) {
	_, err := decodeRecord([]byte("key"), laterRecord([]byte("key")))
	require.ErrorIs(t, err, ErrFormat)
	require.NotErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "version 3, this release reads versions up to 2")
}

// laterRecord is what a later release might write.
func laterRecord(key []byte) []byte {
	v := []byte{envelopeVersion + 1, 0, 0, 0, 0, 'n', 'e', 'w'}
	binary.BigEndian.PutUint32(v[1:], headerSum(key, v))
	return v
}

func FuzzRecordDecode(f *testing.F) {
	key := []byte("key")
	for _, r := range sampleRecords() {
		f.Add(key, appendRecord(nil, key, r))
	}
	f.Add(key, firstVersion(key, &record{Record: store.Record{State: store.StatePending}}))
	f.Add([]byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, key, v []byte) {
		r, err := decodeRecord(key, v)
		if err != nil {
			return
		}
		again := appendRecord(nil, key, r)
		if v[0] == 1 {
			again = firstVersion(key, r)
		}
		require.Equal(t, v, again, "what decodes must be what was encoded")
	})
}

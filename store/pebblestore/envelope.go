package pebblestore

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// envelopeVersion is the first byte of every stored record.
const envelopeVersion = 1

// The header of an envelope is package envelope's head. Its checksum is a CRC-32C over the record's key, the version,
// and the bytes from 5. Every version keeps the first five bytes and the sum. So a record of a later release differs
// from a damaged one.
const headerSize = envelope.HeadSize

// maxResult is the number of bytes that a result may have. Pebble holds a batch of records in memory.
const maxResult = 1 << 30

// A record is one stored record in memory, without its ID and ReadAt. It is never changed after it is made, so it may
// be shared.
type record struct {
	store.Record
	epoch uint64
}

func (r *record) size() int { return headerSize + len(r.Owner) + len(r.Meta) + len(r.Result) }

func (r *record) pending() bool { return r.State == store.StatePending }

// appendRecord appends the envelope of the record with the key.
func appendRecord(b, key []byte, r *record) []byte {
	start := len(b)
	b = envelope.AppendHead(b, envelopeVersion, &r.Record, r.epoch)
	b = append(b, r.Owner...)
	b = append(b, r.Meta...)
	b = append(b, r.Result...)
	binary.BigEndian.PutUint32(b[start+1:], checksum(key, b[start:]))
	return b
}

func checksum(key, v []byte) uint32 {
	sum := crc32.Update(0, envelope.Castagnoli, key)
	sum = crc32.Update(sum, envelope.Castagnoli, v[:1])
	return crc32.Update(sum, envelope.Castagnoli, v[5:])
}

// decodeRecord reads and checks a record. Its meta and result share the memory of v.
func decodeRecord(key, v []byte) (*record, error) {
	if len(v) < 5 || binary.BigEndian.Uint32(v[1:]) != checksum(key, v) {
		return nil, corrupt("a record does not match its checksum")
	}
	if v[0] != envelopeVersion {
		return nil, unknownFormat("a record has version %d, this release reads version %d", v[0], envelopeVersion)
	}
	rec, epoch, err := envelope.Parse(v, headerSize)
	if err != nil {
		return nil, corrupt("%w", err)
	}
	return &record{rec, epoch}, nil
}

// The first byte of a key in Pebble.
const (
	recordsPrefix = 'r' // the record of an ID
	pendingPrefix = 'p' // the index of pending records, by the instant of creation
	expiryPrefix  = 'e' // the index of records that expire, by that instant
	statePrefix   = 's' // the only key with it is the state's
)

var stateKey = []byte{statePrefix}

// indexSize is the number of bytes before the record's key in a key of an index: the prefix and the instant.
const indexSize = 1 + envelope.InstantSize

func appendIndexKey(b []byte, prefix byte, instant int64, key []byte) []byte {
	return envelope.AppendIndexKey(append(b, prefix), instant, key)
}

func splitIndexKey(k []byte) (instant int64, key []byte, err error) {
	if instant, key, err = envelope.SplitIndexKey(k[1:]); err != nil {
		err = corrupt("%w", err)
	}
	return instant, key, err
}

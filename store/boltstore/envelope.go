package boltstore

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// envelopeVersion is the first byte of every stored record. Version 1 has no owner, and is otherwise the same.
const envelopeVersion = 2

// The envelope's header, all integers big-endian. The owner, meta and result follow it.
//
//	 0  version
//	 1  CRC-32C over the record's key, the version, bytes 5 to 95 and the owner
//	 5  state
//	 6  flags
//	 7  fence
//	15  epoch of the Open that wrote the record
//	23  created, unix nanoseconds
//	31  end of the lease, unix nanoseconds, zero: none
//	39  expiry, unix nanoseconds, zero: never
//	47  fingerprint
//	80  length of the owner, one byte
//	81  length of meta, three bytes
//	84  length of result
//	88  CRC-32C of meta, 92 of result
//
// The key is part of the checksum, so that a record under a damaged key is seen to be damaged. Header and content
// have separate sums, so that a neighbour can be checked without its content. Every version keeps the first five
// bytes. It also keeps the sum over bytes 5 to 95 and the owner, whose length is in byte 80, as far as these exist.
// So a record of a later release differs from a damaged one.
const (
	headerSize = 96
	ownerLen   = 80
)

const (
	flagMeta   = 1 << iota // meta is not nil
	flagResult             // result is not nil
)

// maxContent is the number of bytes that meta and result of one record may have together.
const maxContent = bbolt.MaxValueSize - headerSize - store.MaxOwner

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// A record is one stored record in memory, without its ID and ReadAt. It is never changed after it is made, so it may
// be shared.
type record struct {
	store.Record
	epoch     uint64
	metaSum   uint32
	resultSum uint32
}

func (r *record) size() int { return headerSize + len(r.Owner) + len(r.Meta) + len(r.Result) }

func (r *record) pending() bool { return r.State == store.StatePending }

// appendRecord appends the envelope of the record that is stored under key.
func appendRecord(b, key []byte, r *record) []byte {
	start := len(b)
	var flags byte
	if r.Meta != nil {
		flags |= flagMeta
	}
	if r.Result != nil {
		flags |= flagResult
	}
	b = append(b, envelopeVersion, 0, 0, 0, 0, byte(r.State), flags)
	b = binary.BigEndian.AppendUint64(b, r.Fence)
	b = binary.BigEndian.AppendUint64(b, r.epoch)
	b = binary.BigEndian.AppendUint64(b, uint64(nanos(r.CreatedAt)))
	b = binary.BigEndian.AppendUint64(b, uint64(nanos(r.LeaseUntil)))
	b = binary.BigEndian.AppendUint64(b, uint64(nanos(r.ExpiresAt)))
	b = append(b, r.Fingerprint[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Owner))<<24|uint32(len(r.Meta)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Result)))
	b = binary.BigEndian.AppendUint32(b, r.metaSum)
	b = binary.BigEndian.AppendUint32(b, r.resultSum)
	b = append(b, r.Owner...)
	binary.BigEndian.PutUint32(b[start+1:], headerSum(key, b[start:]))
	b = append(b, r.Meta...)
	return append(b, r.Result...)
}

func headerSum(key, v []byte) uint32 {
	sum := crc32.Update(0, castagnoli, key)
	sum = crc32.Update(sum, castagnoli, v[:1])
	end := headerSize
	if len(v) > ownerLen {
		end += int(v[ownerLen])
	}
	return crc32.Update(sum, castagnoli, v[5:min(end, len(v))])
}

// sound checks a record of any version, without its content.
func sound(key, v []byte) error {
	if len(v) < 5 || binary.BigEndian.Uint32(v[1:]) != headerSum(key, v) {
		return corrupt("a record's header does not match its checksum")
	}
	return nil
}

// decodeHeader reads and checks everything except meta and result.
func decodeHeader(key, v []byte) (record, error) {
	if err := sound(key, v); err != nil {
		return record{}, err
	}
	if v[0] == 0 || v[0] > envelopeVersion {
		return record{}, unknownFormat("a record has version %d, this release reads versions up to %d", v[0], envelopeVersion)
	}
	if len(v) < headerSize {
		return record{}, corrupt("a record has %d bytes, its header alone has %d", len(v), headerSize)
	}
	r := record{epoch: binary.BigEndian.Uint64(v[15:])}
	r.State, r.Fence = store.State(v[5]), binary.BigEndian.Uint64(v[7:])
	r.CreatedAt, r.LeaseUntil, r.ExpiresAt = instant(v[23:]), instant(v[31:]), instant(v[39:])
	r.metaSum, r.resultSum = binary.BigEndian.Uint32(v[88:]), binary.BigEndian.Uint32(v[92:])
	copy(r.Fingerprint[:], v[47:80])
	flags := v[6]
	owner, meta, result := lengths(v)
	switch {
	case r.State < store.StatePending || r.State > store.StateFailed:
		return record{}, corrupt("a record has state %d", v[5])
	case flags&^(flagMeta|flagResult) != 0:
		return record{}, corrupt("a record has flags %#x", flags)
	case flags&flagMeta == 0 && meta != 0, flags&flagResult == 0 && result != 0:
		return record{}, corrupt("a record has content where its flags say nil")
	case headerSize+owner+meta+result != len(v):
		return record{}, corrupt("a record has %d bytes, its header says %d", len(v), headerSize+owner+meta+result)
	}
	r.Owner = string(v[headerSize : headerSize+owner])
	return r, nil
}

// lengths returns the numbers of bytes that the owner, meta and result have by the header.
func lengths(v []byte) (owner, meta, result int) {
	n := binary.BigEndian.Uint32(v[ownerLen:])
	return int(n >> 24), int(n & (1<<24 - 1)), int(binary.BigEndian.Uint32(v[84:]))
}

// decodeRecord reads a record and checks its content. The record shares no memory with v.
func decodeRecord(key, v []byte) (*record, error) {
	r, err := decodeHeader(key, v)
	if err != nil {
		return nil, err
	}
	content := append([]byte(nil), v[headerSize+len(r.Owner):]...)
	_, meta, _ := lengths(v)
	if v[6]&flagMeta != 0 {
		r.Meta = notNil(content[:meta:meta])
	}
	if v[6]&flagResult != 0 {
		r.Result = notNil(content[meta:])
	}
	if checksum(r.Meta) != r.metaSum || checksum(r.Result) != r.resultSum {
		return nil, corrupt("a record's content does not match its checksum")
	}
	return &r, nil
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// appendKey appends the ID's key in the records bucket. The scope is length-prefixed, so that no two IDs share
// a key.
func appendKey(b []byte, id store.ID) []byte {
	b = binary.AppendUvarint(b, uint64(len(id.Scope)))
	b = append(b, id.Scope...)
	return append(b, id.Key...)
}

// parseKey parses the form that appendKey writes.
func parseKey(k []byte) (store.ID, error) {
	n, w := binary.Uvarint(k)
	if w <= 0 || n > uint64(len(k)-w) {
		return store.ID{}, corrupt("the key %q of a record is malformed", k)
	}
	id := store.ID{Scope: string(k[w : w+int(n)]), Key: string(k[w+int(n):])}
	if err := id.Validate(); err != nil {
		return store.ID{}, corrupt("the key %q of a record is malformed", k)
	}
	return id, nil
}

// An index orders records by an instant: the key is the instant, big-endian, and the record's key.
const instantSize = 8

func appendIndexKey(b []byte, instant int64, key []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(instant))
	return append(b, key...)
}

func splitIndexKey(k []byte) (instant int64, key []byte, err error) {
	if len(k) <= instantSize {
		return 0, nil, corrupt("the key %q of an index is malformed", k)
	}
	return int64(binary.BigEndian.Uint64(k)), k[instantSize:], nil
}

// instant reads an instant. Zero is the zero time.
func instant(v []byte) time.Time {
	if ns := int64(binary.BigEndian.Uint64(v)); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// nanos returns an instant as it is stored. Zero stands for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// lastInstant is the last one that can be stored.
var lastInstant = time.Unix(0, math.MaxInt64)

// bounded returns the record with instants that can be stored.
func bounded(r store.Record) store.Record {
	if r.LeaseUntil.After(lastInstant) {
		r.LeaseUntil = lastInstant
	}
	if r.ExpiresAt.After(lastInstant) {
		r.ExpiresAt = lastInstant
	}
	return r
}

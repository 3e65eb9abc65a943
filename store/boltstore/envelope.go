package boltstore

import (
	"encoding/binary"
	"hash/crc32"
	"math"

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

// A record is one stored record in memory. It is never changed after it is made, so it may be shared.
type record struct {
	fingerprint store.Fingerprint
	state       store.State
	fence       uint64
	epoch       uint64
	created     int64
	lease       int64 // end of the lease, zero: none
	expires     int64 // zero: never
	owner       string
	meta        []byte
	result      []byte
	metaSum     uint32
	resultSum   uint32
}

func (r *record) size() int { return headerSize + len(r.owner) + len(r.meta) + len(r.result) }

func (r *record) pending() bool { return r.state == store.StatePending }

// appendRecord appends the envelope of the record that is stored under key.
func appendRecord(b, key []byte, r *record) []byte {
	start := len(b)
	var flags byte
	if r.meta != nil {
		flags |= flagMeta
	}
	if r.result != nil {
		flags |= flagResult
	}
	b = append(b, envelopeVersion, 0, 0, 0, 0, byte(r.state), flags)
	b = binary.BigEndian.AppendUint64(b, r.fence)
	b = binary.BigEndian.AppendUint64(b, r.epoch)
	b = binary.BigEndian.AppendUint64(b, uint64(r.created))
	b = binary.BigEndian.AppendUint64(b, uint64(r.lease))
	b = binary.BigEndian.AppendUint64(b, uint64(r.expires))
	b = append(b, r.fingerprint[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.owner))<<24|uint32(len(r.meta)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.result)))
	b = binary.BigEndian.AppendUint32(b, r.metaSum)
	b = binary.BigEndian.AppendUint32(b, r.resultSum)
	b = append(b, r.owner...)
	binary.BigEndian.PutUint32(b[start+1:], headerSum(key, b[start:]))
	b = append(b, r.meta...)
	return append(b, r.result...)
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
	r := record{
		state:     store.State(v[5]),
		fence:     binary.BigEndian.Uint64(v[7:]),
		epoch:     binary.BigEndian.Uint64(v[15:]),
		created:   int64(binary.BigEndian.Uint64(v[23:])),
		lease:     int64(binary.BigEndian.Uint64(v[31:])),
		expires:   int64(binary.BigEndian.Uint64(v[39:])),
		metaSum:   binary.BigEndian.Uint32(v[88:]),
		resultSum: binary.BigEndian.Uint32(v[92:]),
	}
	copy(r.fingerprint[:], v[47:80])
	flags := v[6]
	owner, meta, result := lengths(v)
	switch {
	case r.state < store.StatePending || r.state > store.StateFailed:
		return record{}, corrupt("a record has state %d", v[5])
	case flags&^(flagMeta|flagResult) != 0:
		return record{}, corrupt("a record has flags %#x", flags)
	case flags&flagMeta == 0 && meta != 0, flags&flagResult == 0 && result != 0:
		return record{}, corrupt("a record has content where its flags say nil")
	case headerSize+owner+meta+result != len(v):
		return record{}, corrupt("a record has %d bytes, its header says %d", len(v), headerSize+owner+meta+result)
	}
	r.owner = string(v[headerSize : headerSize+owner])
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
	content := append([]byte(nil), v[headerSize+len(r.owner):]...)
	_, meta, _ := lengths(v)
	if v[6]&flagMeta != 0 {
		r.meta = notNil(content[:meta:meta])
	}
	if v[6]&flagResult != 0 {
		r.result = notNil(content[meta:])
	}
	if checksum(r.meta) != r.metaSum || checksum(r.result) != r.resultSum {
		return nil, corrupt("a record's content does not match its checksum")
	}
	return &r, nil
}

// clone copies b and keeps nil and empty apart.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
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

// after returns the instant d later, or the last one that can be stored.
func after(now, d int64) int64 {
	if d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + d
}

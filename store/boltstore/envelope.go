package boltstore

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// envelopeVersion is the first byte of every stored record.
const envelopeVersion = 1

// The envelope's header, all integers big-endian; meta and result follow it.
//
//	 0  version
//	 1  CRC-32C over the record's key, the version and bytes 5 to 95
//	 5  state
//	 6  flags
//	 7  fence
//	15  epoch of the Open that wrote the record
//	23  created, unix nanoseconds
//	31  end of the lease, unix nanoseconds, zero: none
//	39  expiry, unix nanoseconds, zero: never
//	47  fingerprint
//	80  length of meta, 84 of result
//	88  CRC-32C of meta, 92 of result
//
// The key is part of the checksum so that a record that turns up under a damaged key is seen to be damaged.
// Header and content have sums of their own so that a neighbour can be checked without reading its content.
// Every version keeps the first five bytes as they are, and the sum over as much of bytes 5 to 95 as there is,
// so that a record of a later release can be told from a damaged one.
const headerSize = 96

const (
	flagMeta   = 1 << iota // meta is not nil
	flagResult             // result is not nil
)

// maxContent is what one record may carry as meta and result together.
const maxContent = bbolt.MaxValueSize - headerSize

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// A record is one stored record in memory. It is never changed once it is made, so it may be shared.
type record struct {
	fingerprint store.Fingerprint
	state       store.State
	fence       uint64
	epoch       uint64
	created     int64
	lease       int64 // end of the lease, zero: none
	expires     int64 // zero: never
	meta        []byte
	result      []byte
	metaSum     uint32
	resultSum   uint32
}

func (r *record) size() int { return headerSize + len(r.meta) + len(r.result) }

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
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.meta)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.result)))
	b = binary.BigEndian.AppendUint32(b, r.metaSum)
	b = binary.BigEndian.AppendUint32(b, r.resultSum)
	binary.BigEndian.PutUint32(b[start+1:], headerSum(key, b[start:]))
	b = append(b, r.meta...)
	return append(b, r.result...)
}

func headerSum(key, v []byte) uint32 {
	sum := crc32.Update(0, castagnoli, key)
	sum = crc32.Update(sum, castagnoli, v[:1])
	return crc32.Update(sum, castagnoli, v[5:min(headerSize, len(v))])
}

// sound checks a record of whatever version, save its content.
func sound(key, v []byte) error {
	if len(v) < 5 || binary.BigEndian.Uint32(v[1:]) != headerSum(key, v) {
		return corrupt("a record's header does not match its checksum")
	}
	return nil
}

// decodeHeader reads everything but meta and result, and checks everything but their content.
func decodeHeader(key, v []byte) (record, error) {
	if err := sound(key, v); err != nil {
		return record{}, err
	}
	if v[0] != envelopeVersion {
		return record{}, unknownFormat("a record has version %d, this release reads version %d", v[0], envelopeVersion)
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
	metaLen, resultLen := uint64(binary.BigEndian.Uint32(v[80:])), uint64(binary.BigEndian.Uint32(v[84:]))
	switch {
	case r.state < store.StatePending || r.state > store.StateFailed:
		return record{}, corrupt("a record has state %d", v[5])
	case flags&^(flagMeta|flagResult) != 0:
		return record{}, corrupt("a record has flags %#x", flags)
	case flags&flagMeta == 0 && metaLen != 0, flags&flagResult == 0 && resultLen != 0:
		return record{}, corrupt("a record has content where its flags say nil")
	case headerSize+metaLen+resultLen != uint64(len(v)):
		return record{}, corrupt("a record has %d bytes, its header says %d", len(v), headerSize+metaLen+resultLen)
	}
	return r, nil
}

// decodeRecord reads what appendRecord wrote. The record shares no memory with v.
func decodeRecord(key, v []byte) (*record, error) {
	r, err := decodeHeader(key, v)
	if err != nil {
		return nil, err
	}
	content := append([]byte(nil), v[headerSize:]...)
	metaLen := int(binary.BigEndian.Uint32(v[80:]))
	if v[6]&flagMeta != 0 {
		r.meta = notNil(content[:metaLen:metaLen])
	}
	if v[6]&flagResult != 0 {
		r.result = notNil(content[metaLen:])
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

// parseKey reads what appendKey wrote.
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

// after is the instant d later, or the last one that can be stored.
func after(now, d int64) int64 {
	if d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + d
}

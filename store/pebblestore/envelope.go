package pebblestore

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"github.com/redo-go/redo/store"
)

// envelopeVersion is the first byte of every stored record.
const envelopeVersion = 1

// The envelope's header, all integers big-endian. The owner, meta and result follow it.
//
//	 0  version
//	 1  CRC-32C over the record's key, the version, and the bytes from 5
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
//
// Every version keeps the first five bytes and the sum. So a record of a later release differs from a damaged one.
const headerSize = 84

const (
	flagMeta   = 1 << iota // meta is not nil
	flagResult             // result is not nil
)

// maxResult is the number of bytes that a result may have. Pebble holds a batch of records in memory.
const maxResult = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
	b = append(b, r.Owner...)
	b = append(b, r.Meta...)
	b = append(b, r.Result...)
	binary.BigEndian.PutUint32(b[start+1:], checksum(key, b[start:]))
	return b
}

func checksum(key, v []byte) uint32 {
	sum := crc32.Update(0, castagnoli, key)
	sum = crc32.Update(sum, castagnoli, v[:1])
	return crc32.Update(sum, castagnoli, v[5:])
}

// decodeRecord reads and checks a record. Its meta and result share the memory of v.
func decodeRecord(key, v []byte) (*record, error) {
	if len(v) < 5 || binary.BigEndian.Uint32(v[1:]) != checksum(key, v) {
		return nil, corrupt("a record does not match its checksum")
	}
	if v[0] != envelopeVersion {
		return nil, unknownFormat("a record has version %d, this release reads version %d", v[0], envelopeVersion)
	}
	if len(v) < headerSize {
		return nil, corrupt("a record has %d bytes, its header alone has %d", len(v), headerSize)
	}
	r := &record{epoch: binary.BigEndian.Uint64(v[15:])}
	r.State, r.Fence = store.State(v[5]), binary.BigEndian.Uint64(v[7:])
	r.CreatedAt, r.LeaseUntil, r.ExpiresAt = instant(v[23:]), instant(v[31:]), instant(v[39:])
	copy(r.Fingerprint[:], v[47:80])
	lengths := binary.BigEndian.Uint32(v[80:])
	flags, owner, meta := v[6], int(lengths>>24), int(lengths&(1<<24-1))
	rest := v[headerSize:]
	switch {
	case r.State < store.StatePending || r.State > store.StateFailed:
		return nil, corrupt("a record has state %d", v[5])
	case flags&^(flagMeta|flagResult) != 0:
		return nil, corrupt("a record has flags %#x", flags)
	case owner+meta > len(rest):
		return nil, corrupt("a record has %d bytes, its header needs at least %d", len(v), headerSize+owner+meta)
	case flags&flagMeta == 0 && meta != 0, flags&flagResult == 0 && owner+meta != len(rest):
		return nil, corrupt("a record has content where its flags say nil")
	}
	r.Owner, rest = string(rest[:owner]), rest[owner:]
	if flags&flagMeta != 0 {
		r.Meta = rest[:meta:meta]
	}
	if flags&flagResult != 0 {
		r.Result = rest[meta:]
	}
	return r, nil
}

// The first byte of a key in Pebble.
const (
	recordsPrefix = 'r' // the record of an ID
	pendingPrefix = 'p' // the index of pending records, by the instant of creation
	expiryPrefix  = 'e' // the index of records that expire, by that instant
	statePrefix   = 's' // the only key with it is the state's
)

var stateKey = []byte{statePrefix}

// appendKey appends the ID's key without a prefix. The scope is length-prefixed, so that no two IDs share a key.
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

// indexSize is the number of bytes before the record's key in a key of an index: the prefix and the instant.
const indexSize = 9

func appendIndexKey(b []byte, prefix byte, instant int64, key []byte) []byte {
	b = append(b, prefix)
	b = binary.BigEndian.AppendUint64(b, uint64(instant))
	return append(b, key...)
}

func splitIndexKey(k []byte) (instant int64, key []byte, err error) {
	if len(k) <= indexSize {
		return 0, nil, corrupt("the key %q of an index is malformed", k)
	}
	return int64(binary.BigEndian.Uint64(k[1:])), k[indexSize:], nil
}

// instant reads an instant. Zero is the zero time.
func instant(v []byte) time.Time {
	if ns := int64(binary.BigEndian.Uint64(v)); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// nanos returns an instant as it is stored. Zero is the zero time.
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

// A state outlives the process beside the records.
type state struct {
	fence uint64 // the last one reserved: no higher one was given out
	epoch uint64 // counts the Opens
}

func (s state) append(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, s.fence)
	b = binary.BigEndian.AppendUint64(b, s.epoch)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func parseState(v []byte) (state, error) {
	if len(v) != 20 || binary.BigEndian.Uint32(v[16:]) != crc32.Checksum(v[:16], castagnoli) {
		return state{}, corrupt("the state does not match its checksum")
	}
	return state{fence: binary.BigEndian.Uint64(v), epoch: binary.BigEndian.Uint64(v[8:])}, nil
}

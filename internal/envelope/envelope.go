// Package envelope holds the bytes that the embedded stores write in the same way. These are the head of a record, the
// keys of records and of their indexes, instants, and the state beside the records.
package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redo-go/redo/store"
)

// HeadSize is the number of bytes of a record's head. All integers are big-endian:
//
//	 0  version
//	 1  the engine's checksum, four bytes
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
// The engine's own fields may follow. The owner, meta and result come last.
const HeadSize = 84

// OwnerLen is the place of the owner's length.
const OwnerLen = 80

const (
	flagMeta   = 1 << iota // meta is not nil
	flagResult             // result is not nil
)

// AppendHead appends the head of a record, with zeros in place of the checksum.
func AppendHead(b []byte, version byte, r *store.Record, epoch uint64) []byte {
	var flags byte
	if r.Meta != nil {
		flags |= flagMeta
	}
	if r.Result != nil {
		flags |= flagResult
	}
	b = append(b, version, 0, 0, 0, 0, byte(r.State), flags)
	b = binary.BigEndian.AppendUint64(b, r.Fence)
	b = binary.BigEndian.AppendUint64(b, epoch)
	b = binary.BigEndian.AppendUint64(b, uint64(Nanos(r.CreatedAt)))
	b = binary.BigEndian.AppendUint64(b, uint64(Nanos(r.LeaseUntil)))
	b = binary.BigEndian.AppendUint64(b, uint64(Nanos(r.ExpiresAt)))
	b = append(b, r.Fingerprint[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(len(r.Owner))<<24|uint32(len(r.Meta)))
}

// Parse reads a record, without its ID and ReadAt. It begins with the head and the engine's own fields, which have size
// bytes together. Meta and result share the memory of v. The caller checks version and checksum.
func Parse(v []byte, size int) (r store.Record, epoch uint64, err error) {
	if len(v) < size {
		return r, 0, fmt.Errorf("a record has %d bytes, its header alone has %d", len(v), size)
	}
	lengths := binary.BigEndian.Uint32(v[OwnerLen:])
	flags, owner, meta, rest := v[6], int(lengths>>24), int(lengths&(1<<24-1)), v[size:]
	state := store.State(v[5])
	switch {
	case state < store.StatePending || state > store.StateFailed:
		return r, 0, fmt.Errorf("a record has state %d", v[5])
	case flags&^(flagMeta|flagResult) != 0:
		return r, 0, fmt.Errorf("a record has flags %#x", flags)
	case owner+meta > len(rest):
		return r, 0, fmt.Errorf("a record has %d bytes, its header needs at least %d", len(v), size+owner+meta)
	case flags&flagMeta == 0 && meta != 0, flags&flagResult == 0 && owner+meta != len(rest):
		return r, 0, errors.New("a record has content where its flags say nil")
	}
	r = store.Record{
		State: state, Fence: binary.BigEndian.Uint64(v[7:]), Owner: string(rest[:owner]),
		CreatedAt: instant(v[23:]), LeaseUntil: instant(v[31:]), ExpiresAt: instant(v[39:]),
	}
	copy(r.Fingerprint[:], v[47:])
	if rest = rest[owner:]; flags&flagMeta != 0 {
		r.Meta = rest[:meta:meta]
	}
	if flags&flagResult != 0 {
		r.Result = rest[meta:]
	}
	return r, binary.BigEndian.Uint64(v[15:]), nil
}

// instant reads an instant. Zero is the zero time.
func instant(v []byte) time.Time {
	if ns := int64(binary.BigEndian.Uint64(v)); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Nanos returns an instant as it is stored. Zero stands for the zero time.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Listed returns the record's instant in the index of pending records, or zero if it is not in it.
func Listed(r store.Record) int64 {
	if r.State != store.StatePending {
		return 0
	}
	return Nanos(r.CreatedAt)
}

// LastInstant is the last one that can be stored.
var LastInstant = time.Unix(0, math.MaxInt64)

// Bounded returns the record with instants that can be stored.
func Bounded(r store.Record) store.Record {
	if r.LeaseUntil.After(LastInstant) {
		r.LeaseUntil = LastInstant
	}
	if r.ExpiresAt.After(LastInstant) {
		r.ExpiresAt = LastInstant
	}
	return r
}

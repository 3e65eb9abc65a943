package envelope

import (
	"encoding/binary"
	"fmt"

	"github.com/redo-go/redo/store"
)

// AppendKey appends the key of the ID's record. The scope is length-prefixed, so that no two IDs share a key.
func AppendKey(b []byte, id store.ID) []byte {
	b = binary.AppendUvarint(b, uint64(len(id.Scope)))
	b = append(b, id.Scope...)
	return append(b, id.Key...)
}

// ParseKey parses the form that AppendKey writes.
func ParseKey(k []byte) (store.ID, error) {
	n, w := binary.Uvarint(k)
	if w > 0 && n <= uint64(len(k)-w) {
		id := store.ID{Scope: string(k[w : w+int(n)]), Key: string(k[w+int(n):])}
		if id.Validate() == nil {
			return id, nil
		}
	}
	return store.ID{}, fmt.Errorf("the key %q of a record is malformed", k)
}

// InstantSize is the number of bytes of the instant with which a key of an index begins.
const InstantSize = 8

// AppendIndexKey appends a key of an index, which orders records by an instant. The record's key follows the instant.
func AppendIndexKey(b []byte, instant int64, key []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(instant))
	return append(b, key...)
}

// SplitIndexKey splits the form that AppendIndexKey writes.
func SplitIndexKey(k []byte) (instant int64, key []byte, err error) {
	if len(k) <= InstantSize {
		return 0, nil, fmt.Errorf("the key %q of an index is malformed", k)
	}
	return int64(binary.BigEndian.Uint64(k)), k[InstantSize:], nil
}

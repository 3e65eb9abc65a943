package envelope

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Castagnoli is the table of the stores' checksums, CRC-32C.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A State outlives the process beside the records.
type State struct {
	Fence uint64 // the last one reserved: no higher one was given out
	Epoch uint64 // counts the Opens that wrote
}

// Append appends the state and its checksum.
func (s State) Append(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, s.Fence)
	b = binary.BigEndian.AppendUint64(b, s.Epoch)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], Castagnoli))
}

// ParseState parses the form that Append writes.
func ParseState(v []byte) (State, error) {
	if len(v) != 20 || binary.BigEndian.Uint32(v[16:]) != crc32.Checksum(v[:16], Castagnoli) {
		return State{}, errors.New("the state does not match its checksum")
	}
	return State{Fence: binary.BigEndian.Uint64(v), Epoch: binary.BigEndian.Uint64(v[8:])}, nil
}

// A Tally is the number and the sum of checksums of the entries of an index. Two sets of entries with the same tally
// are taken for equal.
type Tally struct{ N, Sums uint64 }

// Add adds an entry.
func (t *Tally) Add(key []byte) {
	t.N++
	t.Sums += uint64(crc32.Checksum(key, Castagnoli))
}

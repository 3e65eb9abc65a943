package boltstore

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// envelopeVersion is the first byte of every stored record. Version 1 has no owner, and is otherwise the same.
const envelopeVersion = 2

// The header of an envelope begins as package envelope's head, whose checksum is a CRC-32C over the record's key, the
// version, bytes 5 to 95 and the owner. The rest of the header follows.
//
//	84  length of result
//	88  CRC-32C of meta, 92 of result
//
// The key is part of the checksum, so that a record under a damaged key is seen to be damaged. Header and content
// have separate sums, so that a neighbour can be checked without its content. Every version keeps the first five
// bytes. It also keeps the sum over bytes 5 to 95 and the owner, whose length is in byte 80, as far as these exist.
// So a record of a later release differs from a damaged one.
const headerSize = envelope.HeadSize + 12

// maxResult is the number of bytes that a result may have.
const maxResult = bbolt.MaxValueSize - headerSize - store.MaxOwner - store.MaxMeta

func checksum(b []byte) uint32 { return crc32.Checksum(b, envelope.Castagnoli) }

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
	b = envelope.AppendHead(b, envelopeVersion, &r.Record, r.epoch)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Result)))
	b = binary.BigEndian.AppendUint32(b, r.metaSum)
	b = binary.BigEndian.AppendUint32(b, r.resultSum)
	b = append(b, r.Owner...)
	binary.BigEndian.PutUint32(b[start+1:], headerSum(key, b[start:]))
	b = append(b, r.Meta...)
	return append(b, r.Result...)
}

func headerSum(key, v []byte) uint32 {
	sum := crc32.Update(checksum(key), envelope.Castagnoli, v[:1])
	end := headerSize
	if len(v) > envelope.OwnerLen {
		end += int(v[envelope.OwnerLen])
	}
	return crc32.Update(sum, envelope.Castagnoli, v[5:min(end, len(v))])
}

// sound checks a record of any version, without its content.
func sound(key, v []byte) error {
	if len(v) < 5 || binary.BigEndian.Uint32(v[1:]) != headerSum(key, v) {
		return corrupt("a record's header does not match its checksum")
	}
	return nil
}

// decodeHeader reads a record and checks everything except meta and result, which share the memory of v.
func decodeHeader(key, v []byte) (record, error) {
	if err := sound(key, v); err != nil {
		return record{}, err
	}
	if v[0] == 0 || v[0] > envelopeVersion {
		return record{}, unknownFormat("a record has version %d, this release reads versions up to %d", v[0], envelopeVersion)
	}
	rec, epoch, err := envelope.Parse(v, headerSize)
	if err != nil {
		return record{}, corrupt("%w", err)
	}
	numbers := v[envelope.HeadSize:]
	if n := binary.BigEndian.Uint32(numbers); int(n) != len(rec.Result) {
		return record{}, corrupt("a record's result has %d bytes, its header says %d", len(rec.Result), n)
	}
	return record{rec, epoch, binary.BigEndian.Uint32(numbers[4:]), binary.BigEndian.Uint32(numbers[8:])}, nil
}

// decodeRecord reads a record and checks its content. The record shares no memory with v.
func decodeRecord(key, v []byte) (*record, error) {
	r, err := decodeHeader(key, v)
	if err != nil {
		return nil, err
	}
	content, meta := bytes.Clone(v[headerSize+len(r.Owner):]), len(r.Meta)
	if r.Meta != nil {
		r.Meta = content[:meta:meta]
	}
	if r.Result != nil {
		r.Result = content[meta:]
	}
	if checksum(r.Meta) != r.metaSum || checksum(r.Result) != r.resultSum {
		return nil, corrupt("a record's content does not match its checksum")
	}
	return &r, nil
}

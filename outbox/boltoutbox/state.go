package boltoutbox

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// A status is the stage of an event. Its zero value is absent.
type status uint8

const (
	isWaiting status = iota + 1 // leased or not
	isSent
	isDead
)

// A state holds the changing part of an event. Instants are Unix nanoseconds.
type state struct {
	status   status
	leased   bool // claimed and not settled; due is the lease's end
	attempts uint32
	fence    uint64
	enqueued int64
	first    int64 // when the first attempt was claimed; zero: none was
	due      int64
	done     int64 // when it was sent or given up
	failure  outbox.Failure
	key      string // the ordering key
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s state) encode() []byte {
	b := []byte{byte(s.status), 0}
	if s.leased {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint32(b, s.attempts)
	for _, n := range []uint64{s.fence, uint64(s.enqueued), uint64(s.first), uint64(s.due), uint64(s.done)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, text := range []string{string(s.failure.Code), s.failure.Reason, s.key} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeState(b []byte) (s state, err error) {
	const fixed = 2 + 4 + 5*8
	if len(b) < fixed+4 {
		return state{}, corrupt("a state has %d bytes", len(b))
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[len(body):]) {
		return state{}, corrupt("a state does not match its checksum")
	}
	s.status, s.leased, s.attempts = status(body[0]), body[1] == 1, binary.BigEndian.Uint32(body[2:])
	n := body[6:]
	s.fence = binary.BigEndian.Uint64(n)
	for i, at := range []*int64{&s.enqueued, &s.first, &s.due, &s.done} {
		*at = int64(binary.BigEndian.Uint64(n[8*(i+1):]))
	}
	rest := body[fixed:]
	var code string
	for _, text := range []*string{&code, &s.failure.Reason, &s.key} {
		size, k := binary.Uvarint(rest)
		if k <= 0 || size > uint64(len(rest)-k) {
			return state{}, corrupt("a state breaks off")
		}
		*text, rest = string(rest[k:k+int(size)]), rest[k+int(size):]
	}
	s.failure.Code = taxonomy.Code(code)
	if s.status < isWaiting || s.status > isDead || len(rest) > 0 {
		return state{}, corrupt("a state has the status %d and %d bytes too many", s.status, len(rest))
	}
	return s, nil
}

func (f *file) state(seq uint64) (state, error) {
	v := f.states.Get(seqKey(seq))
	if v == nil {
		return state{}, corrupt("event %d has no state", seq)
	}
	return decodeState(v)
}

func (f *file) put(seq uint64, s state) error {
	f.changed = true
	return f.states.Put(seqKey(seq), s.encode())
}

// A head precedes the payload.
type head struct {
	ID          string      `json:"id"`
	Type        string      `json:"type,omitempty"`
	Destination string      `json:"destination,omitempty"`
	OrderingKey string      `json:"ordering_key,omitempty"`
	Header      http.Header `json:"header,omitempty"`
}

// eventVersion is the first byte of an event's encoding: version, checksum, length of the head, head, payload.
const eventVersion = 1

func encodeEvent(ev outbox.Event) ([]byte, error) {
	h, err := json.Marshal(head{ev.ID, ev.Type, ev.Destination, ev.OrderingKey, ev.Header})
	if err != nil {
		return nil, err
	}
	b := make([]byte, 9, 9+len(h)+len(ev.Payload))
	b[0] = eventVersion
	binary.BigEndian.PutUint32(b[5:], uint32(len(h)))
	b = append(append(b, h...), ev.Payload...)
	binary.BigEndian.PutUint32(b[1:], crc32.Checksum(b[5:], castagnoli))
	return b, nil
}

// decodeEvent copies what it returns.
func decodeEvent(b []byte) (outbox.Event, error) {
	switch {
	case len(b) < 9:
		return outbox.Event{}, corrupt("an event has %d bytes", len(b))
	case b[0] != eventVersion:
		return outbox.Event{}, corrupt("an event has version %d", b[0])
	case crc32.Checksum(b[5:], castagnoli) != binary.BigEndian.Uint32(b[1:]):
		return outbox.Event{}, corrupt("an event does not match its checksum")
	}
	size := binary.BigEndian.Uint32(b[5:])
	if uint64(size) > uint64(len(b)-9) {
		return outbox.Event{}, corrupt("an event breaks off")
	}
	var h head
	if err := json.Unmarshal(b[9:9+size], &h); err != nil {
		return outbox.Event{}, corrupt("an event's head can't be read: %v", err)
	}
	payload := append([]byte{}, b[9+size:]...)
	return outbox.Event{
		ID: h.ID, Type: h.Type, Destination: h.Destination, OrderingKey: h.OrderingKey, Header: h.Header, Payload: payload,
	}, nil
}

func (f *file) event(seq uint64) (outbox.Event, error) {
	v := f.events.Get(seqKey(seq))
	if v == nil {
		return outbox.Event{}, corrupt("event %d is gone", seq)
	}
	return decodeEvent(v)
}

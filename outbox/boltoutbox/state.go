package boltoutbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// state holds all of an event except its header and payload. Instants are Unix nanoseconds.
type state struct {
	ID          string `json:"id"`
	Type        string `json:"type,omitempty"`
	Destination string `json:"destination,omitempty"`
	Key         string `json:"ordering_key,omitempty"`
	Attempts    int    `json:"attempts,omitempty"`
	Leased      bool   `json:"leased,omitempty"` // claimed and not settled; Due is the end of the lease
	Fence       uint64 `json:"fence,omitempty"`
	Failures    int    `json:"failures,omitempty"` // in the history
	Enqueued    int64  `json:"enqueued"`
	First       int64  `json:"first,omitempty"` // claim time of the first attempt
	Due         int64  `json:"due,omitempty"`
	Died        int64  `json:"died,omitempty"`
}

// line returns the prefix of the event's key in members, leased and held.
func (s state) line() []byte { return text(s.Destination, s.Key) }

// id returns the event's key in ids.
func (s state) id() []byte { return text(s.ID, s.Destination) }

func text(parts ...string) []byte {
	var b []byte
	for _, p := range parts {
		b = append(append(b, p...), 0)
	}
	return b
}

// failure is an attempt in the history, or the reason why a destination is disabled.
type failure struct {
	At       int64         `json:"at"`
	Code     taxonomy.Code `json:"code,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Status   int           `json:"status,omitempty"`
	Response string        `json:"response,omitempty"`
	Elapsed  time.Duration `json:"elapsed,omitempty"`
}

func failed(at int64, o outbox.Failure) failure {
	return failure{At: at, Code: o.Code, Reason: o.Reason, Status: o.Status, Response: o.Response, Elapsed: o.Elapsed}
}

func (f failure) past() outbox.PastFailure {
	return outbox.PastFailure{At: time.Unix(0, f.At), Failure: outbox.Failure{
		Code: f.Code, Reason: f.Reason, Status: f.Status, Response: f.Response, Elapsed: f.Elapsed,
	}}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed returns b with its checksum.
func sealed(b []byte) []byte { return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)) }

func unsealed(b []byte) ([]byte, error) {
	n := len(b) - 4
	if n < 0 || crc32.Checksum(b[:n], castagnoli) != binary.BigEndian.Uint32(b[n:]) {
		return nil, corrupt("an entry of %d bytes does not match its checksum", len(b))
	}
	return b[:n], nil
}

// encode encodes a state or a failure.
func (f *file) encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		f.fail(err)
	}
	return sealed(b)
}

func decode(b []byte, v any) error {
	b, err := unsealed(b)
	if err == nil && json.Unmarshal(b, v) != nil {
		err = corrupt("an entry can't be decoded")
	}
	return err
}

// encodeBody encodes a header, a line break and a payload.
func encodeBody(ev outbox.Event) []byte {
	h, _ := json.Marshal(ev.Header) // every header has a form in JSON
	b := make([]byte, 0, len(h)+1+len(ev.Payload)+4)
	return sealed(append(append(append(b, h...), '\n'), ev.Payload...))
}

// event returns the event. After an error it has neither header nor payload.
func (f *file) event(seq uint64, s state) (outbox.Event, error) {
	ev := outbox.Event{ID: s.ID, Type: s.Type, Destination: s.Destination, OrderingKey: s.Key}
	h, payload, err := decodeBody(f.get(f.events, number(seq)))
	if err != nil {
		return ev, err
	}
	ev.Header, ev.Payload = h, payload
	return ev, nil
}

// decodeBody decodes a header and a payload. The payload is a copy.
func decodeBody(b []byte) (h http.Header, payload []byte, err error) {
	if b, err = unsealed(b); err != nil {
		return nil, nil, err
	}
	head, payload, _ := bytes.Cut(b, []byte{'\n'})
	if json.Unmarshal(head, &h) != nil {
		return nil, nil, corrupt("a header can't be decoded")
	}
	return h, bytes.Clone(payload), nil
}

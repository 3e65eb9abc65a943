package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// A note is the inbox's part of a record: the meta of an event that is not settled, and the result of a settled one.
// It is a line of JSON. The payload follows, if Kept is set.
type note struct {
	Version  int       `json:"v"`
	State    noteState `json:"state,omitempty"` // the docs' SQL reads it behind the version
	Kept     bool      `json:"kept,omitempty"`
	Attempts int       `json:"attempts"`
	Received time.Time `json:"received,omitzero"`
	// Changed is when the last attempt was counted, when it has failed, or when the event was settled.
	Changed time.Time `json:"changed,omitzero"`
	Err     string    `json:"error,omitempty"`
	// Fence is the lease's fence, of an event that rests. Under another fence a delivery has taken the event over.
	Fence   uint64 `json:"fence,omitempty"`
	payload []byte // not nil if Kept is set
}

// A noteState is the state of an event that is not settled.
type noteState string

const (
	counted noteState = ""      // an attempt was begun, and no outcome was recorded
	resting noteState = "rests" // the last attempt has failed
	dead    noteState = "dead"  // the event is a dead letter
)

const (
	noteVersion = 3
	maxError    = 2 << 10 // bytes of an error's text that are kept; JSON may need six times as many
)

// rests reports whether the event of the record rests after a failure, and no delivery owns it.
func (n note) rests(rec store.Record) bool { return n.State == resting && n.Fence == rec.Fence }

var errNote = errors.New("inbox: a stored note is damaged, or of an unknown version")

func (n note) encode() []byte {
	n.Version, n.Err = noteVersion, wire.Clip(n.Err, maxError)
	b, _ := json.Marshal(n) // it fails for years that no clock has, and decodeNote refuses the result
	return append(append(b, '\n'), n.payload...)
}

// decodeNote parses the form that encode writes. It keeps no part of b.
func decodeNote(b []byte) (note, error) {
	var n note
	line, payload, ok := bytes.Cut(b, []byte("\n"))
	if !ok || json.Unmarshal(line, &n) != nil || n.Version != noteVersion || !n.Kept && len(payload) > 0 {
		return note{}, errNote
	}
	if n.Kept {
		n.payload = append([]byte{}, payload...)
	}
	return n, nil
}

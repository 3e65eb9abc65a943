package disk

import (
	"encoding/json"
	"fmt"

	"github.com/redo-go/redo/store"
)

// A Stage is the stage of a call that an Event reports.
type Stage string

// The stages of a call.
const (
	Begun   Stage = "begun"
	Done    Stage = "done"    // acknowledged
	Refused Stage = "refused" // the store returned ErrUnavailable: nothing was changed
	Unknown Stage = "unknown" // the store returned ErrUnknown
)

// An Event is a line that the recorded process prints. The line of a Begun is printed before the call.
type Event struct {
	Stage Stage
	Op    string
	Key   string `json:",omitempty"`
	// Found is the record as the process saw it after the call. In a Begun it holds what the call is about to write.
	Found Fact
	Lazy  bool   `json:",omitempty"`
	Error string `json:",omitempty"`
}

// A Fact is the state of one ID: its record, and whether its effect exists. The zero State is no record.
type Fact struct {
	State  store.State `json:",omitempty"`
	Meta   string      `json:",omitempty"`
	Result string      `json:",omitempty"`
	Fence  uint64      `json:",omitempty"` // 0: not known yet
	Effect bool        `json:",omitempty"`
	Taken  bool        `json:",omitempty"` // an earlier owner wrote the meta, which is not known yet
}

// fits reports whether an observed fact agrees with f.
func (f Fact) fits(seen Fact) bool {
	if f.State != 0 && f.Fence == 0 {
		seen.Fence = 0
	}
	if f.Taken {
		seen.Meta = f.Meta
	}
	f.Taken = false
	return f == seen
}

// String returns the fact in words, with the start of long texts.
func (f Fact) String() string {
	if f.State == 0 {
		return fmt.Sprintf("no record (effect: %t)", f.Effect)
	}
	return fmt.Sprintf("%v under fence %d, meta %.20q, result of %d bytes %.20q, effect: %t",
		f.State, f.Fence, f.Meta, len(f.Result), f.Result, f.Effect)
}

// parseEvent returns the Event of a line.
func parseEvent(line []byte) (e Event, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("disk: the process printed %.100q: %w", line, err)
	}
	return e, nil
}

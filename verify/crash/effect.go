package main

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// An effect is one run of the service's handler that changed something. The ledger has no unique key, so that it can
// show a second effect of an operation.
type effect struct {
	Operation string    `json:"operation"`
	Key       string    `json:"key"`
	Run       string    `json:"run"` // a random name, which the response contains
	Fence     uint64    `json:"fence"`
	TakenOver bool      `json:"taken_over,omitempty"` // an earlier owner of the key left no outcome
	At        time.Time `json:"at"`
	Mark      bool      `json:"mark,omitempty"` // no effect: an owner of the key has read the ledger
}

// A request is a request that reached a service.
type request struct {
	Operation string `json:"operation"`
	Key       string `json:"key"`
}

// A call is the begin or the end of a client's call.
type call struct {
	Operation string    `json:"operation"`
	Process   string    `json:"process"`
	Number    int64     `json:"number"` // of the call in its process
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`
	Body      string    `json:"body,omitempty"`
	Code      string    `json:"code,omitempty"` // empty for a success
	Effect    string    `json:"effect,omitempty"`
	Final     bool      `json:"final,omitempty"` // a failure that no other call changes
}

// Kinds of a call.
const (
	begins  = "begin"
	ends    = "end"    // of a call by name
	resumes = "resume" // the end of a Resume, which a call by name follows
	replays = "replay" // the end of a repetition after the success
)

// settles reports whether an operation has come to its end.
func (c call) settles() bool { return c.Kind != begins && c.Code == "" || c.Kind == ends && c.Final }

// A receipt is the body of a success.
type receipt struct {
	Operation string `json:"operation"`
	Run       string `json:"run"`
}

// A notice is the payload of an event. The consumer keeps one for each event that it handles.
type notice struct {
	Operation string `json:"operation"`
	Run       string `json:"run"`
}

// randomName returns a new name.
func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

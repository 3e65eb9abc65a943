package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// An event is what a process tells the one that started it, as a JSON line on its standard output.
type event struct {
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	PID     int       `json:"pid"`
	Text    string    `json:"text,omitempty"`
	Good    bool      `json:"good,omitempty"`    // an outcome as it should be
	Address string    `json:"address,omitempty"` // the service is up here
	Held    bool      `json:"held,omitempty"`    // the effect is there, and its answer is not
	Mark    bool      `json:"mark,omitempty"`    // all that was said before has been printed
}

var output sync.Mutex

func emit(e event) {
	e.At, e.PID = time.Now(), os.Getpid()
	output.Lock()
	defer output.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(e)
}

func speaker(actor string) func(string, ...any) {
	return func(format string, args ...any) { emit(event{Actor: actor, Text: fmt.Sprintf(format, args...)}) }
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// A role is what a process is told to be, in the first line of its standard input: secrets are safe there, and on the
// command line they would not be.
type role struct {
	Name     string   `json:"name"` // client, producer, relay or consumer
	Address  string   `json:"address,omitempty"`
	File     string   `json:"file,omitempty"`     // its bbolt file
	Postgres string   `json:"postgres,omitempty"` // instead of a file
	Schema   string   `json:"schema,omitempty"`
	Producer string   `json:"producer,omitempty"` // the producer's URL
	Consumer string   `json:"consumer,omitempty"` // the URL of its webhooks
	Secrets  []secret `json:"secrets,omitempty"`
	Part     string   `json:"part,omitempty"` // what the client does
}

// roles are the processes of this program. On bbolt the producer is the relay too.
var roles = map[string]func(context.Context, role) error{
	"client":   act,
	"producer": produce,
	"relay":    relay,
	"consumer": consume,
}

// play is what a process does, until it is done or killed. It ends when its standard input does, so that none is left
// behind when the program itself is killed.
func play(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return io.ErrUnexpectedEOF
	}
	var r role
	if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
		return err
	}
	run, ok := roles[r.Name]
	if !ok {
		return fmt.Errorf("there is no role %q", r.Name)
	}
	go func() {
		for lines.Scan() {
			obey(lines.Text())
		}
		os.Exit(1)
	}()
	return run(context.Background(), r)
}

// A word is what a process says, as a JSON line on its standard output.
type word struct {
	At      time.Time `json:"at"`
	Actor   string    `json:"actor,omitempty"`
	Text    string    `json:"text,omitempty"`
	Good    bool      `json:"good,omitempty"`    // an outcome as it should be
	Up      bool      `json:"up,omitempty"`      // it has started
	Address string    `json:"address,omitempty"` // and listens here
	Held    bool      `json:"held,omitempty"`    // the effect is there, and its answer is not
	Answer  *answer   `json:"answer,omitempty"`  // to a command
}

// An answer is what came of a command.
type answer struct {
	Entries []entry `json:"entries,omitempty"`
	Waiting int     `json:"waiting,omitempty"`
	Dead    int     `json:"dead,omitempty"`
	Error   string  `json:"error,omitempty"`
}

var output sync.Mutex

func emit(w word) {
	w.At = time.Now()
	output.Lock()
	defer output.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(w)
}

// A voice says things for an actor.
type voice string

func (v voice) say(format string, args ...any) {
	emit(word{Actor: string(v), Text: fmt.Sprintf(format, args...)})
}

func (v voice) good(format string, args ...any) {
	emit(word{Actor: string(v), Text: fmt.Sprintf(format, args...), Good: true})
}

// commands are what a process can be told while it runs, beside heard, to which it answers and no more.
var commands sync.Map

const heard = "heard"

// on sets what a command does.
func on(command string, do func(args []string) answer) { commands.Store(command, do) }

func obey(line string) {
	words := strings.Fields(line)
	a := answer{}
	if do, ok := commands.Load(words[0]); ok {
		a = do.(func([]string) answer)(words[1:])
	} else if words[0] != heard {
		a.Error = "there is no command " + line
	}
	emit(word{Answer: &a})
}

// answered turns what a command found into its answer.
func answered(a answer, err error) answer {
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

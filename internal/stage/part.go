package stage

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// IsPart reports whether this process was started by Start.
func IsPart() bool { return len(os.Args) == 2 && os.Args[1] == part }

// Play reads the role of this process and runs it.
func Play[R any](run func(role R) error) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return io.ErrUnexpectedEOF
	}
	var role R
	if err := json.Unmarshal(lines.Bytes(), &role); err != nil {
		return err
	}
	go func() {
		for lines.Scan() {
			obey(lines.Text())
		}
		os.Exit(1) // the parent is gone
	}()
	return run(role)
}

// A message is a line of a part's standard output.
type message struct {
	At      time.Time `json:"at"`
	Actor   string    `json:"actor,omitempty"`
	Text    string    `json:"text,omitempty"`
	Good    bool      `json:"good,omitempty"`    // an expected outcome
	Up      bool      `json:"up,omitempty"`      // the part has started
	Address string    `json:"address,omitempty"` // it listens here
	Held    bool      `json:"held,omitempty"`    // the effect is made, and its response is held back
	Answer  *answer   `json:"answer,omitempty"`

	pid int // set by the parent
}

var output sync.Mutex

func emit(m message) {
	m.At = time.Now()
	output.Lock()
	defer output.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(m)
}

// Up reports that the part has started, and its address if it listens.
func Up(address string) { emit(message{Up: true, Address: address}) }

// A Voice is the name under which a part reports.
type Voice string

// Say reports an event.
func (v Voice) Say(format string, args ...any) {
	emit(message{Actor: string(v), Text: fmt.Sprintf(format, args...)})
}

// Good reports an expected outcome.
func (v Voice) Good(format string, args ...any) {
	emit(message{Actor: string(v), Text: fmt.Sprintf(format, args...), Good: true})
}

var commands sync.Map

// On sets the function that runs a command. Its value is sent as JSON.
func On(command string, f func(args []string) (any, error)) { commands.Store(command, f) }

func obey(line string) {
	words := strings.Fields(line)
	var a answer
	if len(words) > 0 {
		value, err := do(words[0], words[1:])
		if err == nil {
			a.Value, err = json.Marshal(value)
		}
		if err != nil {
			a.Error = err.Error()
		}
	}
	emit(message{Answer: &a})
}

func do(command string, args []string) (any, error) {
	f, ok := commands.Load(command)
	if !ok {
		return nil, fmt.Errorf("there is no command %q", command)
	}
	return f.(func([]string) (any, error))(args)
}

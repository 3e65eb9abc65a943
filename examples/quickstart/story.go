package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// A scene is one thing that goes wrong.
type scene struct {
	title   string
	part    string   // what the client does
	faults  string   // what happens to its requests
	applies []string // the operations that are to have taken effect, once, when it is over
	run     func(*stage, scene) error
}

var story = []scene{
	{title: "A payment, and nothing goes wrong", part: "pay", applies: []string{"payment:order-1138"}},
	{title: "The answer is lost", part: "lost", faults: faultLose, applies: []string{"refund:1138:shoes"}},
	{title: "503, then 429 with Retry-After", part: "overload", faults: fault503 + " " + fault429, applies: []string{"refund:1138:hat"}},
	{title: "Ten concurrent duplicates", part: "duplicates", applies: []string{"refund:1138:scarf"}},
	{title: "The same name with another payload", part: "mismatch"},
	{title: "A terminal 422, corrected", part: "terminal", applies: []string{"refund:1138:coat"}},
	{title: "The client is killed after the effect and before the answer", part: "killed", faults: faultHold, applies: []string{"refund:1138:gloves"}, run: killClient},
	{title: "The service is killed, and restarted on its file", part: "restart", faults: faultHold, applies: []string{"refund:1138:belt"}, run: killService},
	{title: "The rest of the payment is voided", part: "void", applies: []string{"void:order-1138"}},
}

// A stage is where the processes play.
type stage struct {
	dir      string
	timeline *timeline
	service  *process
	address  string
}

// tell plays the story and counts the ledger.
func tell(out io.Writer) error {
	dir, err := os.MkdirTemp("", "redo-quickstart-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s := &stage{dir: dir, timeline: newTimeline(out), address: "127.0.0.1:0"}
	if err := s.startService(); err != nil {
		return err
	}
	defer func() { s.service.kill() }()
	var wanted []string
	for i, sc := range story {
		s.timeline.title(i+1, sc.title)
		if err := s.script(sc.faults); err != nil {
			return err
		}
		run := sc.run
		if run == nil {
			run = (*stage).play
		}
		err := run(s, sc)
		s.settle()
		if err != nil {
			return fmt.Errorf("%s: %w", sc.title, err)
		}
		wanted = append(wanted, sc.applies...)
	}
	entries, err := s.ledger()
	if err != nil {
		return err
	}
	return s.timeline.verdict(count(wanted, entries), entries)
}

// play lets the client do its part and end by itself.
func (s *stage) play(sc scene) error {
	c, err := s.startClient(sc.part)
	if err != nil {
		return err
	}
	return c.wait()
}

// killClient kills the client while the answer is under way, starts another on the same file, and lets it finish what
// it finds there.
func killClient(s *stage, sc scene) error {
	c, err := s.startClient(sc.part)
	if err != nil {
		return err
	}
	if err := s.service.held(); err != nil {
		return err
	}
	s.timeline.note("the client process is killed (SIGKILL), and started again")
	c.kill()
	return s.play(scene{part: "resume"})
}

// killService kills the service while the answer is under way, and starts it again on the same files.
func killService(s *stage, sc scene) error {
	c, err := s.startClient(sc.part)
	if err != nil {
		return err
	}
	if err := s.service.held(); err != nil {
		return err
	}
	s.timeline.note("the service process is killed (SIGKILL), and started again on its files")
	s.service.kill()
	if err := s.startService(); err != nil {
		return err
	}
	return c.wait()
}

func (s *stage) startService() error {
	p, err := start(s.timeline, "service", s.address, filepath.Join(s.dir, "service.redo"), filepath.Join(s.dir, "ledger.jsonl"))
	if err != nil {
		return err
	}
	s.service = p
	s.address, err = p.up()
	return err
}

func (s *stage) startClient(part string) (*process, error) {
	return start(s.timeline, "client", part, "http://"+s.address, filepath.Join(s.dir, "client.redo"))
}

func (s *stage) script(steps string) error {
	resp, err := http.Post("http://"+s.address+"/faults", "text/plain", bytes.NewBufferString(steps))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// settle prints the scene's events in the order in which they happened, once all of them are in.
func (s *stage) settle() {
	if resp, err := http.Post("http://"+s.address+"/mark", "text/plain", nil); err == nil {
		_ = resp.Body.Close()
		s.service.marked()
	}
	s.timeline.flush()
}

func (s *stage) ledger() ([]Entry, error) {
	resp, err := http.Get("http://" + s.address + "/ledger")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var entries []Entry
	return entries, json.NewDecoder(resp.Body).Decode(&entries)
}

// A tally is the ledger held against what was asked for.
type tally struct{ operations, effects, duplicates, lost int }

func count(wanted []string, entries []Entry) tally {
	seen := map[string]int{}
	t := tally{operations: len(wanted), effects: len(entries)}
	for _, e := range entries {
		if seen[e.Reference]++; seen[e.Reference] > 1 {
			t.duplicates++
		}
	}
	for _, name := range wanted {
		if seen[name] == 0 {
			t.lost++
		}
	}
	return t
}

func (t tally) ok() bool { return t.operations == t.effects && t.duplicates == 0 && t.lost == 0 }

func (t tally) String() string {
	return fmt.Sprintf("operations=%d effects=%d duplicates=%d lost=%d", t.operations, t.effects, t.duplicates, t.lost)
}

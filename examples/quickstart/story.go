package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/redo-go/redo/internal/stage"
)

// A scene is one thing that goes wrong.
type scene struct {
	title   string
	part    string // the client's part
	faults  string // the faults of its requests
	dies    string // the process that is killed while the response is held back
	applies string // the operation that must have taken effect once at the end
}

var scenes = []scene{
	{title: "A payment, and nothing goes wrong", part: "pay", applies: "payment:order-1138"},
	{title: "The response is lost", part: "lost", faults: stage.Lose, applies: "refund:1138:shoes"},
	{
		title: "503, then 429 with Retry-After", part: "overload",
		faults: stage.Unavailable + " " + stage.Limited, applies: "refund:1138:hat",
	},
	{title: "Ten concurrent duplicates", part: "duplicates", applies: "refund:1138:scarf"},
	{title: "The same name with another payload", part: "mismatch"},
	{title: "A terminal 422, corrected", part: "terminal", applies: "refund:1138:coat"},
	{
		title: "The client is killed after the effect and before the response", part: "killed",
		faults: stage.Hold, dies: "client", applies: "refund:1138:gloves",
	},
	{
		title: "The service is killed, and restarted on its file", part: "restart",
		faults: stage.Hold, dies: "service", applies: "refund:1138:belt",
	},
	{title: "The rest of the payment is voided", part: "void", applies: "void:order-1138"},
}

// A story is the processes and their files.
type story struct {
	dir      string
	timeline *stage.Timeline
	service  *stage.Process
	address  string
}

// tell plays the scenes and counts the ledger.
func tell(out io.Writer) error {
	dir, err := os.MkdirTemp("", "redo-quickstart-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	timeline := stage.NewTimeline(out, map[string]stage.Style{"client": stage.Cyan, "service": stage.Yellow})
	s := &story{dir: dir, timeline: timeline, address: "127.0.0.1:0"}
	if err := s.startService(); err != nil {
		return err
	}
	defer func() { s.service.Kill() }()
	var wanted []string
	for i, sc := range scenes {
		s.timeline.Title(i+1, sc.title)
		err := s.play(sc)
		s.timeline.Flush()
		if err != nil {
			return fmt.Errorf("%s: %w", sc.title, err)
		}
		if sc.applies != "" {
			wanted = append(wanted, sc.applies)
		}
	}
	entries, err := stage.Ask[[]Entry](s.service, "entries")
	if err != nil {
		return err
	}
	return verdict(out, s.timeline, count(wanted, entries), entries)
}

// play plays a scene. All reports of the scene are on the timeline when it returns.
func (s *story) play(sc scene) error {
	if _, err := stage.Ask[any](s.service, "faults "+sc.faults); err != nil {
		return err
	}
	client, err := s.startClient(sc.part)
	if err != nil {
		return err
	}
	if sc.dies != "" {
		if err := s.service.Held(); err != nil {
			client.Kill()
			return err
		}
	}
	switch sc.dies {
	case "client":
		s.timeline.Note("the client process is killed (SIGKILL), and started again")
		client.Kill()
		client, err = s.startClient("resume")
	case "service":
		s.timeline.Note("the service process is killed (SIGKILL), and started again on its files")
		s.service.Kill()
		err = s.startService()
	}
	if err == nil {
		err = client.Wait()
	}
	_, heard := stage.Ask[any](s.service, "")
	return errors.Join(err, heard)
}

func (s *story) startService() error {
	service, err := stage.Start(s.timeline, "service", role{
		Name: "service", Address: s.address,
		File: filepath.Join(s.dir, "service.redo"), Ledger: filepath.Join(s.dir, "ledger.jsonl"),
	})
	if err != nil {
		return err
	}
	s.service = service
	s.address, err = service.Up()
	return err
}

func (s *story) startClient(part string) (*stage.Process, error) {
	return stage.Start(s.timeline, "client", role{
		Name: "client", Address: s.address, File: filepath.Join(s.dir, "client.redo"), Part: part,
	})
}

// A tally compares the ledger with the requested operations.
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

// verdict prints the ledger and its tally.
func verdict(out io.Writer, t *stage.Timeline, c tally, entries []Entry) error {
	fmt.Fprintf(out, "\n%s\n", t.Paint(stage.Bold, "The service's ledger"))
	for _, e := range entries {
		fmt.Fprintf(out, "  %2d  %-6s %-8s %8s  %s\n", e.Number, e.ID, e.Kind, cents(e.Amount), e.Reference)
	}
	style := stage.Green
	if !c.ok() {
		style = stage.Red
	}
	fmt.Fprintf(out, "\n%s\n", t.Paint(style, c.String()))
	if !c.ok() {
		return errors.New("the ledger does not hold each operation once")
	}
	return nil
}

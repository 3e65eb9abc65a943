package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/outbox"
)

// A system is the processes. The client is started for each of its parts, the others stay.
type system struct {
	dir      string
	database *database // nil: everything is in files
	out      io.Writer
	timeline *stage.Timeline

	old, new secret
	relaying []secret // the relay signs with these
	trusted  []secret // the consumer verifies with these

	addresses map[string]string // of those who listen, the same after a restart
	running   map[string]*stage.Process
	killed    map[string]int
}

var styles = map[string]stage.Style{
	"client": stage.Cyan, "producer": stage.Yellow, "relay": stage.Blue, "consumer": stage.Magenta,
}

// newSystem starts the producer, the consumer and, on Postgres, the relay.
func newSystem(ctx context.Context, postgres string, out io.Writer) (*system, error) {
	s := &system{
		out: out, timeline: stage.NewTimeline(out, styles), killed: map[string]int{},
		running: map[string]*stage.Process{}, addresses: map[string]string{},
	}
	if err := s.open(ctx, postgres); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *system) open(ctx context.Context, postgres string) error {
	var err error
	for _, name := range []string{"producer", "consumer"} {
		if s.addresses[name], err = freeport.Address(); err != nil {
			return err
		}
	}
	if s.dir, err = os.MkdirTemp("", "redo-webhooks-"); err != nil {
		return err
	}
	if postgres != "" {
		if s.database, err = openDatabase(ctx, postgres); err != nil {
			return err
		}
	}
	if s.old, err = makeSecret(oldSecret); err != nil {
		return err
	}
	if s.new, err = makeSecret(newSecret); err != nil {
		return err
	}
	s.relaying, s.trusted = []secret{s.old}, []secret{s.old}
	for _, name := range s.servants() {
		if err := s.start(name); err != nil {
			return err
		}
	}
	return nil
}

// servants are the processes that stay, in the order in which they start. The producer needs the consumer's
// address, so the consumer is first.
func (s *system) servants() []string {
	if s.database != nil {
		return []string{"consumer", "producer", "relay"}
	}
	return []string{"consumer", "producer"}
}

// relayer is the process that the relay runs in.
func (s *system) relayer() string {
	if s.database != nil {
		return "relay"
	}
	return "producer"
}

func (s *system) close() {
	for _, p := range s.running {
		p.Kill()
	}
	if s.database != nil {
		s.database.Close()
	}
	_ = os.RemoveAll(s.dir)
}

// start starts a process that stays, on the files and the address that it had before.
func (s *system) start(name string) error {
	r := role{Name: name, Address: s.addresses[name], File: filepath.Join(s.dir, name+".redo")}
	if s.database != nil {
		r.Postgres, r.Schema = s.database.url, s.database.schemas[name]
	}
	r.Consumer = "http://" + s.addresses["consumer"] + "/webhooks/bank"
	switch name {
	case "consumer":
		r.Secrets = s.trusted
	case s.relayer():
		r.Secrets = s.relaying
	}
	p, err := stage.Start(s.timeline, name, r)
	if err != nil {
		return err
	}
	s.running[name] = p
	_, err = p.Up()
	return err
}

// play starts the client on one of its parts.
func (s *system) play(part string) (*stage.Process, error) {
	p, err := stage.Start(s.timeline, "client", role{
		Name: "client", File: filepath.Join(s.dir, "client.redo"), Producer: "http://" + s.addresses["producer"],
		Part: part,
	})
	if err == nil {
		s.running["client"] = p
	}
	return p, err
}

// playOut lets the client do a part, and waits until it ends.
func (s *system) playOut(part string) error {
	p, err := s.play(part)
	if err != nil {
		return err
	}
	return p.Wait()
}

// restart kills a process that stays, and starts it again.
func (s *system) restart(name string) error {
	s.running[name].Kill()
	return s.start(name)
}

// script sets the faults of a process's next requests, in place of the earlier ones.
func (s *system) script(name, steps string) error {
	_, err := stage.Ask[any](s.running[name], "faults "+steps)
	return err
}

// settled waits until every event is delivered.
func (s *system) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stage.Patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		stats, err := stage.Ask[outbox.Stats](s.running["producer"], "outbox")
		switch {
		case err != nil:
			return err
		case stats.Dead > 0:
			return fmt.Errorf("%d events became dead letters", stats.Dead)
		case stats.Waiting == 0:
			return s.silent()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d events wait in the outbox: %w", stats.Waiting, ctx.Err())
		}
	}
}

// silent waits until all reports of the processes are on the timeline.
func (s *system) silent() error {
	var errs []error
	for _, name := range s.servants() {
		_, err := stage.Ask[any](s.running[name], "")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// count compares both ledgers with the operations that the client requested.
func (s *system) count(wanted []string) (tally, error) {
	producer, err := stage.Ask[[]entry](s.running["producer"], "entries")
	if err != nil {
		return tally{}, err
	}
	consumer, err := stage.Ask[[]entry](s.running["consumer"], "entries")
	return count(wanted, producer, consumer), err
}

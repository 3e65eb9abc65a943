package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A stage is where the processes play. The client is started for each of its parts, the others stay.
type stage struct {
	dir      string
	database *database // nil: everything is in files
	timeline *timeline

	old, new secret
	relaying []secret // what the relay signs with
	trusted  []secret // what the consumer verifies with

	addresses map[string]string // of those who listen, the same after a restart
	running   map[string]*process
	killed    map[string]int
}

// newStage starts the producer, the consumer and, on Postgres, the relay.
func newStage(ctx context.Context, postgres string, out io.Writer) (*stage, error) {
	s := &stage{
		timeline: newTimeline(out), killed: map[string]int{}, running: map[string]*process{},
		addresses: map[string]string{"producer": "127.0.0.1:0", "consumer": "127.0.0.1:0"},
	}
	if err := s.open(ctx, postgres); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) open(ctx context.Context, postgres string) error {
	var err error
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

// servants are the processes that stay, in the order in which they are started: the consumer's address has to be known
// to the producer.
func (s *stage) servants() []string {
	if s.database != nil {
		return []string{"consumer", "producer", "relay"}
	}
	return []string{"consumer", "producer"}
}

// relayer is the process that the relay runs in.
func (s *stage) relayer() string {
	if s.database != nil {
		return "relay"
	}
	return "producer"
}

func (s *stage) close() {
	for _, p := range s.running {
		p.kill()
	}
	if s.database != nil {
		s.database.close()
	}
	_ = os.RemoveAll(s.dir)
}

// start starts a process that stays, on the files and the address that it had before.
func (s *stage) start(name string) error {
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
	p, err := start(s.timeline, r)
	if err != nil {
		return err
	}
	s.running[name] = p
	s.addresses[name], err = await(p, p.up, "it was up")
	return err
}

// play starts the client on one of its parts.
func (s *stage) play(part string) (*process, error) {
	p, err := start(s.timeline, role{
		Name: "client", File: filepath.Join(s.dir, "client.redo"), Producer: "http://" + s.addresses["producer"], Part: part,
	})
	if err == nil {
		s.running["client"] = p
	}
	return p, err
}

// playOut lets the client do a part and end by itself.
func (s *stage) playOut(part string) error {
	p, err := s.play(part)
	if err != nil {
		return err
	}
	return p.wait()
}

// restart kills a process that stays, and starts it again.
func (s *stage) restart(name string) error {
	s.running[name].kill()
	return s.start(name)
}

// script says what happens to the next requests of a process, and leaves nothing of what was said before.
func (s *stage) script(name, steps string) error {
	_, err := s.running[name].ask("faults " + steps)
	return err
}

// settled waits until every event is delivered.
func (s *stage) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		a, err := s.running["producer"].ask("outbox")
		switch {
		case err != nil:
			return err
		case a.Dead > 0:
			return fmt.Errorf("%d events became dead letters", a.Dead)
		case a.Waiting == 0:
			return s.silent()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d events wait in the outbox: %w", a.Waiting, ctx.Err())
		}
	}
}

// silent waits until all that the processes said has been heard: what a process answers comes after what it said.
func (s *stage) silent() error {
	var errs []error
	for _, name := range s.servants() {
		_, err := s.running[name].ask(heard)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// count holds both ledgers against what was asked for.
func (s *stage) count(wanted []string) (tally, error) {
	producer, err := s.running["producer"].ask("entries")
	if err != nil {
		return tally{}, err
	}
	consumer, err := s.running["consumer"].ask("entries")
	return count(wanted, producer.Entries, consumer.Entries), err
}

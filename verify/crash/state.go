package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A state is the progress of a campaign over one store. It is written after each round, so that a campaign that ends
// early goes on with the next round.
type state struct {
	Store  string            `json:"store"`
	Seed   uint64            `json:"seed"`
	Rounds uint64            `json:"rounds"` // that have ended
	Modes  map[string]*tally `json:"modes"`

	path string
}

// openState reads the state of a directory. A new one starts with the seed.
func openState(dir, storeName string, seed uint64) (*state, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := &state{Store: storeName, Seed: seed, Modes: map[string]*tally{}, path: filepath.Join(dir, "state.json")}
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	if s.Store != storeName {
		return nil, fmt.Errorf("%s is of a campaign over %s", s.path, s.Store)
	}
	return s, nil
}

// record adds a round, and replaces the file.
func (s *state) record(m mode, t tally) error {
	if s.Modes[m.name] == nil {
		s.Modes[m.name] = &tally{}
	}
	s.Modes[m.name].add(t)
	s.Rounds++
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	next := s.path + ".new"
	if err := os.WriteFile(next, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(next, s.path)
}

// kills returns the number of kills of all rounds.
func (s *state) kills() (n int) {
	for _, t := range s.Modes {
		n += t.Kills
	}
	return n
}

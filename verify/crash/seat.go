package main

import (
	"sync"
	"syscall"
	"time"

	"github.com/redo-go/redo/internal/stage"
)

// A seat is a place for a process of a fleet. Its process is killed and another one takes the seat, on the same files.
type seat struct {
	role   role
	weight int // how often it is harmed, beside others

	busy bool // it is being harmed; the killer's own

	mu      sync.Mutex
	process *stage.Process
	address string // "" while no process listens
	closed  bool
}

// start starts a process, and waits until it is up.
func (s *seat) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	p, err := stage.Start(nil, s.role.Name, s.role)
	if err != nil {
		return err
	}
	s.process = p
	s.address, err = p.Up()
	return err
}

// listening returns the address of the seat's process, "" if it has none.
func (s *seat) listening() string {
	if !s.mu.TryLock() {
		return "" // it is starting
	}
	defer s.mu.Unlock()
	return s.address
}

// kill sends SIGKILL, and starts the next process.
func (s *seat) kill() error {
	s.end()
	return s.start()
}

func (s *seat) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = ""
	if s.process != nil {
		s.process.Kill()
	}
}

// stop sends SIGSTOP. After a time it sends SIGCONT, if the process shall go on.
func (s *seat) stop(d time.Duration, goOn bool) error {
	if err := s.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(d)
	if !goOn {
		return nil
	}
	return s.process.Signal(syscall.SIGCONT)
}

// close ends the seat's process, also one that is stopped. No other one starts.
func (s *seat) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
}

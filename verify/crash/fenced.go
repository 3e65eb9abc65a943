package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// A fencedFile is the ledger of the modes in two steps: a file that all service processes append to, one at a time. It
// is beside redo's store, so no transaction reaches it. Its own lock lets it refuse an earlier owner of a key.
type fencedFile struct {
	mu      sync.Mutex
	file    *os.File
	read    int64              // bytes that this process has read
	seen    map[string]uint64  // by key: the highest fence
	effects map[string]*effect // by key: the first effect
}

var errStale = errors.New("the ledger refuses an earlier owner of the key")

func openFenced(path string) (*fencedFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &fencedFile{file: f, seen: map[string]uint64{}, effects: map[string]*effect{}}, nil
}

// enter appends an effect. If fenced, it refuses an owner that is older than the last one of the key.
func (l *fencedFile) enter(e effect, fenced bool) error {
	return l.locked(func() error {
		if fenced && e.Fence < l.seen[e.Key] {
			return errStale
		}
		return l.add(e)
	})
}

// find returns the effect of a key, nil if there is none. From then on the ledger refuses earlier owners of the key.
func (l *fencedFile) find(key string, fence uint64) (found *effect, err error) {
	err = l.locked(func() error {
		if fence < l.seen[key] {
			return errStale
		}
		found = l.effects[key]
		return l.add(effect{Key: key, Fence: fence, Mark: true})
	})
	return found, err
}

func (l *fencedFile) add(e effect) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// locked calls f while no other process uses the file, after it has read what they have appended.
func (l *fencedFile) locked(f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fd := int(l.file.Fd())
	for {
		err := syscall.Flock(fd, syscall.LOCK_EX)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
	defer func() { _ = syscall.Flock(fd, syscall.LOCK_UN) }()
	if err := mend(l.file); err != nil {
		return err
	}
	if err := l.catchUp(); err != nil {
		return err
	}
	return f()
}

func (l *fencedFile) catchUp() error {
	text, err := io.ReadAll(io.NewSectionReader(l.file, l.read, 1<<40))
	if err != nil {
		return err
	}
	l.read += int64(len(text))
	for line := range bytes.Lines(text) {
		var e effect
		if json.Unmarshal(line, &e) != nil {
			continue // torn
		}
		l.seen[e.Key] = max(l.seen[e.Key], e.Fence)
		if !e.Mark && l.effects[e.Key] == nil {
			l.effects[e.Key] = &e
		}
	}
	return nil
}

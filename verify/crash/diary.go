package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
)

// A diary is a file of JSON lines, which a process appends to. It knows nothing of redo. A line is one write, so a
// killed process leaves it whole or not at all. A torn line is ended by the next process, and skipped by readers.
type diary struct {
	mu   sync.Mutex
	file *os.File
}

func openDiary(path string) (*diary, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &diary{file: f}, mend(f)
}

// mend ends a torn last line.
func mend(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.Write([]byte{'\n'})
	return err
}

// write appends a line.
func (d *diary) write(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err = d.file.Write(append(text, '\n'))
	return err
}

// readDiary returns the lines of a file. A file that no process has made yet has none.
func readDiary[T any](path string) (lines []T, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text := bufio.NewReader(f)
	for {
		line, err := text.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return lines, nil // the rest is torn, or nothing
		}
		if err != nil {
			return nil, err
		}
		var one T
		if json.Unmarshal(bytes.TrimSpace(line), &one) == nil {
			lines = append(lines, one)
		}
	}
}

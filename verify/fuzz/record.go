package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// A record keeps in a file what each run did, a line each.
type record struct {
	mu   sync.Mutex
	seen map[string]progress // by the target's name, all runs together
	file *os.File
}

// openRecord reads the lines of earlier runs.
func openRecord(path string) (*record, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r := &record{seen: map[string]progress{}, file: f}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), "\t")
		var (
			elapsed string
			p       progress
		)
		_, err := fmt.Sscan(rest, &elapsed, &p.executions, &p.inputs)
		if err == nil {
			p.time, err = time.ParseDuration(elapsed)
		}
		if !ok || err != nil {
			return nil, fmt.Errorf("%s: %q is not a target, a tab, a time and two counts", path, lines.Text())
		}
		r.seen[name] = r.seen[name].plus(p)
	}
	return r, lines.Err()
}

// of returns what all runs did with the target.
func (r *record) of(t target) progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[t.String()]
}

func (r *record) add(t target, p progress) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[t.String()] = r.seen[t.String()].plus(p)
	_, err := fmt.Fprintf(r.file, "%s\t%v %d %d\n", t, p.time, p.executions, p.inputs)
	return err
}

func (r *record) close() error { return r.file.Close() }

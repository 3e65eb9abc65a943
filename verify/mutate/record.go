package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// A record keeps the verdicts in a file, a line each.
type record struct {
	seen map[string]verdict
	file *os.File // nil: none
}

// openRecord reads the verdicts of earlier runs. Without a path it keeps nothing.
func openRecord(path string) (*record, error) {
	r := &record{seen: map[string]verdict{}}
	if path == "" {
		return r, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r.file = f
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		v, name, ok := strings.Cut(lines.Text(), "\t")
		if !ok {
			return nil, fmt.Errorf("%s: %q is not a verdict, a tab and a mutant", path, lines.Text())
		}
		r.seen[name] = verdict(v)
	}
	return r, lines.Err()
}

func (r *record) add(name string, v verdict) error {
	r.seen[name] = v
	if r.file == nil {
		return nil
	}
	_, err := fmt.Fprintf(r.file, "%s\t%s\n", v, name)
	return err
}

func (r *record) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

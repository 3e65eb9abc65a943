package pebblestore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/redo-go/redo/store"
)

// Errors about a directory. Each wraps [store.ErrUnavailable] too, and names the directory.
var (
	// ErrInUse: another process, or another Store in this one, has the directory open.
	ErrInUse = errors.New("pebblestore: directory in use")
	// ErrCorrupt: the directory's content is damaged. Nothing was changed.
	ErrCorrupt = errors.New("pebblestore: directory corrupt")
	// ErrFormat: this package did not write the directory or a record in it, or a later release did. The error names
	// the version. The later release can read it, so a client should retry.
	ErrFormat = errors.New("pebblestore: unknown format")
	// ErrBroken: a write to the disk failed. The Store takes no more calls, because it does not know the content of the
	// disk. Close it, or end the process, and open the directory again: it then has all acknowledged changes.
	ErrBroken = errors.New("pebblestore: broken by a failed write")
)

// errOpen: the directory can't be opened for another reason.
var errOpen = errors.New("pebblestore: can't open the directory")

// refusal returns why the directory at path can't be opened. kind is an error of this file.
func refusal(path string, kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %q: %w: %w", kind, path, fmt.Errorf(format, args...), store.ErrUnavailable)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

func unknownFormat(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// explain names the directory in an error, which wraps ErrUnavailable because nothing was changed.
func (s *Store) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrFormat):
		return fmt.Errorf("%w (in %q): %w", err, s.path, store.ErrUnavailable)
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w (in %q): %w", corrupt("%w", err), s.path, store.ErrUnavailable)
	default:
		return fmt.Errorf("pebblestore: %q: %w: %w", s.path, err, store.ErrUnavailable)
	}
}

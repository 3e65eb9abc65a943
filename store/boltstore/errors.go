package boltstore

import (
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

// Errors about a file. Each wraps [store.ErrUnavailable] too, and names the file.
var (
	// ErrInUse: another process, or another Store in this one, has the file open.
	ErrInUse = errors.New("boltstore: file in use")
	// ErrCorrupt: the file's content is damaged. Nothing was changed.
	ErrCorrupt = errors.New("boltstore: file corrupt")
	// ErrFormat: this package did not write the file or a record in it, or a later release did. The error names the
	// version. The later release can read it, so a client should retry.
	ErrFormat = errors.New("boltstore: unknown format")
)

// ErrTxOpen: Close found a transaction that was begun and not ended.
var ErrTxOpen = errors.New("boltstore: transaction open")

// errOpen: the file can't be opened for another reason.
var errOpen = errors.New("boltstore: can't open the file")

// refusal returns why the file at path can't be opened. kind is ErrInUse or errOpen.
func refusal(path string, kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %q: %w: %w", kind, path, fmt.Errorf(format, args...), store.ErrUnavailable)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

func unknownFormat(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

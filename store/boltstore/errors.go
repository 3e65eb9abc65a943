package boltstore

import (
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

// Why a file can't be used. Each is found with errors.Is beside [store.ErrUnavailable], and each error names
// the file.
var (
	// ErrInUse: another process, or another Store in this one, has the file open.
	ErrInUse = errors.New("boltstore: file in use")
	// ErrCorrupt: the file's content is damaged. Nothing was changed.
	ErrCorrupt = errors.New("boltstore: file corrupt")
	// ErrFormat: the file, or a record in it, is not this package's or was written by a later release.
	ErrFormat = errors.New("boltstore: unknown format")
)

// ErrTxOpen: Close found a transaction that was begun and not ended.
var ErrTxOpen = errors.New("boltstore: transaction open")

// errOpen begins the errors about a file that are of no kind a caller could tell apart.
var errOpen = errors.New("boltstore: can't open the file")

// refusal says why the file at path can't be opened; kind is ErrInUse or errOpen.
func refusal(path string, kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %q: %w: %w", kind, path, fmt.Errorf(format, args...), store.ErrUnavailable)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

func unknownFormat(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package boltstore

import (
	"errors"
	"os"
)

// unlock does nothing: closing the file gives up bbolt's lock on it.
func unlock(*os.File) error { return nil }

// lock is not known here.
func lock(*os.File) error { return errors.ErrUnsupported }

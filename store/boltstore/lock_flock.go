//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltstore

import (
	"os"
	"syscall"
)

// unlock gives up bbolt's lock on the file. A mapping that is left keeps a closed file locked.
func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// lock takes bbolt's lock on the file. It does not wait.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

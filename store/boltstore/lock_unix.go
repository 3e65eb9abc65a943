//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltstore

import (
	"errors"
	"os"
	"syscall"
)

var errLocked = errors.New("locked")

// lockFile takes the lock that bbolt takes, so that the file can be looked at under it: bbolt's own call on
// the same open file then succeeds. Closing the file gives it up.
func lockFile(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	err = conn.Control(func(fd uintptr) {
		lockErr = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
	})
	if errors.Is(lockErr, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return errors.Join(err, lockErr)
}

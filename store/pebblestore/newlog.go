package pebblestore

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A logFS ends the Store if the file of a new log can't be made. Pebble would panic while it does not hold a mutex that
// it then unlocks, which ends the process.
type logFS struct {
	vfs.FS
	s     *Store
	begun atomic.Bool // Pebble's Open has made its log, or has tried to. It returns the error itself
}

// Create implements vfs.FS.
func (l *logFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, c)
	l.made(name, err)
	return f, err
}

// ReuseForWrite implements vfs.FS.
func (l *logFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(old, name, c)
	l.made(name, err)
	return f, err
}

func (l *logFS) made(name string, err error) {
	if strings.HasSuffix(name, ".log") && l.begun.Swap(true) && err != nil {
		l.s.halt(err)
	}
}

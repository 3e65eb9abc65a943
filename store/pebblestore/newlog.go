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
	armed atomic.Bool // after Pebble's Open, which returns such an error itself
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
	if err != nil && l.armed.Load() && strings.HasSuffix(name, ".log") {
		l.s.halt(err)
	}
}

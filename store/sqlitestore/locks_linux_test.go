package sqlitestore_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A process that closes a descriptor of a file loses all its POSIX locks on the file. SQLite before 3.51 then deletes
// the -wal file when another process closes the database, and the first process goes on to write the deleted file.
func TestASecondOpenKeepsTheLocksOfTheFirst(t *testing.T) {
	const (
		getLock     = 36         // F_OFD_GETLK, which sees the locks of this process too
		sharedFirst = 0x40000002 // https://sqlite.org/src/file/src/os.h
		sharedSize  = 510
	)
	path := newFile(t)
	st := open(t, path)
	reserve(t, st, claim("k"), store.Acquired)
	require.NoError(t, open(t, path).Close())

	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: sharedFirst, Len: sharedSize}
	require.NoError(t, syscall.FcntlFlock(f.Fd(), getLock, &lock))
	require.EqualValues(t, syscall.F_RDLCK, lock.Type)
}

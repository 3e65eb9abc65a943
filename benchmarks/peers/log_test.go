package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALogHasEachRecordBeforeItsCallerGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	synced := 0 // by the one writer
	l, err := openLog(path, func(f *os.File) error {
		synced++
		return syncData(f)
	})
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			key := strings.Repeat(string(rune('a'+i)), 100)
			if err := l.add(key, nil); err != nil {
				t.Error(err)
			}
			content, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(content), key) {
				t.Errorf("record %d is not in the file: %v", i, err)
			}
		})
	}
	all.Wait()
	require.NoError(t, l.close())
	require.Positive(t, synced)
	require.LessOrEqual(t, synced, 8)
	require.ErrorIs(t, l.add("late", nil), errLogClosed)
}

func TestALogReportsAFailedSync(t *testing.T) {
	failure := errors.New("no space")
	l, err := openLog(filepath.Join(t.TempDir(), "log"), func(*os.File) error { return failure })
	require.NoError(t, err)
	require.ErrorIs(t, l.add("key", nil), failure)
	require.NoError(t, l.close())
}

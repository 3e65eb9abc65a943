package disk

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// After a sync that failed the store acknowledges nothing until it is opened again, and no power cut loses anything.
// The process commits in one thread, whose syncs strace numbers. The Ledger refuses an acknowledgement after the
// failure.
func TestFailedSync(t *testing.T) {
	racetest.Repeats(t) // boltstore's own tests run this code
	needStrace(t)
	met := map[string]int{}
	for _, in := range []Injection{
		"fdatasync:error=EIO:when=1", // of a new file
		"fdatasync:error=EIO:when=7", "fdatasync:error=EIO:when=8",
		"fdatasync:error=EIO:when=9", "fdatasync:error=EIO:when=10",
		"fsync:error=EIO:when=1", "fsync:error=EIO:when=2", "fsync:error=EIO:when=3",
	} {
		h := newHistory(t, *seed, 0, 5).record(t, in)
		kinds := h.failed(t)
		require.NotEmpty(t, kinds, in)
		for _, kind := range kinds {
			met[kind]++
		}
		n, err := h.record(t).replay(t, 2).Run(t.Context(), h.sessions...)
		require.NoError(t, err, in)
		require.NotZero(t, n.Acks, "the next process works")
	}
	require.Len(t, met, 4, "each kind of sync failed: %v", met)
}

// The twin: a write that fails changes nothing, and does not end the store. Each later commit is acknowledged again.
func TestFailedWrite(t *testing.T) {
	racetest.Repeats(t) // boltstore's own tests run this code
	needStrace(t)
	h := newHistory(t, *seed, 0, 8).record(t, "pwrite64:error=ENOSPC:when=20..24")
	refused, done := 0, 0
	for _, c := range h.sessions[0] {
		if c.Kind != Ack {
			continue
		}
		e, err := parseEvent(c.Data)
		require.NoError(t, err)
		switch {
		case e.Op == "commit" && e.Stage == Refused:
			refused++
		case e.Op == "commit" && e.Stage == Done && refused > 0:
			done++
		}
	}
	require.NotZero(t, refused)
	require.NotZero(t, done)
	_, err := h.record(t).replay(t, 2).Run(t.Context(), h.sessions...)
	require.NoError(t, err)
}

// mount makes a file system in memory, or skips the test if that is not permitted.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a file system of a fixed size can't be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", dir).Run()) })
	return dir
}

// On a full disk changes are refused, and what was acknowledged stays. When there is room, the same store goes on.
func TestFullDisk(t *testing.T) {
	dir := mount(t, "size=1m")
	path, filler := filepath.Join(dir, "full.redo"), filepath.Join(dir, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, 512<<10), 0o600))
	st, err := boltstore.Open(path)
	require.NoError(t, err)
	defer func() { _ = st.Close() }()
	var l Ledger
	result := bytes.Repeat([]byte("result "), 2000)
	write := func(key string) error {
		c := claimOf(key)
		g, err := st.Reserve(t.Context(), c)
		if err != nil {
			return err
		}
		require.NoError(t, l.Add(Event{Stage: Begun, Op: "reserve", Key: key}))
		require.NoError(t, l.Add(Event{Stage: Done, Op: "reserve", Key: key, Found: factOf(g.Record)}))
		if err := st.Complete(t.Context(), g.Lease, store.Outcome{Result: result}); err != nil {
			return err
		}
		f := settled(factOf(g.Record), store.Outcome{Result: result})
		require.NoError(t, l.Add(Event{Stage: Begun, Op: "complete", Key: key}))
		return l.Add(Event{Stage: Done, Op: "complete", Key: key, Found: f})
	}
	for i := 0; err == nil; i++ {
		require.Less(t, i, 1000, "the disk is never full")
		err = write(fmt.Sprint("before ", i))
	}
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
	require.ErrorContains(t, err, "no space left on device")
	require.Error(t, st.Check(t.Context()))
	require.Greater(t, len(l.keys), 5)
	require.NoError(t, os.Remove(filler))
	require.NoError(t, write("after"))
	require.NoError(t, st.Check(t.Context()))
	require.NoError(t, st.Close())
	require.NoError(t, l.Open(t.Context(), path, true))
}

// A file that may not be written is refused, and not changed.
func TestReadOnlyDisk(t *testing.T) {
	dir := mount(t, "size=1m")
	path := filepath.Join(dir, "work.redo")
	l := workInProcess(t, path, 2, filepath.Join(t.TempDir(), "events"))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, exec.Command("mount", "-o", "remount,ro", dir).Run())
	err = l.Open(t.Context(), path, false)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "read-only file system")
	require.ErrorIs(t, l.Open(t.Context(), filepath.Join(dir, "new.redo"), false), ErrRefused)
	require.NoError(t, exec.Command("mount", "-o", "remount,rw", dir).Run())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after))
	require.NoError(t, l.Open(t.Context(), path, true), "the twin: a disk that may be written")
}

// workInProcess runs a workload in this process, writes its events to a file, and returns what the store then owes.
func workInProcess(t *testing.T, path string, rounds int, events string) *Ledger {
	t.Helper()
	var out bytes.Buffer
	w := Workload{Path: path, Session: "1", Seed: *seed, Workers: 1, Rounds: rounds, Print: &out}
	require.NoError(t, w.Run(t.Context()))
	require.NoError(t, os.WriteFile(events, out.Bytes(), 0o600))
	l, err := readLedger(events)
	require.NoError(t, err)
	return l
}

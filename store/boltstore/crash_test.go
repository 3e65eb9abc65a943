package boltstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// The test binary runs itself as the process that crashes: with the first of these variables set it works on the named
// file, with the second in transactions: see workInTransactions.
const (
	childFile = "BOLTSTORE_TEST_CHILD"
	childTx   = "BOLTSTORE_TEST_CHILD_TX"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		do := work
		if os.Getenv(childTx) != "" {
			do = workInTransactions
		}
		if err := do(path, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const childWorkers = 8

// work reserves and settles until it is killed, and prints what was acknowledged after it was: a line is one
// write. Its workers settle durably, lazily, or not at all, and release now and then.
func work(path string, out io.Writer) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, format+"\n", args...)
	}
	say("open")
	ctx := context.Background()
	errs := make(chan error)
	for w := range childWorkers {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				g, err := s.Reserve(ctx, claim(key))
				if err != nil {
					errs <- err
					return
				}
				say("reserved %s %d", key, g.Lease.Fence)
				o := store.Outcome{Result: []byte(key), Lazy: i%4 == 1}
				switch i % 4 {
				case 0, 1:
					if err = s.Complete(ctx, g.Lease, o); err == nil {
						say("%s %s %d", map[bool]string{false: "completed", true: "lazily"}[o.Lazy], key, g.Lease.Fence)
					}
				case 2:
					say("releasing %s %d", key, g.Lease.Fence)
					if err = s.Release(ctx, g.Lease); err == nil {
						say("released %s %d", key, g.Lease.Fence)
					}
				}
				if err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	path := tempFile(t)
	said := make(map[string]string) // the last word on each key
	fences := make(map[string]uint64)
	top := uint64(0)
	for range rounds {
		lines := 1 + rand.IntN(400)
		t.Logf("killing after %d lines", lines)
		for _, line := range runAndKill(t, path, lines) {
			word, rest, _ := strings.Cut(line, " ")
			if word == "open" {
				continue
			}
			key, number, _ := strings.Cut(rest, " ")
			fence, err := strconv.ParseUint(number, 10, 64)
			require.NoError(t, err)
			said[key], fences[key] = word, fence
			top = max(top, fence)
		}
		s := mustOpen(t, path)
		for key, word := range said {
			checkSurvivor(t, s, key, word, fences[key])
		}
		g := mustReserve(t, s, claim(fmt.Sprint("after ", top)), store.Acquired)
		require.Greater(t, g.Lease.Fence, top)
		top = g.Lease.Fence
		checkIndexes(t, s)
		require.NoError(t, s.Close())
	}
}

// runAndKill runs the child until it has said so many lines, and returns all it said before it was dead.
func runAndKill(t *testing.T, path string, lines int, env ...string) []string {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(append(os.Environ(), childFile+"="+path), env...)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var said []string
	in := bufio.NewScanner(out)
	for in.Scan() {
		said = append(said, in.Text())
		if len(said) == lines {
			require.NoError(t, child.Process.Kill())
		}
	}
	require.NoError(t, in.Err())
	require.Error(t, child.Wait())
	require.Contains(t, []string{"signal: killed", "exit status 1"}, child.ProcessState.String()) // on Unix; on Windows
	require.GreaterOrEqual(t, len(said), lines)
	return said
}

func checkSurvivor(t *testing.T, s *Store, key, word string, fence uint64) {
	t.Helper()
	r, err := s.Find(t.Context(), claim(key).ID)
	if word == "released" {
		require.ErrorIs(t, err, store.ErrNotFound, key)
		return
	}
	if word == "releasing" && err != nil {
		require.ErrorIs(t, err, store.ErrNotFound, key)
		return
	}
	require.NoError(t, err, "%s was %s", key, word)
	require.Equal(t, fence, r.Fence)
	require.Equal(t, "meta of "+key, string(r.Meta))
	require.Zero(t, r.LeaseLeft(), "%s has the lease of a dead process", key)
	switch {
	case word == "completed", r.State != store.StatePending:
		// What was reserved may have been completed without the word getting out.
		require.Equal(t, store.StateComplete, r.State, key)
		require.Equal(t, key, string(r.Result))
	default:
		require.Nil(t, r.Result)
	}
}

// checkIndexes walks all records: each stands in the indexes exactly where it belongs.
func checkIndexes(t *testing.T, s *Store) {
	t.Helper()
	require.NoError(t, s.view(func(b buckets) error {
		pending, expiring := 0, 0
		err := b.records.ForEach(func(k, v []byte) error {
			r, err := decodeRecord(k, v)
			require.NoError(t, err)
			if r.pending() {
				pending++
				require.NotNil(t, b.pending.Get(envelope.AppendIndexKey(nil, envelope.Nanos(r.CreatedAt), k)))
			}
			if !r.ExpiresAt.IsZero() {
				expiring++
				require.NotNil(t, b.expiry.Get(envelope.AppendIndexKey(nil, envelope.Nanos(r.ExpiresAt), k)))
			}
			return nil
		})
		require.Equal(t, pending, count(b.pending.ForEach))
		require.Equal(t, expiring, count(b.expiry.ForEach))
		return err
	}))
}

func count(each func(func(k, v []byte) error) error) int {
	n := 0
	_ = each(func(_, _ []byte) error { n++; return nil })
	return n
}

func TestSecondProcessIsRefusedAtOnce(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	mustSettle(t, s, "k", store.Outcome{})
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childFile+"="+path)
	out, err := child.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), ErrInUse.Error())
	require.Contains(t, string(out), strconv.Quote(path))
	mustReserve(t, s, claim("k"), store.Complete)
}

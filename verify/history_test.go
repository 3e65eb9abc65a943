package verify

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/pebblestore"
)

// Every rule of the contract holds for calls that overlap: some order of them explains every result.

// seeds returns the seeds of n histories, times REDO_VERIFY_ROUNDS if that is set.
func seeds(t testing.TB, n int) []uint64 {
	t.Helper()
	first, rounds := number(t, "REDO_VERIFY_SEED"), max(1, number(t, "REDO_VERIFY_ROUNDS"))
	all := make([]uint64, n*rounds)
	for i := range all {
		all[i] = uint64(first + i)
	}
	return all
}

func number(t testing.TB, name string) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "%s is no number", name)
	return n
}

// requireLinearizable fails the test and draws the history if no correct store could have returned its results.
func requireLinearizable(t *testing.T, h history) {
	t.Helper()
	v := h.check()
	if v == nil {
		return
	}
	drawn := ""
	if v.draw != nil {
		path := filepath.Join(pageDir(t), fmt.Sprintf("history-%d.html", v.seed))
		require.NoError(t, v.draw(path))
		drawn = ", see " + path
	}
	t.Fatalf("seed %d: %v%s\nto run it again: REDO_VERIFY_SEED=%d", v.seed, v.reason, drawn, v.seed)
}

// pageDir is a directory that outlives the test: that of -artifacts, or else a temporary one.
func pageDir(t *testing.T) string {
	t.Helper()
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		return t.ArtifactDir()
	}
	dir, err := os.MkdirTemp("", "redo-verify-") //nolint:usetesting // who reads the page does so after the test
	require.NoError(t, err)
	return dir
}

// bubble makes a history in virtual time and checks it in real time.
func bubble(t *testing.T, p plan, open func(t *testing.T) store.Store) history {
	t.Helper()
	var h history
	synctest.Test(t, func(t *testing.T) {
		st := open(t)
		p.scale = virtual(time.Now())
		h = p.run(t.Context(), st)
	})
	return h
}

func openMemory(t *testing.T) store.Store {
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// An embedded store belongs to one process, which closes it.
type embedded interface {
	store.Store
	io.Closer
}

func boltAt(path string) (embedded, error) { return boltstore.Open(path) }

func pebbleAt(path string) (embedded, error) { return pebblestore.Open(path) }

func openBolt(t *testing.T) store.Store { return openNew(t, boltAt) }

func openPebble(t *testing.T) store.Store { return openNew(t, pebbleAt) }

func openNew(t *testing.T, open func(path string) (embedded, error)) store.Store {
	st, err := open(filepath.Join(t.TempDir(), "verify.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// inTime is a history in which leases end and records expire.
func inTime(seed uint64) plan {
	return plan{seed: seed, workers: 8, calls: 60, ids: 3, scope: "s", palette: passing}
}

// inPlace is a history of many overlapping calls in which no time passes.
func inPlace(seed uint64) plan {
	return plan{seed: seed, workers: 12, calls: 40, ids: 3, scope: "s", palette: standing}
}

// historiesIn makes histories of each kind, n of them, in virtual time.
func historiesIn(t *testing.T, n int, open func(*testing.T) store.Store) {
	many := func(t *testing.T, plan func(seed uint64) plan, cancel func(*rand.Rand, context.CancelFunc) func()) {
		for _, seed := range seeds(t, n) {
			p := plan(seed)
			p.cancel = cancel
			requireLinearizable(t, bubble(t, p, open))
		}
	}
	t.Run("linearizable while time passes", func(t *testing.T) { many(t, inTime, nil) })
	t.Run("linearizable while no time passes", func(t *testing.T) { many(t, inPlace, nil) })
	t.Run("linearizable while contexts end", func(t *testing.T) { many(t, inTime, cancelSoon) })
}

func TestHistoriesInMemory(t *testing.T) { historiesIn(t, 60, openMemory) }

func TestHistoriesInAFile(t *testing.T) { historiesIn(t, 8, openBolt) }

func TestHistoriesInADirectory(t *testing.T) { historiesIn(t, 8, openPebble) }

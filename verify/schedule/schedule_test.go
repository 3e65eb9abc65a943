package schedule

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
)

// A tally counts the runs of a series, their steps, effects and requests.
type tally struct{ runs, steps, effects, requests int }

// series plays runs until they have made enough steps, or until one breaks a rule. Runs share a bubble and a store
// in batches. Each has its own operation.
func series(
	t *testing.T, s setup, open func(*testing.T) backend, first uint64, batch, steps int,
) (sum tally, found *violation) {
	t.Helper()
	s.wait = synctest.Wait
	for seed := first; found == nil && sum.steps < steps; {
		synctest.Test(t, func(t *testing.T) {
			st := open(t)
			for range batch {
				r := newRun(s, st, seed)
				found = r.play(t.Context())
				sum.runs++
				sum.steps += r.steps
				sum.effects += r.server.effects()
				sum.requests += len(r.exchanges)
				if seed++; found != nil || sum.steps >= steps {
					return
				}
			}
		})
	}
	return sum, found
}

func openMemory(t *testing.T) backend {
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func openBolt(t *testing.T) backend {
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "schedule.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// number reads a number from the environment. It is the default if the variable is not set.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// keeps checks that no run of a series breaks a rule.
func keeps(t *testing.T, s setup, open func(*testing.T) backend, batch, steps int) {
	t.Helper()
	first := uint64(number(t, "REDO_VERIFY_SEED", 0))
	steps *= number(t, "REDO_VERIFY_ROUNDS", 1)
	sum, found := series(t, s, open, first, batch, steps)
	t.Logf("%d steps in %d runs: %d requests on the wire, %d effects", sum.steps, sum.runs, sum.requests, sum.effects)
	if found != nil {
		require.Fail(t, string(found.rule), "%v", found)
	}
	require.GreaterOrEqual(t, sum.steps, steps)
}

func TestClientInMemory(t *testing.T) {
	keeps(t, setup{connect: connect}, openMemory, 100, steps)
}

func TestClientInAFile(t *testing.T) {
	keeps(t, setup{connect: connect}, openBolt, 20, stepsInAFile)
}

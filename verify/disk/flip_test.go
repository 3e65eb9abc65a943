package disk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

var flips = flag.Int("flips", 300, "bit flips that TestBitFlips makes")

// flipVariable makes the test binary open flipped files, because damage might end the process.
const flipVariable = "REDO_VERIFY_DISK_FLIPS"

// A flipJob is the work of such a process.
type flipJob struct {
	File, Events, Scratch string
	Flips                 []Flip
}

// run prints the reaction to each flip.
func (j flipJob) run(out io.Writer) error {
	content, err := os.ReadFile(j.File)
	if err != nil {
		return err
	}
	l, err := readLedger(j.Events)
	if err != nil {
		return err
	}
	for _, f := range j.Flips {
		late := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("%+v: the store hangs", f)) })
		r, err := l.OpenFlipped(context.Background(), content, f, j.Scratch)
		late.Stop()
		if err != nil {
			return fmt.Errorf("%+v: %w", f, err)
		}
		fmt.Fprintln(out, r)
	}
	return nil
}

// readLedger returns the ledger of the events in a file.
func readLedger(path string) (*Ledger, error) {
	lines, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var l Ledger
	for line := range slices.Values(bytes.Split(bytes.TrimSpace(lines), []byte("\n"))) {
		e, err := parseEvent(line)
		if err == nil {
			err = l.Add(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return &l, nil
}

// A flipped bit is refused, found or harmless, in each kind of page. It ends no process, and no record is lost or
// changed silently. The application's buckets are left out: they have no checksums.
func TestBitFlips(t *testing.T) {
	racetest.Repeats(t) // boltstore's own tests run this code
	dir := scratch(t)
	job := flipJob{
		File: filepath.Join(dir, "work.redo"), Events: filepath.Join(dir, "events"),
		Scratch: filepath.Join(dir, "state.redo"),
	}
	workInProcess(t, job.File, 60, job.Events)
	all, err := Flips(job.File, *flips, rand.New(rand.NewPCG(*seed, 5)))
	require.NoError(t, err)
	table := map[string]map[Reaction]int{}
	for len(all) > 0 {
		job.Flips = all[:min(len(all), 1000)]
		reactions, err := job.start(t)
		require.NoError(t, err, "seed %d: the flip %+v", *seed, job.Flips[min(len(reactions), len(job.Flips)-1)])
		require.Len(t, reactions, len(job.Flips))
		for i, r := range reactions {
			kind := job.Flips[i].Kind
			if table[kind] == nil {
				table[kind] = map[Reaction]int{}
			}
			table[kind][r]++
		}
		all = all[len(job.Flips):]
	}
	require.Len(t, table, 6, "each kind of page was hit: %v", table)
	for kind, n := range table {
		t.Logf("| %s | %d | %d | %d | %d |", kind, n[RefusedToOpen], n[RefusedInUse], n[FoundByVerify], n[Unharmed])
	}
	require.NotZero(t, table["free"][Unharmed], "the twin: bytes that are not used")
	require.Len(t, table["free"], 1, "the twin: bytes that are not used")
	require.NotZero(t, table["leaf"][RefusedToOpen])
	require.NotZero(t, table["overflow"][RefusedInUse])
}

// start runs the job in a process.
func (j flipJob) start(t *testing.T) (reactions []Reaction, err error) {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), flipVariable+"="+string(text))
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		reactions = append(reactions, Reaction(lines.Text()))
	}
	if err := cmd.Wait(); err != nil {
		return reactions, errors.Join(err, errors.New(failure.String()[:min(failure.Len(), 2000)]))
	}
	return reactions, nil
}

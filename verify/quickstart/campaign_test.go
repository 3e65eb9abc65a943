package quickstart

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/internal/stage"
)

const (
	kills   = 40
	refunds = 40 // of the quickstart's part "campaign"
)

// A campaign runs the client and the service of a build of the quickstart.
type campaign struct {
	program, dir, address string
	timeline              *stage.Timeline
	service               *stage.Process
}

func newCampaign(t *testing.T, out *strings.Builder) *campaign {
	t.Helper()
	dir := t.TempDir()
	address, err := freeport.Address()
	require.NoError(t, err)
	c := &campaign{
		program: filepath.Join(dir, "quickstart"), dir: dir, address: address,
		timeline: stage.NewTimeline(out, nil),
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", c.program, "./examples/quickstart")
	build.Dir = "../.."
	printed, err := build.CombinedOutput()
	require.NoError(t, err, "%s", printed)
	c.startService(t)
	t.Cleanup(func() { c.service.Kill() })
	return c
}

// start starts a process with a role of the quickstart.
func (c *campaign) start(t *testing.T, role map[string]string) *stage.Process {
	t.Helper()
	role["address"], role["file"] = c.address, filepath.Join(c.dir, role["name"]+".redo")
	p, err := stage.StartProgram(c.program, c.timeline, role["name"], role)
	require.NoError(t, err)
	return p
}

func (c *campaign) startService(t *testing.T) {
	t.Helper()
	c.service = c.start(t, map[string]string{"name": "service", "ledger": filepath.Join(c.dir, "ledger.jsonl")})
	_, err := c.service.Up()
	require.NoError(t, err)
}

func (c *campaign) startClient(t *testing.T, part string) *stage.Process {
	t.Helper()
	return c.start(t, map[string]string{"name": "client", "part": part})
}

// script sets random faults for the next requests.
func (c *campaign) script(t *testing.T, r *rand.Rand) {
	t.Helper()
	steps := make([]string, 20)
	for i := range steps {
		steps[i] = []string{stage.None, stage.None, stage.Lose, stage.Unavailable}[r.IntN(4)]
	}
	_, err := stage.Ask[any](c.service, "faults "+strings.Join(steps, " "))
	require.NoError(t, err)
}

// The client and the service are killed with SIGKILL at random moments, under faults, and started again on their files.
// When the client has done all its operations, the ledger holds each exactly once. The scheduler chooses the moments,
// so a seed does not repeat a run.
func TestCrashCampaign(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	var out strings.Builder
	c := newCampaign(t, &out)
	require.NoError(t, c.startClient(t, "pay").Wait())
	c.script(t, r)
	client := c.startClient(t, "campaign")
	t.Cleanup(func() { client.Kill() })
	for range kills {
		select {
		case <-time.After(time.Duration(r.IntN(int(60 * time.Millisecond)))):
		case <-client.Ended: // it is done, or has given up: it starts again
		}
		if r.IntN(2) == 0 {
			c.service.Kill()
			c.startService(t)
			c.script(t, r)
			continue
		}
		client.Kill()
		client = c.startClient(t, "campaign")
	}
	if err := client.Wait(); err != nil {
		require.NoError(t, c.startClient(t, "campaign").Wait(), "after %v", err)
	}
	require.NoError(t, c.startClient(t, "resume").Wait(), "an operation can't be settled")

	entries, err := stage.Ask[[]struct{ Reference string }](c.service, "entries")
	require.NoError(t, err)
	want, got := []string{"payment:order-1138"}, []string{}
	for i := range refunds {
		want = append(want, fmt.Sprintf("refund:campaign:%d", i))
	}
	for _, e := range entries {
		got = append(got, e.Reference)
	}
	c.timeline.Flush()
	t.Logf("found in the ledger after a crash: %d", strings.Count(out.String(), "finds in its ledger"))
	require.ElementsMatch(t, want, got, "%s", &out)
}
